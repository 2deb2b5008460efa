"""What the gate does without being asked: it follows the event log, expires what nobody answered,
and hands over again what a crash or a missing relay left behind.

Its place in the log is a durable cursor; applying an event twice changes nothing.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog

from postroom.clock import Clock
from postroom.errors import PostroomError, Refused, StorageFailure
from postroom.gate import rows
from postroom.gate.checkpoints import Checkpoints
from postroom.gate.dispatch import Dispatch
from postroom.gate.moves import Moves, announce_failed, note
from postroom.model.event import DRAFT_DUE, OUTBOX_DEFERRED, OUTBOX_FAILED, OUTBOX_SENT, OUTGOING_FAILED, Event
from postroom.model.outgoing import State, Submission
from postroom.model.ports import Mail
from postroom.model.principal import SYSTEM, Kind, Principal
from postroom.model.request import SendKind, SendRequest
from postroom.store.engine import Store, Tx

log = structlog.get_logger(__name__)

_CURSOR = "gate"
_OUTBOX = (OUTBOX_SENT, OUTBOX_DEFERRED, OUTBOX_FAILED)
_SWEEP_S = 30.0
NOT_APPROVED = "nobody approved this recipient; the mail server in between was given it all the same"
_PAUSE_S = 1.0


class Submits(Protocol):
    """The gate, as the follower uses it."""

    async def submit(self, principal: Principal, request: SendRequest, key: str | None = None) -> Submission: ...


class Follow:
    """The gate's own loop. `author` makes the principal of an agent's id."""

    def __init__(
        self,
        store: Store,
        mail: Mail,
        clock: Clock,
        *,
        gate: Submits,
        dispatch: Dispatch,
        moves: Moves,
        checkpoints: Checkpoints | None,
        author: Callable[[str], Awaitable[Principal | None]],
    ) -> None:
        self._store = store
        self._moves = moves
        self._checkpoints = checkpoints
        self._gate = gate
        self._dispatch = dispatch
        self._mail = mail
        self._clock = clock
        self._author = author

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        sweep_at = loop.time()
        seq: int | None = None
        while True:
            try:
                if loop.time() >= sweep_at:
                    sweep_at = loop.time() + _SWEEP_S
                    await self.sweep()
                seq = await self.catch_up(seq)
                if self._checkpoints is not None:
                    await self._checkpoints.write_when_due()
                await self._store.events.wait(seq, timeout_s=max(0.0, sweep_at - loop.time()))
            except PostroomError as problem:
                log.warning("gate_paused", code=problem.code)
                await asyncio.sleep(_PAUSE_S)

    async def sweep(self) -> None:
        """Expire what was not answered in time, and hand over what is approved but not with the sender."""
        now = self._clock.now_us()
        for (outgoing_id,) in await self._store.read(lambda reader: reader.all(rows.DUE, now=now)):
            await self.expire(outgoing_id)
        await self._dispatch.recover()

    async def expire(self, outgoing_id: str) -> None:
        """Turn an unanswered mail into *expired*, which counts as a no."""
        now = self._clock.now_us()

        def write(tx: Tx) -> None:
            row = rows.find(tx, outgoing_id)
            if row is not None and row.state in (State.HELD, State.APPROVED) and row.expires_at <= now:
                waiting = row.detail or "nobody answered in time"
                self._moves.move(tx, row, State.EXPIRED, actor="gate", at=now, detail=waiting)

        await self._store.write(write)

    async def catch_up(self, seq: int | None = None) -> int:
        """Apply every event after `seq` (None: after the cursor); answers the position reached."""
        if seq is None:
            seq = await self._store.events.cursor(_CURSOR)
        reached = self._store.events.last_seq()
        while batch := await self._store.events.after(seq, kinds=(*_OUTBOX, DRAFT_DUE)):
            for event in batch:
                if event.kind == DRAFT_DUE:
                    await self._send_draft(event)
            seq = batch[-1].seq
            await self._store.write(lambda tx, batch=batch: self._settle(tx, batch))  # type: ignore[misc]  # binds the loop's value
        return max(seq, reached)

    def _settle(self, tx: Tx, batch: Sequence[Event]) -> None:
        for event in batch:
            row = rows.find(tx, event.ref) if event.kind in _OUTBOX else None
            if row is None or row.state not in (State.SENDING, State.UNCERTAIN):
                continue
            failed = dict(event.snapshot.get("failed") or {})
            given = tuple(event.snapshot.get("recipients") or ())
            added = sorted(set(given) - set(row.rcpt_to))
            if added:
                log.error("wire_added_recipients", outgoing_id=row.outgoing_id, added=added)
                failed = {**failed, **dict.fromkeys(added, NOT_APPROVED)}
            told = [*(f"{address}: {reason}" for address, reason in failed.items()), event.snapshot.get("differs")]
            why = "; ".join(filter(None, told)) or None
            if event.kind == OUTBOX_DEFERRED:
                note(tx, row, detail=str(event.snapshot.get("reason") or "deferred"))
            elif event.kind == OUTBOX_FAILED:
                self._moves.move(tx, row, State.FAILED, actor="outbox", at=event.at, detail=why or "not delivered")
            else:
                doubled = bool(event.snapshot.get("possible_duplicate"))
                named = str(event.snapshot.get("message_id") or row.message_id)  # a hosted office gives its own
                sent = self._moves.move(
                    tx,
                    row,
                    State.SENT,
                    actor="outbox",
                    at=event.at,
                    detail=why,
                    receipt=given,
                    possible_duplicate=doubled,
                    message_id=named,
                )
                if failed:
                    announce_failed(tx, sent, failed, at=event.at)
        self._store.events.set_cursor(tx, _CURSOR, batch[-1].seq)

    async def _send_draft(self, event: Event) -> None:
        """A scheduled draft is submitted as its author, once per due event."""
        system = dataclasses.replace(SYSTEM, pod_id=event.pod_id)
        try:
            draft = await self._mail.get_draft(system, event.inbox_id, event.ref)
            owner = Principal(kind=Kind.OWNER, pod_id=event.pod_id)
            author = owner if draft.author == Kind.OWNER.value else await self._author(draft.author)
            if author is None:
                raise PostroomError("the draft's author is gone")
            request = SendRequest(kind=SendKind.DRAFT, inbox_id=draft.inbox_id, draft_id=draft.draft_id)
            submission = await self._gate.submit(author, request, f"due-{event.event_id}")
            if submission.state is State.REFUSED:
                raise Refused("; ".join(submission.reasons))
        except StorageFailure:
            raise
        except Exception as problem:  # noqa: BLE001 - one draft that cannot be sent must not stop the others
            log.warning("due_draft_not_sent", draft_id=event.ref, problem=type(problem).__name__)
            reason = problem.message if isinstance(problem, PostroomError) else "something went wrong inside postroom"
            await self._store.write(lambda tx: _report_draft(tx, event, reason))


def _report_draft(tx: Tx, event: Event, reason: str) -> None:
    tx.emit(
        OUTGOING_FAILED,
        event.ref,
        at=event.at,
        agent_id=event.agent_id,
        inbox_id=event.inbox_id,
        thread_id=event.thread_id,
        pod_id=event.pod_id,
        snapshot={"draft_id": event.ref, "reason": reason, "recipients": []},
    )
