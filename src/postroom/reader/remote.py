"""What every provider is asked, and what it answers with: the seam between the reader and the providers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which messages: conditions that all hold. `after` is inclusive, `before` exclusive, in epoch seconds."""

    limit: int
    query: str = ""
    folder: str = ""
    after: int | None = None
    before: int | None = None
    unread: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAttachment:
    """All that is ever learnt of an attachment. `size` in bytes, as the provider tells it."""

    filename: str
    content_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMessage:
    """A message as the provider tells it, decoded and otherwise untouched.

    `received` in microseconds. `text` is what the sender wrote, of which `is_html` says the kind; None
    with `omitted` set when the provider's copy is too large to fetch.
    """

    id: str
    thread_id: str
    received: int
    from_: str = ""
    to: tuple[str, ...] = ()
    subject: str = ""
    text: str | None = None
    is_html: bool = False
    omitted: bool = False
    has_attachments: bool = False
    attachments: tuple[RemoteAttachment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One page, newest first, and where the next begins (None on the last)."""

    messages: tuple[RemoteMessage, ...]
    next_cursor: str | None = None


class MailProvider(Protocol):
    """Exactly two verbs; neither changes anything."""

    async def list(self, search: Search, cursor: str) -> Listing:
        """A page of matching messages with their bodies. `cursor` is empty for the first."""
        ...

    async def read(self, message_id: str) -> RemoteMessage:
        """One message."""
        ...
