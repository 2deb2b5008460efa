"""Email's nouns, with AgentMail's names and ids.

Moments are microseconds since the epoch, UTC. Addresses are `user@domain` or `Name <user@domain>`.
Empty optional fields are `None` or `()`; the wire omits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

MetadataValue: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """An address that receives and sends. `inbox_id` is the address; `owner_agent` the agent's id, if any."""

    inbox_id: str
    pod_id: str
    display_name: str | None = None
    client_id: str | None = None
    status: Literal["active", "paused"] = "active"
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    owner_agent: str | None = None
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewInbox:
    """What `create_inbox` takes; everything is optional (a random username, the first domain)."""

    username: str | None = None
    domain: str | None = None
    display_name: str | None = None
    client_id: str | None = None
    status: Literal["active", "paused"] = "active"
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)
    owner_agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A part of a message that is not its text. `size` in bytes, decoded."""

    attachment_id: str
    size: int
    filename: str | None = None
    content_type: str | None = None
    content_disposition: Literal["inline", "attachment"] | None = None
    content_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing noticed about a message, e.g. `hidden_text` with `count` passages removed. `detail` is our own words."""

    code: str
    count: int = 1
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """Is the address in From genuine? Results are RFC 8601's words; `policy` is what its domain asks for on failure.

    `aligned`: SPF or DKIM passed for the domain in From. `by` names the server whose word this is.
    """

    by: str = "postroom"
    spf: str = "none"
    dkim: str = "none"
    dmarc: str = "none"
    arc: str = "none"
    aligned: bool = False
    policy: str = ""
    reason: str = ""

    @property
    def passed(self) -> bool:
        """True when the address is proved."""
        return self.aligned and self.dmarc not in ("fail", "permerror")

    @property
    def failed(self) -> bool:
        """True when its domain wants mail like this kept away."""
        return self.dmarc == "fail" and self.policy in ("quarantine", "reject")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One mail in one inbox. Rows of a list carry no bodies (`text`, `html`, `extracted_*` are None).

    `text_source` says where `text` came from: `plain`, `html` (visible text of an HTML-only mail) or `none`.
    `authentication` is None for mail nobody checked: sent, local, or arrived while checks were off.
    """

    inbox_id: str
    thread_id: str
    message_id: str
    labels: tuple[str, ...]
    timestamp: int
    from_: str
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    subject: str | None = None
    preview: str | None = None
    text: str | None = None
    html: str | None = None
    extracted_text: str | None = None
    extracted_html: str | None = None
    text_source: Literal["plain", "html", "none"] | None = None
    attachments: tuple[Attachment, ...] = ()
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    findings: tuple[Finding, ...] = ()
    highlights: Mapping[str, tuple[str, ...]] | None = None
    authentication: Authentication | None = None
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Messages of one conversation in one inbox. `messages` is None in lists, else oldest first."""

    inbox_id: str
    thread_id: str
    labels: tuple[str, ...]
    timestamp: int
    senders: tuple[str, ...]
    recipients: tuple[str, ...]
    last_message_id: str
    message_count: int
    size: int
    received_timestamp: int | None = None
    sent_timestamp: int | None = None
    subject: str | None = None
    preview: str | None = None
    attachments: tuple[Attachment, ...] = ()
    messages: tuple[Message, ...] | None = None
    next_page_token: str | None = None
    highlights: Mapping[str, tuple[str, ...]] | None = None
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentData:
    """Bytes to attach. `content_id` is without brackets. With a `url` the bytes are still to be fetched from there."""

    content: bytes
    filename: str | None = None
    content_type: str | None = None
    content_disposition: Literal["inline", "attachment"] | None = None
    content_id: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftFields:
    """What a caller may set on a draft. `in_reply_to` and `forward_of` are message ids of the inbox."""

    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    labels: tuple[str, ...] = ()
    attachments: tuple[AttachmentData, ...] = ()
    in_reply_to: str | None = None
    forward_of: str | None = None
    reply_all: bool = False
    send_at: int | None = None
    client_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be. `author` is who made it (`owner` or an agent id); it is sent as that principal."""

    inbox_id: str
    draft_id: str
    fields: DraftFields
    author: str
    attachments: tuple[Attachment, ...] = ()
    preview: str | None = None
    references: tuple[str, ...] = ()
    send_status: Literal["scheduled", "sending", "failed"] | None = None
    created_at: int = 0
    updated_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Bytes with a name to serve them under."""

    content: bytes
    filename: str | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntry:
    """One entry of an allow or block list: an address or a domain.

    `inbox_id` None: it holds for the whole pod. `read_only`: it stands in the config.
    """

    entry: str
    direction: Literal["send", "receive", "reply"]
    list_type: Literal["allow", "block"]
    pod_id: str
    inbox_id: str | None = None
    reason: str | None = None
    created_at: int = 0
    read_only: bool = False

    @property
    def entry_type(self) -> Literal["email", "domain"]:
        """Whether it names one address or a whole domain."""
        return "email" if "@" in self.entry else "domain"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEvent:
    """A caller changed a label of a message: `kind` is `label.added` or `label.removed`."""

    event_id: str
    kind: str
    pod_id: str
    inbox_id: str
    message_id: str
    label: str
    at: int
