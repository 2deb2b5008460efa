"""Delivery reports (RFC 3464) and complaints (RFC 5965), read from their machine-readable part.

Only `Action: failed` means that an address failed, and only for the recipients it names; a delay never
does. A report proves nothing by itself: whoever acts on it checks that it is about mail we sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from postroom.limits import HEADER_BLOCK_BYTES
from postroom.mime.addresses import parse_list
from postroom.mime.charset import decode
from postroom.mime.encoded_words import decode_words
from postroom.mime.header_block import read_block
from postroom.mime.parse import Parsed, parse
from postroom.mime.threading import message_ids

_RECIPIENTS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """What became of one recipient. `status` is an enhanced status code such as `5.1.1`."""

    address: str
    action: str
    status: str | None = None
    diagnostic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounce:
    """A delivery report. `message_id` is the reported mail's, when the report carries its headers."""

    recipients: tuple[Recipient, ...]
    message_id: str | None = None
    kind: Literal["bounce"] = "bounce"

    @property
    def failed(self) -> tuple[str, ...]:
        """The addresses that failed for good."""
        return tuple(recipient.address for recipient in self.recipients if recipient.action == "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A recipient's provider reports a mail of ours, e.g. as `abuse`."""

    feedback_type: str
    recipients: tuple[str, ...] = ()
    message_id: str | None = None
    kind: Literal["complaint"] = "complaint"


Report: TypeAlias = Bounce | Complaint


def read_report(parsed: Parsed) -> Report | None:
    """The report in a mail, or None when it carries none."""
    by_type = {part.content_type: part.content for part in reversed(parsed.attachments)}
    message_id = _reported_id(by_type)
    complaint = by_type.get("message/feedback-report")
    if complaint is not None:
        return _complaint(complaint, message_id)
    for media_type in ("message/delivery-status", "message/global-delivery-status"):
        if media_type in by_type:
            recipients = tuple(_recipients(by_type[media_type]))
            return Bounce(recipients=recipients, message_id=message_id) if recipients else None
    return _listed_failures(parsed, message_id)


def _listed_failures(parsed: Parsed, message_id: str | None) -> Bounce | None:
    """A report in words only, whose sender lists the failed addresses in X-Failed-Recipients."""
    if not {"failed_recipients", "daemon"}.issubset(parsed.marks):
        return None
    header = next((value for name, value in parsed.headers.items() if name.lower() == "x-failed-recipients"), "")
    failed = tuple(Recipient(address=address.addr, action="failed") for address in parse_list(header)[:_RECIPIENTS])
    return Bounce(recipients=failed, message_id=message_id) if failed else None


def _reported_id(by_type: dict[str, bytes]) -> str | None:
    for media_type in ("message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers"):
        if media_type in by_type:
            return parse(by_type[media_type][:HEADER_BLOCK_BYTES]).message_id
    return None


def _groups(content: bytes) -> Iterator[dict[str, str]]:
    """Field groups between blank lines; the first value of a repeated name counts."""
    content = content[:HEADER_BLOCK_BYTES].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for group in content.split(b"\n\n"):
        fields: dict[str, str] = {}
        chunk = group.strip(b"\n")
        for name, value in read_block(chunk, 0, len(chunk)).fields:
            fields.setdefault(name.lower(), decode_words(decode(value, None)))
        if fields:
            yield fields


def _recipients(content: bytes) -> Iterator[Recipient]:
    for count, fields in enumerate(_groups(content)):
        address = _address(fields.get("final-recipient") or fields.get("original-recipient") or "")
        action = fields.get("action", "").partition(";")[0].partition("(")[0].strip().lower()
        if address and action and count <= _RECIPIENTS:
            status = fields.get("status", "").partition(" ")[0].partition("(")[0].strip()
            diagnostic = fields.get("diagnostic-code", "").partition(";")[2].strip()
            yield Recipient(address=address, action=action, status=status or None, diagnostic=diagnostic[:1000] or None)


def _address(typed: str) -> str | None:
    """The address of `rfc822; user@example.com`."""
    found = parse_list(typed.partition(";")[2] or typed)
    return found[0].addr if found else None


def _complaint(content: bytes, message_id: str | None) -> Complaint:
    fields: dict[str, str] = {}
    for group in _groups(content):
        fields |= group
    recipients = parse_list(fields.get("original-rcpt-to", ""))
    kind = fields.get("feedback-type", "").lower()
    known = kind if kind in {"abuse", "fraud", "virus", "not-spam", "auth-failure", "opt-out"} else "other"
    ids = message_ids(fields.get("original-message-id", ""))
    return Complaint(
        feedback_type=known,
        recipients=tuple(address.addr for address in recipients),
        message_id=message_id or next(iter(ids), None),
    )
