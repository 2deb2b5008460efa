"""The gate's nouns: a frozen mail, its state, and what submitting it came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from postroom.model.mail import Finding
from postroom.model.request import Outbound


class State(StrEnum):
    """States of an outgoing mail. The table of moves is `policy.states`."""

    SUBMITTED = "submitted"
    HELD = "held"
    APPROVED = "approved"
    SENDING = "sending"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    FAILED = "failed"
    REFUSED = "refused"
    EXPIRED = "expired"


Boundary: TypeAlias = Literal["wall", "rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What is sent if it is sent: the bytes and the envelope, fixed at submit.

    `raw` is the RFC 5322 message (CRLF lines, 7-bit, no Bcc header); `digest` is SHA-256 in hex over
    a version tag, `mail_from`, the sorted `rcpt_to` and `raw` (`policy.digest`). `draft_id` is the
    draft this was made from; sending deletes it.
    """

    outgoing_id: str
    pod_id: str
    principal_label: str
    agent_id: str | None
    outbound: Outbound
    message_id: str
    mail_from: str
    rcpt_to: tuple[str, ...]
    raw: bytes
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The `Sender` has it durably and will deliver it. `binds` says what an approval binds to there."""

    message_id: str
    thread_id: str
    binds: Literal["bytes", "request"] = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One row of the gate's table, as shown to its owner: all that would leave.

    `reasons` say why it stands where it stands. `html` is the HTML part, `headers` those the sender added.
    `read` names the mails from outside the agent had been shown, since its owner last cleared that;
    `findings` are what is odd about this mail and the one it answers. Both are there when one is shown alone.
    """

    outgoing_id: str
    state: State
    inbox_id: str
    agent: str
    session_id: str | None
    mail_from: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    bcc: tuple[str, ...]
    subject: str
    text: str
    attachments: tuple[tuple[str, int], ...]
    size: int
    digest: str
    message_id: str
    thread_id: str | None
    in_reply_to: str | None
    reasons: tuple[str, ...]
    boundary: Boundary
    boundary_reason: str
    created_at: int
    expires_at: int
    decided_by: str | None = None
    decided_at: int | None = None
    comment: str | None = None
    detail: str | None = None
    possible_duplicate: bool = False
    html: str | None = None
    reply_to: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What `submit` came to. `state` is SENDING or SENT (it left the gate), HELD, or REFUSED.

    `message_id` and `thread_id` are set when it left the gate; `refused` names the addresses.
    `repeated` is true when the same key or content had been submitted before.
    """

    outgoing_id: str
    state: State
    message_id: str | None = None
    thread_id: str | None = None
    digest: str = ""
    reasons: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    expires_at: int | None = None
    repeated: bool = False
