"""The contract's JSON as our nouns, and our nouns as its requests.

What the service says is read as it is: an odd optional field is left out, a missing id is an answer outside the
contract (`Unexpected`). A body that is only HTML becomes the text a person would see, here as in an office of
our own.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from postroom.clock import MICROS, from_iso
from postroom.hosted.api import Json, Unexpected
from postroom.limits import FILTERED_PAGE_MAX
from postroom.mime.reply import new_text
from postroom.model.mail import Attachment, AttachmentData, Draft, DraftFields, Finding, Inbox, Message, Thread
from postroom.model.paging import MailFilter, PageRequest
from postroom.safety.visible import differs, visible_text

_HERE_BYTES: Final = 64 * 1024  # larger HTML is read outside the loop
_TWO_TEXTS: Final = "the plain text says much that the HTML a person would see does not"


def inbox_of(said: Json, *, pod_id: str, owner_agent: str | None) -> Inbox:
    """Whose it is, is not the service's to say."""
    metadata = said.get("metadata")
    return Inbox(
        inbox_id=needed(said, "inbox_id").lower(),
        pod_id=pod_id,
        display_name=text_of(said, "display_name"),
        client_id=text_of(said, "client_id"),
        status="paused" if said.get("status") == "paused" else "active",
        metadata=metadata if isinstance(metadata, dict) else {},
        owner_agent=owner_agent,
        created_at=moment_of(said, "created_at"),
        updated_at=moment_of(said, "updated_at"),
    )


def row_of(said: Json) -> Message:
    """A message without bodies, as in a list."""
    return Message(
        inbox_id=needed(said, "inbox_id").lower(),
        thread_id=needed(said, "thread_id"),
        message_id=needed(said, "message_id"),
        labels=texts_of(said, "labels"),
        timestamp=moment_of(said, "timestamp"),
        from_=text_of(said, "from") or "",
        to=texts_of(said, "to"),
        cc=texts_of(said, "cc"),
        bcc=texts_of(said, "bcc"),
        reply_to=texts_of(said, "reply_to"),
        subject=text_of(said, "subject"),
        preview=text_of(said, "preview"),
        attachments=tuple(attachment_of(entry) for entry in objects_of(said, "attachments")),
        in_reply_to=text_of(said, "in_reply_to"),
        references=texts_of(said, "references"),
        headers=_headers(said.get("headers")),
        size=number_of(said, "size"),
        highlights=_highlights(said),
        created_at=moment_of(said, "created_at"),
        updated_at=moment_of(said, "updated_at"),
    )


async def message_of(said: Json) -> Message:
    """A message with its bodies."""
    text, html = text_of(said, "text"), text_of(said, "html")
    if html is not None and len(html) > _HERE_BYTES:
        text, source, findings = await asyncio.to_thread(_body, text, html)
    else:
        text, source, findings = _body(text, html)
    extracted = text_of(said, "extracted_text")
    return replace(
        row_of(said),
        text=text,
        html=html,
        extracted_text=extracted if extracted is not None or text is None else new_text(text),
        extracted_html=text_of(said, "extracted_html"),
        text_source=source,
        findings=findings,
    )


async def thread_of(said: Json) -> Thread:
    """A thread; with `messages` where the answer has them."""
    messages = said.get("messages")
    return Thread(
        inbox_id=needed(said, "inbox_id").lower(),
        thread_id=needed(said, "thread_id"),
        labels=texts_of(said, "labels"),
        timestamp=moment_of(said, "timestamp"),
        senders=texts_of(said, "senders"),
        recipients=texts_of(said, "recipients"),
        last_message_id=text_of(said, "last_message_id") or "",
        message_count=number_of(said, "message_count"),
        size=number_of(said, "size"),
        received_timestamp=moment_of(said, "received_timestamp") or None,
        sent_timestamp=moment_of(said, "sent_timestamp") or None,
        subject=text_of(said, "subject"),
        preview=text_of(said, "preview"),
        attachments=tuple(attachment_of(entry) for entry in objects_of(said, "attachments")),
        messages=None if messages is None else tuple([await message_of(entry) for entry in objects_of(said, "messages")]),
        next_page_token=text_of(said, "next_page_token"),
        highlights=_highlights(said),
        created_at=moment_of(said, "created_at"),
        updated_at=moment_of(said, "updated_at"),
    )


def draft_of(said: Json, *, author: str, held: tuple[AttachmentData, ...] = ()) -> Draft:
    """A draft; `held` are its attachments' bytes."""
    status = said.get("send_status")
    return Draft(
        inbox_id=needed(said, "inbox_id").lower(),
        draft_id=needed(said, "draft_id"),
        fields=DraftFields(
            to=texts_of(said, "to"),
            cc=texts_of(said, "cc"),
            bcc=texts_of(said, "bcc"),
            reply_to=texts_of(said, "reply_to"),
            subject=text_of(said, "subject"),
            text=text_of(said, "text"),
            html=text_of(said, "html"),
            labels=texts_of(said, "labels"),
            attachments=held,
            in_reply_to=text_of(said, "in_reply_to"),
            forward_of=text_of(said, "forward_of"),
            send_at=moment_of(said, "send_at") or None,
            client_id=text_of(said, "client_id"),
        ),
        author=author,
        attachments=tuple(attachment_of(entry) for entry in objects_of(said, "attachments")),
        preview=text_of(said, "preview"),
        references=texts_of(said, "references"),
        send_status=status if status in ("scheduled", "sending", "failed") else None,
        created_at=moment_of(said, "created_at"),
        updated_at=moment_of(said, "updated_at"),
    )


def attachment_of(said: Json) -> Attachment:
    """An attachment without its bytes."""
    shown = said.get("content_disposition")
    return Attachment(
        attachment_id=needed(said, "attachment_id"),
        size=number_of(said, "size"),
        filename=text_of(said, "filename"),
        content_type=text_of(said, "content_type"),
        content_disposition=shown if shown in ("inline", "attachment") else None,
        content_id=text_of(said, "content_id"),
    )


def attached(entry: AttachmentData) -> Json:
    """An attachment as a request carries it."""
    shape = {
        "filename": entry.filename,
        "content_type": entry.content_type,
        "content_disposition": entry.content_disposition,
        "content_id": entry.content_id,
        "content": base64.b64encode(entry.content).decode(),
    }
    return {name: value for name, value in shape.items() if value is not None}


def page_query(page: PageRequest) -> dict[str, str]:
    """The page as query values. Raises `Invalid` for a size no office answers."""
    size = min(page.size(), FILTERED_PAGE_MAX)  # more is refused by some lists; the token leads on
    query = {} if page.limit is None else {"limit": str(size)}
    if page.page_token is not None:
        query["page_token"] = page.page_token
    return query | ({"ascending": "true"} if page.ascending else {})


def filter_query(wanted: MailFilter, *, threads: bool) -> dict[str, str]:
    """The conditions as query values; lists as JSON, the way the official clients write them."""
    names = ("senders", "recipients") if threads else ("from", "to")
    lists = {"labels": wanted.labels, names[0]: wanted.senders, names[1]: wanted.recipients, "subject": wanted.subject}
    moments = {"before": wanted.before, "after": wanted.after}
    return {
        **{name: json.dumps(list(value)) for name, value in lists.items() if value},
        **{name: moment_text(at) for name, at in moments.items() if at is not None},
        **{f"include_{what}": "true" for what in sorted(wanted.include)},
    }


def moment_text(at_us: int) -> str:
    """RFC 3339 in UTC, to the microsecond."""
    moment = datetime.fromtimestamp(at_us // MICROS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_us % MICROS:06d}Z"


def needed(said: Mapping[str, Any], name: str) -> str:
    """A required text. Raises `Unexpected`."""
    value = said.get(name)
    if not isinstance(value, str) or not value:
        raise Unexpected(f"the answer has no {name}")
    return value


def text_of(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) else None


def texts_of(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = said.get(name)
    if isinstance(value, str):
        return (value,)
    return tuple(entry for entry in value if isinstance(entry, str)) if isinstance(value, list) else ()


def number_of(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return value if type(value) is int and value >= 0 else 0


def moment_of(said: Mapping[str, Any], name: str) -> int:
    """Microseconds; 0 for what is no moment."""
    value = said.get(name)
    try:
        return from_iso(value) if isinstance(value, str) else 0
    except (ValueError, OverflowError):
        return 0


def objects_of(said: Mapping[str, Any], name: str) -> list[Json]:
    """The objects in a list. Raises `Unexpected` for a list of anything else."""
    value = said.get(name, [])
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise Unexpected(f"{name} is no list of objects")
    return value


def _body(text: str | None, html: str | None) -> tuple[str | None, Literal["plain", "html", "none"], tuple[Finding, ...]]:
    if html is None:
        return text, "none" if text is None else "plain", ()
    seen = visible_text(html)
    if text is None or not text.strip():
        return seen.text, "html", seen.findings
    told = (Finding(code="text_differs", detail=_TWO_TEXTS),) if differs(text, seen.text) else ()
    return text, "plain", (*told, *seen.findings)


def _headers(value: Any) -> Mapping[str, str]:
    return {name: text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


def _highlights(said: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]] | None:
    value = said.get("highlights")
    return {name: texts_of(value, name) for name in value} if isinstance(value, dict) else None
