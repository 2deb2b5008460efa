"""Hands an approved mail to the sender, once.

*sending* is committed before the sender is called, and `handed_at` after it confirmed; whatever dies
in between is found by `recover` and handed over again under the same id, which the sender takes once.
The rules are asked again first: a recipient blocked since the approval is refused, while a question
already answered is not asked twice.
"""

from __future__ import annotations

import contextlib
from typing import Any

import structlog

from postroom.clock import Clock
from postroom.errors import Busy, Conflict, NotFound, PostroomError, StorageFailure, TransportFailure
from postroom.gate import rows
from postroom.gate.judge import Judge
from postroom.gate.moves import Moves, no_longer, note
from postroom.gate.rows import Row
from postroom.gate.turns import Turns
from postroom.model.outgoing import Accepted, Frozen, State
from postroom.model.ports import Sender
from postroom.policy.digest import digest_bytes, digest_request
from postroom.store.engine import Store, Tx

log = structlog.get_logger(__name__)


class Dispatch:
    """From approved to the sender's hands."""

    def __init__(self, store: Store, sender: Sender, judge: Judge, moves: Moves, clock: Clock) -> None:
        self._store = store
        self._sender = sender
        self._judge = judge
        self._clock = clock
        self._moves = moves
        self._turns = Turns()

    async def recover(self) -> None:
        """Hand over every mail that was approved and is not confirmed to be with the sender."""
        for (outgoing_id,) in await self._store.read(lambda reader: reader.all(rows.IN_FLIGHT)):
            try:
                await self.hand_over(outgoing_id)
            except Conflict:
                continue  # it was decided meanwhile
            except Exception as problem:  # noqa: BLE001 - one mail that cannot be handed over must not stop the others
                log.warning("hand_over_failed", outgoing_id=outgoing_id, problem=type(problem).__name__)
                await self._waits(outgoing_id, problem)

    async def hand_over(self, outgoing_id: str, *, judge_again: bool = True) -> Accepted | None:
        """Send it if it is approved or was being sent; what the sender made of it.

        Raises `StorageFailure` or `Busy`; then `recover` tries again.
        """
        async with self._turns.of(outgoing_id):
            row = self._store.read_now(lambda reader: rows.find(reader, outgoing_id))
            if row is not None and row.state is State.APPROVED:
                row = await self._start(row, judge_again=judge_again)
            if row is None or row.state is not State.SENDING or row.handed_at is not None:
                return None
            frozen = await self.frozen(row)
            if not self.matches(frozen):
                await self._fail(row, State.FAILED, "the stored mail is not the one that was approved")
                return None
            return await self._send(row, frozen)

    async def frozen(self, row: Row) -> Frozen:
        """The mail as it was frozen, read back from the store. Raises `Conflict` when somebody said no meanwhile."""
        try:
            attachments = [entry.data(await self._store.blobs.get(entry.sha)) for entry in row.attachments]
            return row.frozen(await self._store.blobs.get(row.raw_sha), tuple(attachments))
        except NotFound:
            now = self._store.read_now(lambda reader: rows.find(reader, row.outgoing_id))
            if now is None or now.state is row.state:
                raise
            raise no_longer(row) from None

    def matches(self, frozen: Frozen) -> bool:
        """Do the stored bytes and envelope still have the digest a person approved?"""
        if self._sender.binds == "bytes":
            return digest_bytes(frozen.mail_from, frozen.rcpt_to, frozen.raw) == frozen.digest
        return digest_request(frozen.outbound) == frozen.digest

    async def _start(self, row: Row, *, judge_again: bool) -> Row:
        now = self._clock.now_us()
        if judge_again:
            frozen = await self.frozen(row)
            decision = await self._judge.decide(row.principal, frozen.outbound, raw=frozen.raw, again=True)
            reason = "; ".join(decision.reasons)
            if decision.code == "unreachable":
                return await self._store.write(lambda tx: note(tx, row, detail=reason))
            if decision.outcome == "refuse":
                refused = {"reasons": decision.reasons, "refused": decision.refused, "detail": reason}
                return await self._store.write(
                    lambda tx: self._moves.move(tx, row, State.REFUSED, actor="policy", at=now, **refused)
                )
        return await self._store.write(lambda tx: self._moves.move(tx, row, State.SENDING, actor="gate", at=now, detail=None))

    async def _send(self, row: Row, frozen: Frozen) -> Accepted | None:
        try:
            accepted = await self._sender.send(frozen)
        except TransportFailure as problem:
            if problem.kind == "temporary":
                await self._note(row.outgoing_id, detail=problem.message)
            else:
                await self._fail(row, State.UNCERTAIN if problem.kind == "uncertain" else State.FAILED, problem.message)
        except (StorageFailure, Busy):
            raise
        except PostroomError as problem:
            await self._fail(row, State.FAILED, problem.message)
        else:
            await self._confirm(row.outgoing_id, accepted)
            return accepted
        return None

    async def _waits(self, outgoing_id: str, problem: Exception) -> None:
        """Say in the row why it is not gone yet, as far as the store takes it."""
        reason = problem.message if isinstance(problem, PostroomError) else "something went wrong inside postroom"
        with contextlib.suppress(StorageFailure):
            await self._note(outgoing_id, detail=reason)

    async def _confirm(self, outgoing_id: str, accepted: Accepted) -> None:
        await self._note(outgoing_id, handed_at=self._clock.now_us(), thread_id=accepted.thread_id, detail=None)

    async def _note(self, outgoing_id: str, **changes: Any) -> None:
        """The row may have been moved to *sent* by the follower meanwhile, so it is read again; what it says of that stays."""

        def write(tx: Tx) -> None:
            row = rows.find(tx, outgoing_id)
            if row is None:
                return
            after = changes | ({"detail": row.detail} if row.state is State.SENT else {})
            if any(getattr(row, name) != value for name, value in after.items()):
                note(tx, row, **after)

        await self._store.write(write)

    async def _fail(self, row: Row, to: State, reason: str) -> None:
        now = self._clock.now_us()
        await self._store.write(lambda tx: self._moves.move(tx, row, to, actor="gate", at=now, detail=reason))
