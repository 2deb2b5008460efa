"""The event log's noun: one fact that happened, written in the fact's own transaction.

`kind` is AgentMail's event type where there is one (`message.received`, `message.sent`, …) and
ours elsewhere (`outbox.sent`, `outgoing.held`, …). `ref` is the id of the thing (a message id, an
outgoing id). `seq` is the position in the log (gapless order of commit is not promised; order is).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `snapshot` is small (ids, labels, recipients), never a body. `at` in microseconds."""

    seq: int
    event_id: str
    pod_id: str
    kind: str
    ref: str
    at: int
    agent_id: str | None = None
    inbox_id: str | None = None
    thread_id: str | None = None
    snapshot: Mapping[str, Any] = field(default_factory=dict)


# Kinds other rooms follow. AgentMail's own are used as they are.
RECEIVED = "message.received"
RECEIVED_SPAM = "message.received.spam"
RECEIVED_BLOCKED = "message.received.blocked"
RECEIVED_UNAUTHENTICATED = "message.received.unauthenticated"
SENT = "message.sent"
DELIVERED = "message.delivered"
BOUNCED = "message.bounced"
COMPLAINED = "message.complained"
REJECTED = "message.rejected"
OUTBOX_SENT = "outbox.sent"  # ref: outgoing id; snapshot: {recipients, failed: {address: reason}, possible_duplicate}
OUTBOX_DEFERRED = "outbox.deferred"  # snapshot: {reason, next_at}
OUTBOX_FAILED = "outbox.failed"  # snapshot: {failed: {address: reason}}
OUTGOING_HELD = "outgoing.held"
OUTGOING_APPROVED = "outgoing.approved"
OUTGOING_REFUSED = "outgoing.refused"
OUTGOING_EXPIRED = "outgoing.expired"
OUTGOING_SENT = "outgoing.sent"
OUTGOING_FAILED = "outgoing.failed"
FOLLOWUP_DUE = "followup.due"  # ref: thread id; snapshot: {due, labels, answered}
FOLLOWUP_DONE = "followup.done"  # ref: thread id; its session took it
DRAFT_DUE = "draft.due"  # ref: draft id; the gate submits it as its author
LABEL_ADDED = "label.added"
LABEL_REMOVED = "label.removed"
DOMAIN_VERIFIED = "domain.verified"

# What the contract's WebSocket and webhooks carry. The restricted ones come only to who names them.
RESTRICTED = frozenset({RECEIVED_SPAM, RECEIVED_BLOCKED, RECEIVED_UNAUTHENTICATED})
INBOUND = RESTRICTED | {RECEIVED}
FAILURES = (BOUNCED, COMPLAINED, REJECTED)
PUBLIC = frozenset({RECEIVED, SENT, DELIVERED, BOUNCED, COMPLAINED, REJECTED, DOMAIN_VERIFIED}) | RESTRICTED
# Names a caller may ask for: the rest of the contract's event types, whose sources are not here, never come.
EVENT_TYPES = PUBLIC | frozenset(
    {
        "message.opened",
        "message.security.completed",
        "message.security.review",
        "message.security.override",
        *(f"calendar.event.{what}" for what in ("created", "updated", "deleted", "responded", "starting", "ending")),
    }
)


def heard(event_types: Sequence[str]) -> tuple[str, ...]:
    """What `inbound.event_types` asks for, wherever the office is: the kinds it names, and failures always."""
    return tuple(dict.fromkeys((*event_types, *FAILURES)))
