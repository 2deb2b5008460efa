"""One move of one mail: the state, the bytes it needs, the audit entry and the event, in one commit.

Every change of `outgoing` goes through here, so no state is reached that `policy.states` does not
allow, and none without a trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from postroom.errors import Conflict
from postroom.gate import rows
from postroom.gate.audit import Audit
from postroom.gate.keeping import keep, let_go
from postroom.gate.rows import Row
from postroom.model.event import (
    OUTGOING_APPROVED,
    OUTGOING_EXPIRED,
    OUTGOING_FAILED,
    OUTGOING_HELD,
    OUTGOING_REFUSED,
    OUTGOING_SENT,
)
from postroom.model.outgoing import State
from postroom.policy.states import check_move
from postroom.store.blobs import Blobs
from postroom.store.engine import Tx

_EVENTS = {
    State.HELD: OUTGOING_HELD,
    State.APPROVED: OUTGOING_APPROVED,
    State.REFUSED: OUTGOING_REFUSED,
    State.EXPIRED: OUTGOING_EXPIRED,
    State.SENT: OUTGOING_SENT,
    State.FAILED: OUTGOING_FAILED,
    State.UNCERTAIN: OUTGOING_FAILED,
}


class Moves:
    """The only way a row comes to be and changes."""

    def __init__(self, audit: Audit, blobs: Blobs) -> None:
        self._audit = audit
        self._blobs = blobs

    def enter(self, tx: Tx, row: Row, data: Sequence[tuple[str, bytes]]) -> None:
        """Write a new row in the state the decision gave it, with its bytes. Only a question is an event: the rest is the submitter's answer."""
        check_move(State.SUBMITTED, row.state)
        rows.add(tx, row)
        keep(tx, self._blobs, row.outgoing_id, data)
        self._audit.append(tx, row, actor=row.principal.label, verb="submit", at=row.created_at)
        if row.state is State.HELD:
            announce(tx, row, at=row.created_at)

    def move(self, tx: Tx, row: Row, to: State, *, actor: str, at: int, receipt: Sequence[str] = (), **changes: Any) -> Row:
        """`row` in state `to`. Raises `Conflict` when it is no longer where `row` says."""
        check_move(row.state, to)
        after = dataclasses.replace(row, state=to, **changes)
        if not rows.update_row(tx, row, after):
            raise no_longer(row)
        let_go(tx, self._blobs, after)
        self._audit.append(tx, after, actor=actor, verb=to.value, at=at, receipt=receipt)
        announce(tx, after, at=at)
        return after


def no_longer(row: Row) -> Conflict:
    """Somebody else moved this mail on."""
    return Conflict(f"{row.outgoing_id} is no longer {row.state.value}", code="wrong_state", fix="show it again")


def note(tx: Tx, row: Row, **changes: Any) -> Row:
    """`row` with changes that are no move (why it waits, that the sender has it)."""
    after = dataclasses.replace(row, **changes)
    return after if rows.update_row(tx, row, after) else row


def announce(tx: Tx, row: Row, *, at: int) -> None:
    """The event of the state `row` is in, if it has one."""
    kind = _EVENTS.get(row.state)
    if kind is None:
        return
    snapshot: dict[str, Any] = {
        "recipients": list(row.refused or row.rcpt_to),
        "message_id": row.message_id,
        "reason": row.comment or row.detail or "; ".join(row.reasons),
        "draft_id": row.outbound.draft_id,
        "decided_by": row.decided_by,
        "session_id": row.principal.session_id,
    }
    _emit(tx, kind, row, at, snapshot)


def announce_failed(tx: Tx, row: Row, failed: Mapping[str, str], *, at: int) -> None:
    """The mail went out, but not to everybody: say to whom not."""
    reason = "; ".join(f"{address}: {why}" for address, why in failed.items())
    told = {"recipients": list(failed), "message_id": row.message_id, "reason": reason, "session_id": row.principal.session_id}
    _emit(tx, OUTGOING_FAILED, row, at, told)


def _emit(tx: Tx, kind: str, row: Row, at: int, snapshot: Mapping[str, Any]) -> None:
    tx.emit(
        kind,
        row.outgoing_id,
        at=at,
        agent_id=row.agent_id,
        inbox_id=row.inbox_id,
        thread_id=row.thread_id,
        pod_id=row.pod,
        snapshot=snapshot,
    )
