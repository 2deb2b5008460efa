"""Rows of the office's tables as the nouns of `model.mail`, and nouns as columns.

Each `*_COLUMNS` is the select list its `*_noun` reads; the two stand together so that they change
together. Lists and maps are JSON text here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Select, cast, select

from postroom.model.mail import Attachment, Authentication, Finding, Inbox, Message, Thread
from postroom.office import tables as t
from postroom.store.statement import in_list

INBOX_COLUMNS = (
    t.inbox.c.id,
    t.inbox.c.pod,
    t.inbox.c.address,
    t.inbox.c.display_name,
    t.inbox.c.client_id,
    t.inbox.c.status,
    t.inbox.c.metadata,
    t.inbox.c.owner_agent,
    t.inbox.c.created_at,
    t.inbox.c.updated_at,
)


def inbox_noun(row: Sequence[Any]) -> Inbox:
    return Inbox(
        pod_id=row[1],
        inbox_id=row[2],
        display_name=row[3],
        client_id=row[4],
        status=row[5],
        metadata=json.loads(row[6]),
        owner_agent=row[7],
        created_at=row[8],
        updated_at=row[9],
    )


MESSAGE_COLUMNS = (
    t.message.c.id,
    t.thread.c.uuid,
    t.message.c.public_id,
    t.message.c.timestamp,
    t.message.c.from_,
    t.message.c.to_,
    t.message.c.cc,
    t.message.c.bcc,
    t.message.c.reply_to,
    t.message.c.subject,
    t.message.c.preview,
    t.message.c.in_reply_to,
    t.message.c.refs,
    t.message.c.headers,
    t.message.c.size,
    t.message.c.findings,
    t.message.c.text_source,
    t.message.c.created_at,
    t.message.c.updated_at,
)
BODY_COLUMNS = (t.message.c.text, t.message.c.html, t.message.c.extracted_text, t.message.c.authentication)


def message_noun(
    row: Sequence[Any], inbox_id: str, labels: Mapping[int, tuple[str, ...]], attachments: Mapping[int, tuple[Attachment, ...]]
) -> Message:
    """A message from MESSAGE_COLUMNS, with bodies when BODY_COLUMNS follow them."""
    text, html, extracted, proved = row[19:23] if len(row) > 19 else (None, None, None, None)
    return Message(
        inbox_id=inbox_id,
        thread_id=row[1],
        message_id=row[2],
        labels=labels.get(row[0], ()),
        timestamp=row[3],
        from_=row[4],
        to=strings(row[5]),
        cc=strings(row[6]),
        bcc=strings(row[7]),
        reply_to=strings(row[8]),
        subject=row[9],
        preview=row[10],
        text=text,
        html=html,
        extracted_text=extracted,
        text_source=row[16],
        attachments=attachments.get(row[0], ()),
        in_reply_to=row[11],
        references=strings(row[12]),
        headers=json.loads(row[13]),
        size=row[14],
        findings=findings(row[15]),
        authentication=None if proved is None else Authentication(**json.loads(proved)),
        created_at=row[17],
        updated_at=row[18],
    )


THREAD_COLUMNS = (
    t.thread.c.id,
    t.inbox.c.address,
    t.thread.c.uuid,
    t.thread.c.timestamp,
    t.thread.c.received_at,
    t.thread.c.sent_at,
    t.thread.c.senders,
    t.thread.c.recipients,
    t.thread.c.subject,
    t.thread.c.preview,
    t.thread.c.last_message_id,
    t.thread.c.message_count,
    t.thread.c.size,
    t.thread.c.created_at,
    t.thread.c.updated_at,
)


def thread_noun(
    row: Sequence[Any], labels: Mapping[int, tuple[str, ...]], attachments: Mapping[int, tuple[Attachment, ...]]
) -> Thread:
    return Thread(
        inbox_id=row[1],
        thread_id=row[2],
        labels=labels.get(row[0], ()),
        timestamp=row[3],
        received_timestamp=row[4],
        sent_timestamp=row[5],
        senders=strings(row[6]),
        recipients=strings(row[7]),
        subject=row[8],
        preview=row[9],
        last_message_id=row[10],
        message_count=row[11],
        size=row[12],
        attachments=attachments.get(row[0], ()),
        created_at=row[13],
        updated_at=row[14],
    )


ATTACHMENT_COLUMNS = (
    t.attachment.c.uuid,
    t.attachment.c.size,
    t.attachment.c.filename,
    t.attachment.c.content_type,
    t.attachment.c.disposition,
    t.attachment.c.content_id,
)


def attachment_noun(row: Sequence[Any]) -> Attachment:
    return Attachment(
        attachment_id=row[0],
        size=row[1],
        filename=row[2],
        content_type=row[3],
        content_disposition=row[4],
        content_id=row[5],
    )


def strings(text: str) -> tuple[str, ...]:
    """A JSON list of strings."""
    return tuple(json.loads(text)) if text != "[]" else ()


_ENCODE = msgspec.json.Encoder().encode  # json.dumps with options builds an encoder at every call


def to_json(value: Any) -> str:
    return _ENCODE(value).decode()


def findings(text: str) -> tuple[Finding, ...]:
    if text == "[]":
        return ()
    return tuple(Finding(code=code, count=count, detail=detail) for code, count, detail in json.loads(text))


def findings_json(found: Iterable[Finding]) -> str:
    return to_json([[entry.code, entry.count, entry.detail] for entry in found])


def authentication_json(found: Authentication | None) -> str | None:
    return None if found is None else to_json(asdict(found))


def grouped(rows: Iterable[Sequence[Any]]) -> dict[int, tuple[str, ...]]:
    """`(key, value)` rows as a map of sorted, distinct values."""
    groups: dict[int, set[str]] = {}
    for key, value in rows:
        groups.setdefault(key, set()).add(value)
    return {key: tuple(sorted(values)) for key, values in groups.items()}


def grouped_attachments(rows: Iterable[Sequence[Any]]) -> dict[int, tuple[Attachment, ...]]:
    """`(key, *ATTACHMENT_COLUMNS)` rows as a map."""
    groups: dict[int, list[Attachment]] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(attachment_noun(row[1:]))
    return {key: tuple(values) for key, values in groups.items()}


def key_list(name: str) -> Select[Any]:
    """The right side of `IN` for integer keys given as a list (elements of JSON travel as text in PostgreSQL)."""
    elements = in_list(name).subquery()
    return select(cast(elements.c.value, BigInteger))
