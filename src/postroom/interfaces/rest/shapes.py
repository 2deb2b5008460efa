"""Email's nouns as JSON, field for field as the official clients' models require.

An empty optional field is omitted (`None` here), never null or `[]`. `organization_id` and
`pod_id` are on the wire though the clients' types do not name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from postroom.clock import to_iso
from postroom.model import mail
from postroom.model.paging import Page, PageRequest
from postroom.model.principal import DEFAULT_POD

ORGANIZATION = DEFAULT_POD  # one organisation; its default pod has its id
T = TypeVar("T")


class Shape(BaseModel):
    """A JSON object of ours."""

    model_config = ConfigDict(populate_by_name=True)


class Problem(Shape):
    """The body of every error."""

    name: str
    message: str
    code: str
    fix: str | None = None
    errors: list[dict[str, Any]] | None = None


class Inbox(Shape):
    organization_id: str = ORGANIZATION
    pod_id: str
    inbox_id: str
    email: str
    display_name: str | None = None
    client_id: str | None = None
    status: str
    metadata: dict[str, str | int | float | bool] | None = None
    updated_at: str
    created_at: str

    @classmethod
    def of(cls, row: mail.Inbox) -> Inbox:
        return cls(
            pod_id=row.pod_id,
            inbox_id=row.inbox_id,
            email=row.inbox_id,
            display_name=row.display_name,
            client_id=row.client_id,
            status=row.status,
            metadata=dict(row.metadata) or None,
            updated_at=to_iso(row.updated_at),
            created_at=to_iso(row.created_at),
        )


class Attachment(Shape):
    attachment_id: str
    filename: str | None = None
    size: int
    content_type: str | None = None
    content_disposition: str | None = None
    content_id: str | None = None

    @classmethod
    def of(cls, row: mail.Attachment) -> Attachment:
        return cls(**_attachment(row))


class AttachmentLink(Attachment):
    """An attachment and where to fetch it."""

    download_url: str
    expires_at: str

    @classmethod
    def linked(cls, row: mail.Attachment, link: Mapping[str, str]) -> AttachmentLink:
        return cls(**_attachment(row) | dict(link))


class RawLink(Shape):
    """Where to fetch a message as it came (`.eml`)."""

    message_id: str
    size: int
    download_url: str
    expires_at: str


class MessageItem(Shape):
    """A message without its bodies."""

    organization_id: str = ORGANIZATION
    pod_id: str = DEFAULT_POD
    inbox_id: str
    thread_id: str
    message_id: str
    labels: list[str]
    timestamp: str
    from_: str = Field(alias="from")
    to: list[str]
    cc: list[str] | None = None
    bcc: list[str] | None = None
    subject: str | None = None
    preview: str | None = None
    attachments: list[Attachment] | None = None
    in_reply_to: str | None = None
    references: list[str] | None = None
    headers: dict[str, str] | None = None
    size: int
    updated_at: str
    created_at: str
    highlights: dict[str, list[str]] | None = None

    @classmethod
    def of(cls, row: mail.Message) -> MessageItem:
        return cls(**_message(row))


class Message(MessageItem):
    """A message in full."""

    reply_to: list[str] | None = None
    text: str | None = None
    html: str | None = None
    extracted_text: str | None = None
    extracted_html: str | None = None

    @classmethod
    def of(cls, row: mail.Message) -> Message:
        return cls(
            **_message(row),
            reply_to=_some(row.reply_to),
            text=row.text,
            html=row.html,
            extracted_text=row.extracted_text,
            extracted_html=row.extracted_html,
        )


class ThreadItem(Shape):
    """A thread without its messages."""

    organization_id: str = ORGANIZATION
    pod_id: str = DEFAULT_POD
    inbox_id: str
    thread_id: str
    labels: list[str]
    timestamp: str
    received_timestamp: str | None = None
    sent_timestamp: str | None = None
    senders: list[str]
    recipients: list[str]
    subject: str | None = None
    preview: str | None = None
    attachments: list[Attachment] | None = None
    last_message_id: str
    message_count: int
    size: int
    updated_at: str
    created_at: str
    highlights: dict[str, list[str]] | None = None

    @classmethod
    def of(cls, row: mail.Thread) -> ThreadItem:
        return cls(**_thread(row))


class Thread(ThreadItem):
    """A thread with one page of its messages, oldest first; the token leads to older ones."""

    count: int
    limit: int | None = None
    next_page_token: str | None = None
    messages: list[Message]

    @classmethod
    def paged(cls, row: mail.Thread, page: PageRequest) -> Thread:
        messages = [Message.of(message) for message in row.messages or ()]
        return cls(**_thread(row), count=len(messages), limit=page.limit, next_page_token=row.next_page_token, messages=messages)


class DraftItem(Shape):
    """A draft as listed."""

    organization_id: str = ORGANIZATION
    pod_id: str = DEFAULT_POD
    inbox_id: str
    draft_id: str
    labels: list[str]
    to: list[str] | None = None
    cc: list[str] | None = None
    bcc: list[str] | None = None
    subject: str | None = None
    preview: str | None = None
    attachments: list[Attachment] | None = None
    in_reply_to: str | None = None
    forward_of: str | None = None
    send_status: str | None = None
    send_at: str | None = None
    updated_at: str

    @classmethod
    def of(cls, row: mail.Draft) -> DraftItem:
        return cls(**_draft(row))


class Draft(DraftItem):
    """A draft in full."""

    client_id: str | None = None
    reply_to: list[str] | None = None
    text: str | None = None
    html: str | None = None
    references: list[str] | None = None
    created_at: str

    @classmethod
    def of(cls, row: mail.Draft) -> Draft:
        return cls(
            **_draft(row),
            client_id=row.fields.client_id,
            reply_to=_some(row.fields.reply_to),
            text=row.fields.text,
            html=row.fields.html,
            references=_some(row.references),
            created_at=to_iso(row.created_at),
        )


class Sent(Shape):
    """The answer to a send that left."""

    message_id: str
    thread_id: str


class MessageLabels(Shape):
    message_id: str
    labels: list[str]


class ThreadLabels(Shape):
    thread_id: str
    labels: list[str]


class Listing(Shape):
    """What every list answers besides its rows. `limit` is echoed only when it was asked for."""

    count: int
    limit: int | None = None
    next_page_token: str | None = None


def listing(page: Page[Any], asked: PageRequest) -> dict[str, Any]:
    """The fields of `Listing` for one page."""
    return {"count": len(page.items), "limit": asked.limit, "next_page_token": page.next_page_token}


def _some(values: Iterable[T]) -> list[T] | None:
    return list(values) or None


def _iso(at: int | None) -> str | None:
    return None if at is None else to_iso(at)


def _attachments(rows: Iterable[mail.Attachment]) -> list[Attachment] | None:
    return [Attachment.of(row) for row in rows] or None


def _highlights(found: Mapping[str, tuple[str, ...]] | None) -> dict[str, list[str]] | None:
    return {field: list(passages) for field, passages in found.items()} if found else None


def _attachment(row: mail.Attachment) -> dict[str, Any]:
    return {
        "attachment_id": row.attachment_id,
        "filename": row.filename,
        "size": row.size,
        "content_type": row.content_type,
        "content_disposition": row.content_disposition,
        "content_id": row.content_id,
    }


def _message(row: mail.Message) -> dict[str, Any]:
    return {
        "inbox_id": row.inbox_id,
        "thread_id": row.thread_id,
        "message_id": row.message_id,
        "labels": list(row.labels),
        "timestamp": to_iso(row.timestamp),
        "from_": row.from_,
        "to": list(row.to),
        "cc": _some(row.cc),
        "bcc": _some(row.bcc),
        "subject": row.subject or None,
        "preview": row.preview or None,
        "attachments": _attachments(row.attachments),
        "in_reply_to": row.in_reply_to,
        "references": _some(row.references),
        "headers": dict(row.headers) or None,
        "size": row.size,
        "updated_at": to_iso(row.updated_at),
        "created_at": to_iso(row.created_at),
        "highlights": _highlights(row.highlights),
    }


def _thread(row: mail.Thread) -> dict[str, Any]:
    return {
        "inbox_id": row.inbox_id,
        "thread_id": row.thread_id,
        "labels": list(row.labels),
        "timestamp": to_iso(row.timestamp),
        "received_timestamp": _iso(row.received_timestamp),
        "sent_timestamp": _iso(row.sent_timestamp),
        "senders": list(row.senders),
        "recipients": list(row.recipients),
        "subject": row.subject or None,
        "preview": row.preview or None,
        "attachments": _attachments(row.attachments),
        "last_message_id": row.last_message_id,
        "message_count": row.message_count,
        "size": row.size,
        "updated_at": to_iso(row.updated_at),
        "created_at": to_iso(row.created_at),
        "highlights": _highlights(row.highlights),
    }


def _draft(row: mail.Draft) -> dict[str, Any]:
    fields = row.fields
    return {
        "inbox_id": row.inbox_id,
        "draft_id": row.draft_id,
        "labels": list(fields.labels),
        "to": _some(fields.to),
        "cc": _some(fields.cc),
        "bcc": _some(fields.bcc),
        "subject": fields.subject or None,
        "preview": row.preview or None,
        "attachments": _attachments(row.attachments),
        "in_reply_to": fields.in_reply_to,
        "forward_of": fields.forward_of,
        "send_status": row.send_status,
        "send_at": _iso(fields.send_at),
        "updated_at": to_iso(row.updated_at),
    }
