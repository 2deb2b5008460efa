"""From a provider's message to what may be shown of it, in this order:

raw size → omitted before anything is made of it; HTML → visible text; cleaned, links inert, secrets out;
cut with a mark. Neither an omitted nor a cut body fails the read. The work before (the answer's size,
before it is parsed) is the transport's, the one after (the whole result) is the tool's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from postroom.clock import to_iso
from postroom.config import Reader as Settings
from postroom.model.mail import Attachment, Finding, Message
from postroom.reader.remote import RemoteMessage
from postroom.safety.redact import Redactor
from postroom.safety.view import body_view
from postroom.safety.visible import Visible, visible_text

OMITTED: Final = "[message body omitted: too large]"
TRUNCATED: Final = "[body truncated]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessage:
    """One message as it may be shown. Everything but the ids and `date` was written by someone outside."""

    id: str
    thread_id: str
    from_: str
    to: tuple[str, ...]
    subject: str
    date: str
    text: str
    has_attachments: bool
    attachments: tuple[Attachment, ...]
    text_omitted: bool = False
    text_truncated: bool = False
    findings: tuple[Finding, ...] = ()


def bounded(
    remote: RemoteMessage,
    settings: Settings,
    redactor: Redactor | None,
    *,
    to_text: Callable[[str], Visible] = visible_text,
) -> ReadMessage:
    """The message with its body within bounds. `to_text` turns HTML into what a person would see."""
    source = remote.text or ""
    omitted = remote.omitted or len(source) > settings.max_raw_body_chars
    visible = to_text(source) if remote.is_html and not omitted else Visible(text="" if omitted else source)
    files = tuple(
        Attachment(attachment_id=str(number), size=each.size, filename=each.filename, content_type=each.content_type)
        for number, each in enumerate(remote.attachments, 1)
    )
    message = Message(
        inbox_id="",
        thread_id=remote.thread_id,
        message_id=remote.id,
        labels=(),
        timestamp=remote.received,
        from_=remote.from_,
        to=remote.to,
        subject=remote.subject,
        text=visible.text,
        findings=visible.findings,
    )
    most = settings.max_normalized_body_chars
    view = body_view(message, max_chars=most, redactor=redactor)
    text = f"{view.text[:most].rstrip()}\n{TRUNCATED}" if view.truncated else view.text
    return ReadMessage(
        id=remote.id,
        thread_id=remote.thread_id,
        from_=remote.from_,
        to=remote.to,
        subject=remote.subject,
        date=to_iso(remote.received),
        text="" if omitted else text,
        has_attachments=remote.has_attachments,
        attachments=files,
        text_omitted=omitted,
        text_truncated=view.truncated and not omitted,
        findings=view.findings,
    )
