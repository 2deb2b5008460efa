"""Which agent was shown which mail from outside, so that a person who is asked can see it.

Rows only grow; a message shown twice to one agent is one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, insert, select

from postroom.clock import Clock
from postroom.gate.tables import read_log as t
from postroom.model.principal import Principal
from postroom.store.engine import Store, Tx
from postroom.store.statement import sql

_COLUMNS = ("pod", "agent_id", "session_id", "ref", "at")
_INSERT = sql(insert(t).values({name: bindparam(name) for name in _COLUMNS}))
_SEEN = sql(select(t.c.id).where(t.c.agent_id == bindparam("agent_id"), t.c.ref == bindparam("ref")))
_REFS = sql(select(t.c.ref).where(t.c.agent_id == bindparam("agent_id"), t.c.at >= bindparam("since")).order_by(t.c.id))


class NoReadLog:
    """Keeps nothing."""

    async def record(self, principal: Principal, refs: Sequence[str]) -> None:
        """Nothing to do."""


class StoredReadLog:
    """Keeps what agents were shown in the gate's own table."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def record(self, principal: Principal, refs: Sequence[str]) -> None:
        """Note that an agent was shown the messages `refs`. What the owner reads is not noted."""
        agent_id = principal.agent_id
        if agent_id is None or not refs:
            return
        now = self._clock.now_us()

        def write(tx: Tx) -> None:
            for ref in refs:
                if tx.one(_SEEN, agent_id=agent_id, ref=ref) is None:
                    tx.insert(_INSERT, pod=principal.pod_id, agent_id=agent_id, session_id=principal.session_id, ref=ref, at=now)

        await self._store.write(write)

    def refs(self, agent_id: str, *, since: int = 0) -> tuple[str, ...]:
        """What the agent was shown at or after `since`, oldest first."""
        return self._store.read_now(lambda reader: tuple(ref for (ref,) in reader.all(_REFS, agent_id=agent_id, since=since)))
