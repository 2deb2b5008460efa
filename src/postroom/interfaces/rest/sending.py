"""What a submission came to, as the contract answers it.

Sent: the ids. Held: 403 with the approval's id, its digest and how to approve. Refused: 403 naming
the addresses. A repeated key answers with the present state.
"""

from __future__ import annotations

from typing import Any

from postroom.clock import to_iso
from postroom.errors import Conflict, Refused
from postroom.interfaces.rest.door import Door
from postroom.interfaces.rest.shapes import Sent
from postroom.model.outgoing import State, Submission
from postroom.model.principal import Principal
from postroom.model.request import SendRequest


async def submit(door: Door, caller: Principal, request: SendRequest, key: str | None) -> Sent:
    """Offer `request` to the gate. Raises `Refused` when it is held or refused."""
    outcome = await door.gate.submit(caller, request, key)
    if outcome.state is State.HELD:
        raise _held(outcome)
    if outcome.state in (State.REFUSED, State.EXPIRED):
        raise _refused(outcome)
    if outcome.message_id and outcome.thread_id:
        return Sent(message_id=outcome.message_id, thread_id=outcome.thread_id)
    if outcome.state is State.FAILED:
        raise _refused(outcome)
    raise Conflict("this send has not finished yet", fix="ask again with the same Idempotency-Key")


def _held(outcome: Submission) -> Refused:
    details: dict[str, Any] = {"approval_id": outcome.outgoing_id, "digest": outcome.digest}
    if outcome.expires_at is not None:
        details["expires_at"] = to_iso(outcome.expires_at)
    if outcome.reasons:
        details["reasons"] = list(outcome.reasons)
    return Refused(
        "the message was not sent: it waits for its owner's approval",
        code="held_for_approval",
        fix=(
            f"ask the owner to run `postroom held approve {outcome.outgoing_id}`, or to POST the digest to "
            f"/api/outgoing/{outcome.outgoing_id}/approve with the owner's key; sending it again changes nothing"
        ),
        details=details,
    )


def _refused(outcome: Submission) -> Refused:
    why = "; ".join(outcome.reasons) or f"its state is {outcome.state}"
    about = f" to {', '.join(outcome.refused)}" if outcome.refused else ""
    return Refused(
        f"the message was not sent{about}: {why}",
        fix="the owner's policy decides this; leave these recipients out, or ask the owner",
        details={"approval_id": outcome.outgoing_id, "addresses": list(outcome.refused)},
    )
