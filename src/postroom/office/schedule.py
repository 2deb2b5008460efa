"""When a scheduled draft is due, and what became of it.

A due draft is announced once (`draft.due`); the gate submits it as its author. What the gate then
says about it comes back through the event log: held for a person, it can be edited again; refused,
expired or failed, it says so and waits for a new `send_at`. Sent, it is gone.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog
from sqlalchemy import and_, bindparam, select, update

from postroom.clock import MICROS
from postroom.errors import StorageFailure
from postroom.model.event import DRAFT_DUE, OUTGOING_EXPIRED, OUTGOING_FAILED, OUTGOING_HELD, OUTGOING_REFUSED, Event
from postroom.model.principal import Kind
from postroom.office import draft_rows
from postroom.office import tables as t
from postroom.store.engine import Store
from postroom.store.statement import sql
from postroom.store.transaction import Reader, Tx

_CURSOR: Final = "office.drafts"
_OUTCOMES: Final = (OUTGOING_HELD, OUTGOING_REFUSED, OUTGOING_EXPIRED, OUTGOING_FAILED)
_BATCH: Final = 100
_CHECK_S: Final = 5.0  # between two looks; following every event of a busy house for this would cost it
_CHECK_SENDING_S: Final = 0.5
_PAUSE_S: Final = 1.0

_DUE = sql(
    draft_rows.JOINED.where(and_(t.draft.c.send_status == "scheduled", t.draft.c.send_at <= bindparam("now")))
    .order_by(t.draft.c.send_at, t.draft.c.id)
    .limit(bindparam("most"))
)
_NEXT = sql(select(t.draft.c.send_at).where(t.draft.c.send_status == "scheduled").order_by(t.draft.c.send_at).limit(1))
_SENDING = sql(select(t.draft.c.id).where(and_(t.draft.c.uuid == bindparam("uuid"), t.draft.c.send_status == "sending")))
_ANY_SENDING = sql(select(t.draft.c.id).where(t.draft.c.send_status == "sending").limit(1))
_SET_STATUS = sql(
    update(t.draft)
    .where(t.draft.c.id == bindparam("key"))
    .values(send_status=bindparam("new_status"), updated_at=bindparam("at"))
)

log = structlog.get_logger("postroom.office")


class Schedule:
    """Watches drafts until told to stop."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> None:
        """Until cancelled."""
        seq = await self._store.events.cursor(_CURSOR)
        while True:
            try:
                while await self.announce():
                    pass
                sending = self._store.read_now(_any_sending)
                if sending:
                    seq = await self.catch_up(seq)
                await asyncio.sleep(_CHECK_SENDING_S if sending else self._pause())
            except StorageFailure as problem:
                log.warning("schedule_waits", reason=problem.code)
                await asyncio.sleep(_PAUSE_S)

    async def announce(self) -> int:
        """Say which drafts are due; answers how many were."""
        now = self._store.clock.now_us()
        if not self._store.read_now(lambda reader: reader.one(_DUE, now=now, most=1)):
            return 0
        return await self._store.write(lambda tx: _announce(tx, now))

    async def catch_up(self, seq: int) -> int:
        """Apply what the gate said of drafts being sent; answers the position reached."""
        reached = self._store.events.last_seq()
        while batch := await self._store.events.after(seq, kinds=_OUTCOMES):
            seq = batch[-1].seq
            told = [event for event in batch if event.snapshot.get("draft_id")]
            if told:
                await self._store.write(lambda tx, told=told, seq=seq: self._apply(tx, told, seq))  # type: ignore[misc]  # binds the loop's values
        return max(seq, reached)

    def _apply(self, tx: Tx, told: list[Event], seq: int) -> None:
        for event in told:
            key = tx.scalar(_SENDING, uuid=event.snapshot["draft_id"])
            if key is not None:
                status = None if event.kind == OUTGOING_HELD else "failed"
                tx.run(_SET_STATUS, key=key, new_status=status, at=event.at)
        self._store.events.set_cursor(tx, _CURSOR, seq)

    def _pause(self) -> float:
        def read(reader: Reader) -> int | None:
            next_at: int | None = reader.scalar(_NEXT)
            return next_at

        next_at = self._store.read_now(read)
        if next_at is None:
            return _CHECK_S
        return min(_CHECK_S, max(0.05, (next_at - self._store.clock.now_us()) / MICROS))


def _any_sending(reader: Reader) -> bool:
    return reader.one(_ANY_SENDING) is not None


def _announce(tx: Tx, now: int) -> int:
    rows = tx.all(_DUE, now=now, most=_BATCH)
    for row, draft in zip(rows, draft_rows.draft_nouns(tx, rows), strict=True):
        labels = tuple(label for label in draft.fields.labels if label != "scheduled")
        tx.run(_SET_STATUS, key=row[0], new_status="sending", at=now)
        draft_rows.put_labels(tx, row[0], labels)
        agent: dict[str, Any] = {} if draft.author == Kind.OWNER.value else {"agent_id": draft.author}
        tx.emit(DRAFT_DUE, draft.draft_id, at=now, inbox_id=draft.inbox_id, **agent)
    return len(rows)
