"""What the office keeps of a mail's bytes: a pure function from raw mail to `Content`.

`read_content` is what ingest and sending both use, so a message reads the same from either side.
`bare_content` is the last resort for mail that cannot be read: who, what about, which id, no more.
Nothing here looks at inboxes or threads; that is `placing`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from postroom.limits import HEADER_BLOCK_BYTES, PREVIEW_CHARS, STRUCTURED_HEADER_BYTES
from postroom.mime.addresses import Address, display_holds_address
from postroom.mime.bounce import Bounce, Complaint, read_report
from postroom.mime.parse import Parsed, parse, scan_from
from postroom.mime.reply import new_text
from postroom.mime.threading import message_ids, thread_candidates
from postroom.model.mail import Authentication, Finding
from postroom.safety.visible import differs, visible_text

_UNPARSEABLE: Final = "unparseable"
_TWO_TEXTS: Final = "the plain text says much that the HTML a person would see does not"
_BARE_HEADER: Final = re.compile(rb"(?im)^(subject|message-id):[ \t]*([^\r\n]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentFacts:
    """An attachment without its bytes; they are read from the raw mail when asked for."""

    size: int
    filename: str | None = None
    content_type: str | None = None
    disposition: str | None = None
    content_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Everything stored about a mail's content. Addresses are `Name <user@domain>`, `sha` is of the raw bytes.

    `author_domain` is that of the address in From, "" when there is not exactly one.
    """

    sha: str
    size: int
    from_: str = ""
    sender_address: str = ""
    author_domain: str = ""
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    subject: str | None = None
    preview: str | None = None
    text: str | None = None
    html: str | None = None
    extracted_text: str | None = None
    text_source: Literal["plain", "html", "none"] = "none"
    message_id: str | None = None
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    dated_at: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    attachments: tuple[AttachmentFacts, ...] = ()
    findings: tuple[Finding, ...] = ()
    report: Bounce | Complaint | None = None
    authentication: Authentication | None = None


def read_content(raw: bytes) -> Content:
    """Read a mail."""
    parsed = parse(raw)
    text, source, findings = _text(parsed)
    sender = next(iter(parsed.from_ or parsed.sender), None)
    return Content(
        sha=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        from_=sender.formatted if sender else _header(parsed, "from")[:STRUCTURED_HEADER_BYTES],
        sender_address=sender.addr.lower() if sender else "",
        author_domain=_author_domain(parsed),
        to=_formatted(parsed.to),
        cc=_formatted(parsed.cc),
        bcc=_formatted(parsed.bcc),
        reply_to=_formatted(parsed.reply_to),
        subject=parsed.subject,
        preview=preview_of(text),
        text=text,
        html=parsed.html,
        extracted_text=None if text is None else new_text(text),
        text_source=source,
        message_id=parsed.message_id,
        in_reply_to=next(iter(parsed.in_reply_to), None),
        references=parsed.references,
        candidates=thread_candidates(parsed)[:200],
        dated_at=parsed.date,
        headers=parsed.headers,
        attachments=tuple(
            AttachmentFacts(
                size=len(part.content),
                filename=part.filename,
                content_type=part.content_type,
                disposition=part.content_disposition,
                content_id=part.content_id,
            )
            for part in parsed.attachments
        ),
        findings=(*parsed.defects, *findings, *_sender_findings(parsed, sender)),
        report=read_report(parsed),
    )


def bare_content(raw: bytes) -> Content:
    """The least that can be said of a mail no reader got through. Never raises."""
    head = raw[:HEADER_BLOCK_BYTES].partition(b"\r\n\r\n")[0]
    found = {name.lower(): value for name, value in reversed(_BARE_HEADER.findall(head))}
    senders = scan_from(raw)
    subject = found.get(b"subject")
    ids = message_ids(found.get(b"message-id", b"")[:1000].decode("ascii", "replace"))
    return Content(
        sha=hashlib.sha256(raw).hexdigest(),
        size=len(raw),
        from_=senders[0] if senders else "",
        sender_address=senders[0].lower() if senders else "",
        subject=None if subject is None else subject[:1000].decode("utf-8", "replace").replace("\0", ""),
        message_id=next(iter(ids), None),
        findings=(Finding(code=_UNPARSEABLE),),
    )


def preview_of(text: str | None) -> str | None:
    """The first characters of a text on one line; None when there is nothing to show."""
    if text is None:
        return None
    return " ".join(text[: 8 * PREVIEW_CHARS].split())[:PREVIEW_CHARS] or None


def _text(parsed: Parsed) -> tuple[str | None, Literal["plain", "html", "none"], tuple[Finding, ...]]:
    """The mail's text, and where it came from. HTML is read as a person would see it, also beside plain text: a person sees the HTML."""
    if parsed.html is None:
        return parsed.text, "none" if parsed.text is None else "plain", ()
    seen = visible_text(parsed.html)
    if parsed.text is None or not parsed.text.strip():
        return seen.text, "html", seen.findings
    told = (Finding(code="text_differs", detail=_TWO_TEXTS),) if differs(parsed.text, seen.text) else ()
    return parsed.text, "plain", (*told, *seen.findings)


def _sender_findings(parsed: Parsed, sender: Address | None) -> Iterable[Finding]:
    if sender is not None and display_holds_address(sender):
        yield Finding(code="display_name_is_address")
    if parsed.marks:
        yield Finding(code="automatic", detail=", ".join(parsed.marks))


def _author_domain(parsed: Parsed) -> str:
    """RFC 7489 §6.6.1 leaves several authors to us: none of them is believed."""
    only = parsed.from_[0] if parsed.from_count == len(parsed.from_) == 1 else None
    return only.canonical.rpartition("@")[2] if only else ""


def _formatted(addresses: Iterable[Address]) -> tuple[str, ...]:
    return tuple(address.formatted for address in addresses)


def _header(parsed: Parsed, name: str) -> str:
    return next((value for key, value in parsed.headers.items() if key.lower() == name), "")
