"""The Protocols jobs meet at. `Mail` reads and writes email; `Sender` alone can send it.

Every verb of `Mail` takes the caller's `Principal` first, so each door shares one authorisation.
Errors are those of `postroom.errors`: `NotFound` (also for what the caller may not see), `Invalid`,
`Forbidden`, `Conflict`. Source of verbs and names: the AgentMail API.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from postroom.model.mail import Attachment, AttachmentData, Blob, Draft, DraftFields, Inbox, Message, NewInbox, Thread
from postroom.model.outgoing import Accepted, Frozen
from postroom.model.paging import MailFilter, Page, PageRequest
from postroom.model.principal import Principal


class Mail(Protocol):
    """Email without the power to send it."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains delivered inside (lower case)."""
        ...

    async def list_inboxes(self, principal: Principal, page: PageRequest) -> Page[Inbox]: ...

    async def create_inbox(self, principal: Principal, new: NewInbox) -> Inbox:
        """Create, or return the one already made with the same `client_id`. Address taken ⇒ Conflict `already_exists`."""
        ...

    async def get_inbox(self, principal: Principal, inbox_id: str) -> Inbox: ...

    async def list_messages(
        self, principal: Principal, inbox_id: str, filter: MailFilter, page: PageRequest
    ) -> Page[Message]: ...

    async def get_message(self, principal: Principal, inbox_id: str, message_id: str) -> Message:
        """One message with bodies. `message_id` may be an alias (a rewritten or duplicate Message-ID)."""
        ...

    async def get_raw(self, principal: Principal, inbox_id: str, message_id: str) -> Blob:
        """The message byte for byte as it came or left."""
        ...

    async def get_attachment(
        self, principal: Principal, inbox_id: str, message_id: str, attachment_id: str
    ) -> tuple[Attachment, Blob]: ...

    async def update_message(
        self, principal: Principal, inbox_id: str, message_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        """The full label set afterwards."""
        ...

    async def list_threads(
        self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest
    ) -> Page[Thread]:
        """Threads, newest first. `inbox_id` None: across every inbox the caller may use."""
        ...

    async def get_thread(
        self, principal: Principal, inbox_id: str | None, thread_id: str, page: PageRequest | None = None
    ) -> Thread:
        """The thread with its newest messages (oldest first in the page); `next_page_token` leads to older ones."""
        ...

    async def update_thread(
        self, principal: Principal, inbox_id: str | None, thread_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]: ...

    async def search_threads(
        self, principal: Principal, inbox_id: str | None, query: str, page: PageRequest, filter: MailFilter
    ) -> Page[Thread]:
        """Full-text search, best first."""
        ...

    async def create_draft(self, principal: Principal, inbox_id: str, fields: DraftFields) -> Draft: ...

    async def get_draft(self, principal: Principal, inbox_id: str | None, draft_id: str) -> Draft:
        """The draft with its attachments' bytes in `fields.attachments`."""
        ...

    async def update_draft(self, principal: Principal, inbox_id: str, draft_id: str, changes: DraftChanges) -> Draft: ...

    async def list_drafts(
        self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest
    ) -> Page[Draft]: ...

    async def send_list(self, principal: Principal, inbox_id: str, kind: Literal["allow", "block"]) -> tuple[str, ...]:
        """Entries (addresses or bare domains) of the send list that applies to this inbox."""
        ...

    async def is_authenticated(self, principal: Principal, address: str) -> bool:
        """True when mail was written to this address and mail from it came with proof of its sender."""
        ...


class DraftChanges(Protocol):
    """Marker for `dict`-like changes: a key absent keeps, None clears."""

    def get(self, key: str, default: Any = None, /) -> Any: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: str, /) -> Any: ...


class Sender(Protocol):
    """The power to send. Exists once; only the gate holds it."""

    @property
    def binds(self) -> Literal["bytes", "request"]: ...

    def can_reach(self, address: str) -> str | None:
        """None if mail to `address` can be delivered or relayed, else why not (no relay configured)."""
        ...

    async def send(self, frozen: Frozen) -> Accepted:
        """Take it durably, in one commit, and deliver it. Idempotent on `frozen.outgoing_id`."""
        ...


class Fetch(Protocol):
    """The bytes behind a URL a caller gave, for an attachment."""

    async def fetch(self, entry: AttachmentData, *, most_bytes: int, listed_only: bool = False) -> AttachmentData:
        """`entry` with its bytes. Raises `Invalid` for the URL, `Refused` when they are not to be had."""
        ...

    async def close(self) -> None: ...


class Attach(Protocol):
    """Fills in the attachments a caller gave by URL, as far as the owner's rules let the caller's URLs reach."""

    async def attach(self, principal: Principal, entries: Sequence[AttachmentData]) -> tuple[AttachmentData, ...]: ...


class ReadLog(Protocol):
    """Which agent was shown which outside mail. The gate keeps it; the approver sees it."""

    async def record(self, principal: Principal, refs: Sequence[str]) -> None: ...


class TokenIssuer(Protocol):
    """Makes a short-lived token of one agent for one session's child process."""

    async def issue(self, agent_id: str, session_id: str) -> tuple[str, str]:
        """`(token, key id)`."""
        ...

    async def revoke(self, key_id: str) -> None: ...
