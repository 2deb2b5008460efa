"""A session's row as the room itself uses it, and its reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from postroom.model.event import Event
from postroom.model.principal import Principal
from postroom.sessions import tables
from postroom.store.engine import Reader, Store, Tx
from postroom.store.statement import Statement


@dataclass(frozen=True, slots=True)
class Row:
    """Columns of `tables.COLUMNS`, in that order."""

    session_id: str
    thread_id: str | None
    inbox_id: str
    agent_id: str
    born: int
    offered: int
    taken: int
    newest: int
    attempts: int
    next_at: int
    waiting: str
    created_at: int
    updated_at: int

    @property
    def key(self) -> tuple[str, str]:
        """Agent and session id: what names a session."""
        return self.agent_id, self.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """One event and the session it belongs to."""

    event: Event
    session_id: str
    thread_id: str | None
    agent_id: str
    driven: bool


class Rows:
    """Reads and writes of the session table."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def route(self, routed: Sequence[Routed], cursor: str, seq: int) -> None:
        """Take the events into their sessions and move the router's cursor, in one transaction."""
        at = self._store.clock.now_us()

        def work(tx: Tx) -> None:
            for item in routed:
                found = tx.one(tables.GET, agent_=item.agent_id, session_id_=item.session_id)
                if found is None:
                    tx.insert(
                        tables.INSERT,
                        pod=item.event.pod_id,
                        session_id=item.session_id,
                        thread=item.thread_id,
                        inbox=item.event.inbox_id,
                        agent=item.agent_id,
                        born=item.event.seq - 1,
                        newest=item.event.seq,
                        next_at=_next_at(item.driven),
                        at=at,
                    )
                else:
                    tx.run(
                        tables.ROUTED,
                        agent_=item.agent_id,
                        session_id_=item.session_id,
                        newest_=item.event.seq,
                        next_at_=_next_at(item.driven),
                        at_=at,
                    )
            self._store.events.set_cursor(tx, cursor, seq)

        await self._store.write(work)

    def get(self, agent_id: str, session_id: str) -> Row | None:
        """The session of this agent, if it exists."""
        return _row(self._store.read_now(lambda reader: reader.one(tables.GET, agent_=agent_id, session_id_=session_id)))

    def find(self, principal: Principal, session_id: str) -> Row | None:
        """The session as far as the caller may see it: an agent its own, the owner any."""
        if principal.agent_id is not None:
            return self.get(principal.agent_id, session_id)
        return _row(self._store.read_now(lambda reader: reader.one(tables.FIND, session_id_=session_id)))

    async def newest(self, principal: Principal, limit: int) -> list[Row]:
        """Newest first; an agent sees its own."""

        def work(reader: Reader) -> list[Row]:
            if principal.agent_id is not None:
                found = reader.all(tables.LIST_OF_AGENT, agent_=principal.agent_id, limit_=limit)
            else:
                found = reader.all(tables.LIST, limit_=limit)
            return [Row(*row) for row in found]

        return await self._store.read(work)

    async def waiting(self, principal: Principal, limit: int) -> list[Row]:
        """Sessions with something pending, the one that waits longest first; an agent sees its own."""

        def work(reader: Reader) -> list[Row]:
            if principal.agent_id is not None:
                found = reader.all(tables.WAITING_OF_AGENT, agent_=principal.agent_id, limit_=limit)
            else:
                found = reader.all(tables.WAITING_ANY, limit_=limit)
            return [Row(*row) for row in found]

        return await self._store.read(work)

    async def reschedule(self, driven: Mapping[str, bool]) -> None:
        """Whom postroom drives may have changed with the config: look again at what is pending."""

        def work(tx: Tx) -> None:
            for agent_id, is_driven in driven.items():
                tx.run(tables.RESCHEDULED, agent_=agent_id, next_at_=_next_at(is_driven))

        await self._store.write(work)

    def agents(self) -> list[str]:
        """Agents that have sessions."""
        return [row[0] for row in self._store.read_now(lambda reader: reader.all(tables.AGENTS))]

    def due(self, now: int, limit: int) -> tuple[list[Row], int | None]:
        """The first sessions with something pending that may be tried now, and when the next one may."""

        def work(reader: Reader) -> tuple[list[Row], int | None]:
            return [Row(*row) for row in reader.all(tables.DUE, now_=now, limit_=limit)], reader.scalar(tables.NEXT_AT, now_=now)

        return self._store.read_now(work)

    async def offered(self, row: Row, seq: int) -> None:
        """Notices up to `seq` were handed over."""
        await self._move(tables.OFFERED, row, seq)

    async def taken(self, row: Row, seq: int) -> None:
        """A turn took the notices up to `seq`."""
        await self._move(tables.TAKEN, row, seq)

    async def waits(self, row: Row, *, attempts: int, next_at: int, reason: str) -> None:
        """Nothing took them; try again at `next_at`."""
        at, key = self._store.clock.now_us(), {"agent_": row.agent_id, "session_id_": row.session_id}
        await self._store.write(
            lambda tx: tx.run(
                tables.WAITING, **key, newest_=row.newest, attempts_=attempts, next_at_=next_at, waiting_=reason, at_=at
            )
        )

    async def _move(self, statement: Statement, row: Row, seq: int) -> None:
        at, key = self._store.clock.now_us(), {"agent_": row.agent_id, "session_id_": row.session_id}
        await self._store.write(lambda tx: tx.run(statement, **key, seq_=seq, at_=at))


def _next_at(driven: bool) -> int:
    return 0 if driven else tables.NEVER


def _row(found: tuple[object, ...] | None) -> Row | None:
    return None if found is None else Row(*found)  # type: ignore[arg-type]  # the columns are tables.COLUMNS
