"""What a caller asks to send, before and after the gate worked out what that means.

`SendRequest` is the wish, as a door received it. `Outbound` is the whole of what would leave:
recipients, subject, threading headers and bytes of attachments, nothing left to look up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from postroom.model.mail import AttachmentData


class SendKind(StrEnum):
    """Which verb of the API asked."""

    SEND = "send"
    REPLY = "reply"
    REPLY_ALL = "reply_all"
    FORWARD = "forward"
    DRAFT = "draft"
    SUBMISSION = "submission"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """One wish to send from `inbox_id`.

    `message_id` is the message replied to or forwarded, `draft_id` the draft to send, `raw` and
    `envelope_to` a mail submitted by SMTP as it came. `to` and friends are single addresses each.
    For a reply, given `to`, `cc` or `bcc` replace the derived recipients.
    """

    kind: SendKind
    inbox_id: str
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    labels: tuple[str, ...] = ()
    add_labels: tuple[str, ...] = ()
    remove_labels: tuple[str, ...] = ()
    attachments: tuple[AttachmentData, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    message_id: str | None = None
    draft_id: str | None = None
    raw: bytes | None = None
    envelope_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbound:
    """Everything that would leave. `thread_id` is the thread it joins (None opens one).

    `source_message_id` is the message answered or forwarded; `in_reply_to` and `references` are
    Message-IDs with brackets.
    """

    inbox_id: str
    kind: SendKind
    from_: str
    to: tuple[str, ...]
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    subject: str = ""
    text: str | None = None
    html: str | None = None
    labels: tuple[str, ...] = ()
    attachments: tuple[AttachmentData, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    thread_id: str | None = None
    source_message_id: str | None = None
    draft_id: str | None = None
