"""The event log: facts in the order they were committed, and named positions in it.

`after` and `wait` are how every follower works (WebSocket, webhooks, sessions, the gate): ask for
what lies after your position, then wait until there is more. The newest events are kept in memory,
so a thousand followers who are up to date cost no query. A cursor never goes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from sqlalchemy import bindparam, func, select

from postroom.errors import StorageFailure
from postroom.model.event import Event
from postroom.store import schema
from postroom.store.statement import Statement, in_list, sql, upsert
from postroom.store.transaction import Reader, Row, Tx

T = TypeVar("T")

RECENT: Final = 1024  # events kept in memory

_e = schema.event.c
_COLUMNS = (_e.seq, _e.event_id, _e.pod, _e.kind, _e.ref, _e.at, _e.agent, _e.inbox, _e.thread, _e.snapshot)
_LAST = sql(select(func.max(_e.seq)))
_SEQ = sql(select(_e.seq).where(_e.event_id == bindparam("event_id")))
_CURSOR = sql(select(schema.cursor.c.seq).where(schema.cursor.c.name == bindparam("name")))
_SET_CURSOR = upsert(
    schema.cursor, ["name", "seq"], key=["name"], update=["seq"], where=lambda offered: offered.seq > schema.cursor.c.seq
)


@cache
def _select(kinds: bool, agent: bool, inboxes: bool, thread: bool, unthreaded: bool) -> Statement:
    """The query for one combination of filters."""
    query = select(*_COLUMNS).where(_e.seq > bindparam("seq")).order_by(_e.seq).limit(bindparam("count"))
    if kinds:
        query = query.where(_e.kind.in_(in_list("kinds")))
    if agent:
        query = query.where(_e.agent == bindparam("agent"))
    if inboxes:
        query = query.where(_e.inbox.in_(in_list("inboxes")))
    if thread:
        query = query.where(_e.thread == bindparam("thread"))
    if unthreaded:
        query = query.where(_e.thread.is_(None))
    return sql(query)


class EventLog:
    """The house's one event log."""

    def __init__(
        self,
        read: Callable[[Callable[[Reader], list[Event]]], Awaitable[list[Event]]],
        point: Callable[..., Any],
        *,
        alone: bool = True,
    ) -> None:
        """`alone` False: other nodes write events too, and are heard of by `catch_up`."""
        self._read = read
        self._point = point
        self._recent: deque[Event] = deque(maxlen=RECENT)
        self._last: int = point(lambda reader: reader.scalar(_LAST)) or 0
        self._since = self._last  # every event after this one is in `_recent`
        self._waiting: set[asyncio.Future[None]] = set()
        self._alone = alone

    def last_seq(self) -> int:
        """The position of the newest committed event."""
        return self._last

    async def after(
        self,
        seq: int,
        *,
        kinds: Sequence[str] | None = None,
        agent_id: str | None = None,
        inbox_ids: Sequence[str] | None = None,
        thread_id: str | None = None,
        unthreaded: bool = False,
        limit: int = 500,
    ) -> list[Event]:
        """Up to `limit` events after `seq`, oldest first; a filter left out lets everything through, `unthreaded` what has no thread."""
        if seq >= self._last:
            return []
        if seq < self._since:
            statement = _select(kinds is not None, agent_id is not None, inbox_ids is not None, thread_id is not None, unthreaded)
            params: dict[str, Any] = {"seq": seq, "count": limit, "agent": agent_id, "thread": thread_id}
            params |= {"kinds": kinds or (), "inboxes": inbox_ids or ()}
            return await self._read(lambda reader: [_event(row) for row in reader.all(statement, **params)])

        def wanted(event: Event) -> bool:
            return (
                (kinds is None or event.kind in kinds)
                and (agent_id is None or event.agent_id == agent_id)
                and (inbox_ids is None or event.inbox_id in inbox_ids)
                and (thread_id is None or event.thread_id == thread_id)
                and not (unthreaded and event.thread_id is not None)
            )

        return [event for event in self._newer(seq) if wanted(event)][:limit]

    async def wait(self, seq: int, timeout_s: float | None = None) -> bool:
        """Until something lies after `seq`; False when `timeout_s` passed first."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._last <= seq:
                    await self._next()
        except TimeoutError:
            return False
        return True

    async def seq_of(self, event_id: str) -> int | None:
        """The position of the event with this id, None when there is none."""
        return self._point(lambda reader: reader.scalar(_SEQ, event_id=event_id))  # type: ignore[no-any-return]  # a row's int

    async def cursor(self, name: str) -> int:
        """The durable position `name`; 0 when it is new."""
        return self._point(lambda reader: self.cursor_in(reader, name))  # type: ignore[no-any-return]  # cursor_in's int

    def cursor_in(self, reader: Reader, name: str) -> int:
        return reader.scalar(_CURSOR, name=name) or 0

    def set_cursor(self, tx: Tx, name: str, seq: int) -> None:
        """Move `name` forward to `seq`; it never goes back."""
        tx.run(_SET_CURSOR, name=name, seq=seq)

    def publish(self, events: Sequence[Event]) -> None:
        """The store's call, on the loop, right after COMMIT."""
        if self._alone or events[0].seq == self._last + 1:
            self._append(events)
            return
        with contextlib.suppress(StorageFailure):  # then it is made up for when the server is back
            self.catch_up()  # other nodes' events come before these

    def catch_up(self) -> None:
        """Take up what was committed since: by other nodes, or by us without our hearing of it."""
        statement = _select(False, False, False, False, False)
        while rows := self._point(lambda reader: reader.all(statement, seq=self._last, count=RECENT)):
            self._append([_event(row) for row in rows])

    def _append(self, events: Sequence[Event]) -> None:
        overflow = len(self._recent) + len(events) - RECENT
        if overflow > 0:
            self._since = [*self._recent, *events][overflow - 1].seq
        self._recent.extend(events)
        self._last = events[-1].seq
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _next(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    def _newer(self, seq: int) -> list[Event]:
        newer: list[Event] = []
        for event in reversed(self._recent):
            if event.seq <= seq:
                break
            newer.append(event)
        newer.reverse()
        return newer


def _event(row: Row) -> Event:
    seq, event_id, pod, kind, ref, at, agent, inbox, thread, snapshot = row
    return Event(
        seq=seq,
        event_id=event_id,
        pod_id=pod,
        kind=kind,
        ref=ref,
        at=at,
        agent_id=agent,
        inbox_id=inbox,
        thread_id=thread,
        snapshot=json.loads(snapshot),
    )
