"""What a model may see of a message: computed on read from the stored mail, never stored.

Order: pick the body → clean → links and images → redact → cut → fence. Every step that took something
away adds to `findings`, which are our own words and stand before the fence; everything a sender wrote
(addresses, names, subject, date line, file names, body) stands inside it, each header on one line.
Redaction comes before the cut, so half a secret is not left at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from postroom.clock import to_iso
from postroom.limits import MIB
from postroom.mime.addresses import display_holds_address, parse_list
from postroom.model.mail import Attachment, Finding, Message, Thread
from postroom.safety.fence import Fence, break_forged
from postroom.safety.links import hosts, inert
from postroom.safety.lookalike import domain_findings
from postroom.safety.redact import Redactor
from postroom.safety.unicode import clean, one_line

TAG = "email-content"
_SHOWS_ADDRESS = "display_name_is_address"
VIEW_CHARS = MIB  # more of a body than this is not looked at, and never shown
_HEADER_CHARS, _NAME_CHARS, _LISTED_ADDRESSES, _LISTED_FILES = 300, 80, 20, 20
_SAFE_ID = re.compile(r"<[A-Za-z0-9._+=$~-]{1,100}@[A-Za-z0-9.-]{1,80}>")
_WORDS = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{4,}(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A body as a model may see it, not yet fenced. `findings` are the message's and those of the view."""

    text: str
    truncated: bool
    findings: tuple[Finding, ...] = ()
    dropped_chars: int = 0


def body_view(message: Message, *, max_chars: int, redactor: Redactor | None = None) -> View:
    """The new text of the message, else its text, else its preview; at most `max_chars` characters of it."""
    source = next((text for text in (message.extracted_text, message.text, message.preview) if text), "")
    cleaned, invisible = clean(source[:VIEW_CHARS])
    unseen = max(len(source) - VIEW_CHARS, 0) + max(len(cleaned) - _reach(max_chars), 0)
    text, links = inert(cleaned[: _reach(max_chars)])
    text, forged = break_forged(text)
    text, hidden = redactor.redact(text) if redactor is not None else (text, 0)
    seen = (
        Finding(code="invisible_characters", count=invisible, detail="characters nobody can see were removed"),
        Finding(code="links", count=links, detail="links and images were made inert"),
        Finding(code="forged_fence", count=forged, detail="the text imitates the marks around it"),
        Finding(code="secret_redacted", count=hidden, detail="secrets were taken out of this view"),
    )
    shown, dropped = _cut(text, len(text) + unseen, max_chars)
    counted = (finding for finding in seen if finding.count)
    findings = (*message.findings, *_sender_findings(message), *_link_findings(text), *counted)
    return View(text=shown, truncated=dropped > 0, findings=findings, dropped_chars=dropped)


def render_message(fence: Fence, message: Message, *, max_chars: int, redactor: Redactor | None = None) -> tuple[str, View]:
    """The message in a fence, findings before it, and the view it shows."""
    view = body_view(message, max_chars=max_chars, redactor=redactor)
    lines = [*_headers(message), *_note(view), "", view.text]
    block = fence.block(TAG, _redacted("\n".join(lines[:-1]), redactor) + "\n" + lines[-1])
    found = findings_line(view.findings)
    return (f"{found}\n{block}" if found else block), view


def render_thread(fence: Fence, thread: Thread, *, max_chars: int, redactor: Redactor | None = None) -> str:
    """A head with our own values, the subject fenced, and each message. A thread without messages is empty text."""
    messages = thread.messages or ()
    if not messages:
        return ""
    many = "message" if thread.message_count == 1 else "messages"
    head = f"thread {thread.thread_id}, {thread.message_count} {many}"
    subject = fence.block(TAG, _redacted(f"subject: {_subject(thread.subject)}", redactor))
    rendered = (render_message(fence, message, max_chars=max_chars, redactor=redactor)[0] for message in messages)
    return "\n".join([head, subject, *rendered])


def thread_line(fence: Fence, thread: Thread, *, redactor: Redactor | None = None) -> str:
    """One thread of a list: our own values, then subject and senders in a fence."""
    many = "message" if thread.message_count == 1 else "messages"
    senders = ", ".join(map(address_line, thread.senders[:_LISTED_ADDRESSES])) or "(unknown)"
    body = [f'"{_subject(thread.subject)}"', f"from: {senders}"]
    if thread.preview:
        body.append(f"preview: {one_line(inert(thread.preview)[0], _HEADER_CHARS)}")
    head = f"thread {thread.thread_id} ({thread.message_count} {many}, {to_iso(thread.timestamp)})"
    return f"{head}\n{fence.block(TAG, _redacted(chr(10).join(body), redactor))}"


def findings_line(findings: tuple[Finding, ...]) -> str:
    """Findings in our own words on one line, most telling first; empty without any."""
    parts = [f"{finding.code} ({finding.count})" if finding.count > 1 else finding.code for finding in findings]
    details = [f"{part}: {finding.detail}" if finding.detail else part for part, finding in zip(parts, findings, strict=True)]
    line = one_line("; ".join(dict.fromkeys(details)), 1000)
    return f"findings: {break_forged(line)[0]}" if line else ""


def address_line(address: str) -> str:
    """One address for a reader: the address first, the name someone gave it second, in quotes."""
    parsed = parse_list(address)
    if not parsed:
        return one_line(address, _HEADER_CHARS) or "(unknown)"
    spec = one_line(parsed[0].addr, _HEADER_CHARS)
    name = one_line(parsed[0].display or "", _NAME_CHARS).replace('"', "'")
    return f'{spec} "{name}"' if name and name != spec else spec


def safe_id(message_id: str) -> str | None:
    """The id if it is short, plain and no sentence in disguise; else None, and the caller shows an alias."""
    if not _SAFE_ID.fullmatch(message_id) or len(message_id) > 120:
        return None
    return None if len(_WORDS.findall(message_id.partition("@")[0])) > 2 else message_id


def _reach(max_chars: int) -> int:
    """How much of a body is worked on: what is shown, and enough more that nothing half seen ends it."""
    return max(max_chars, 0) * 2 + 8192


def _headers(message: Message) -> list[str]:
    lines = [f"from: {address_line(message.from_)}"]
    for name, addresses in (("reply-to", message.reply_to), ("to", message.to), ("cc", message.cc), ("bcc", message.bcc)):
        if addresses:
            shown = ", ".join(map(address_line, addresses[:_LISTED_ADDRESSES]))
            more = len(addresses) - _LISTED_ADDRESSES
            lines.append(f"{name}: {shown}" + (f" and {more} more" if more > 0 else ""))
    lines.append(f"subject: {_subject(message.subject)}")
    lines.append(f"date: {to_iso(message.timestamp)}")
    lines.append(f"message_id: {one_line(message.message_id, _HEADER_CHARS)}")
    lines += [f"attachment: {_attachment(each)}" for each in message.attachments[:_LISTED_FILES]]
    return lines


def _attachment(attachment: Attachment) -> str:
    name = one_line(attachment.filename or "(no name)", _HEADER_CHARS)
    kind = one_line(attachment.content_type or "application/octet-stream", _NAME_CHARS)
    return f"{name} [{kind}] ({attachment.size} B) id {one_line(attachment.attachment_id, _NAME_CHARS)}"


def _note(view: View) -> list[str]:
    return [f"note: the body is cut, {view.dropped_chars} characters are not shown"] if view.truncated else []


def _subject(subject: str | None) -> str:
    return one_line(inert(subject or "")[0], _HEADER_CHARS) or "(no subject)"


def _redacted(text: str, redactor: Redactor | None) -> str:
    return redactor.redact(text)[0] if redactor is not None else text


def _cut(text: str, total: int, max_chars: int) -> tuple[str, int]:
    """The first `max_chars` characters and a marker that says what is missing of how much."""
    if total <= max_chars:
        return text, 0
    if max_chars <= 0:
        return "", total
    shown = text[:max_chars]
    dropped = total - len(shown)
    return f"{shown}\n[cut: {dropped} of {total} characters are not shown]", dropped


def _sender_findings(message: Message) -> tuple[Finding, ...]:
    """What is odd about who the message says it is from, unless it was found at arrival."""
    known = {finding.code for finding in message.findings}
    senders = parse_list(message.from_)[:1]
    found: list[Finding] = []
    for address in senders:
        if display_holds_address(address) and _SHOWS_ADDRESS not in known:
            found.append(Finding(code=_SHOWS_ADDRESS, detail="the sender's name shows another address"))
        found += domain_findings(address.domain)
    answered = {address.canonical for entry in message.reply_to for address in parse_list(entry)}
    if answered - {address.canonical for address in senders}:
        found.append(Finding(code="reply_to_differs", detail="an answer would go to another address"))
    return tuple(finding for finding in found if finding.code not in known)


def _link_findings(text: str) -> tuple[Finding, ...]:
    found = (finding for host in hosts(text) for finding in domain_findings(host, whose="the host of a link"))
    return tuple(dict.fromkeys(found))
