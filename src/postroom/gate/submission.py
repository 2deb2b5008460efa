"""A mail a client wrote itself and handed in whole: kept as written, made fit to be bound to.

What leaves has CRLF lines of 7-bit text, no Bcc field, one Message-ID and one Date; the parts stay the
client's. Who gets it is the envelope, whatever the header says, and From is the inbox: a mail never
speaks for somebody else.
"""

from __future__ import annotations

from email import message_from_bytes
from email.generator import BytesGenerator
from email.message import Message as RawMessage
from email.policy import compat32
from email.utils import formatdate
from io import BytesIO

from postroom.clock import MICROS
from postroom.errors import Invalid, NotFound
from postroom.mime.addresses import Address, parse_address
from postroom.mime.encoded_words import decode_words
from postroom.mime.parse import Parsed, parse
from postroom.model.mail import AttachmentData, Inbox
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.model.request import Outbound, SendKind, SendRequest

_POLICY = compat32.clone(linesep="\r\n", cte_type="7bit", max_line_length=None)
_SHOWN_APART = frozenset(("from", "to", "cc", "reply-to", "subject", "in-reply-to", "references"))
_OF_THE_FORM = frozenset(("mime-version", "content-type", "content-transfer-encoding"))
_DROPPED = ("Bcc", "Resent-Bcc", "Return-Path", "Date", "Message-ID")


async def resolve_submission(mail: Mail, principal: Principal, inbox: Inbox, request: SendRequest) -> Outbound:
    """What the mail says, with the envelope's recipients. Raises `Invalid` when it is not from this inbox."""
    parsed = parse(request.raw or b"")
    own = parse_address(inbox.inbox_id).canonical
    if parsed.from_count != 1 or [address.canonical for address in parsed.from_] != [own]:
        raise Invalid(f"From must be {inbox.inbox_id} and nothing else", code="invalid_from")
    to, cc, bcc = _by_field(parsed, request.envelope_to)
    parent = parsed.in_reply_to[0] if parsed.in_reply_to else None
    return Outbound(
        inbox_id=inbox.inbox_id,
        kind=SendKind.SUBMISSION,
        from_=parsed.from_[0].formatted,
        to=to,
        cc=cc,
        bcc=bcc,
        reply_to=tuple(address.formatted for address in parsed.reply_to),
        subject=parsed.subject or "",
        text=parsed.text,
        html=parsed.html,
        labels=request.labels,
        headers=_other_headers(request.raw or b""),
        attachments=tuple(
            AttachmentData(
                content=part.content,
                filename=part.filename,
                content_type=part.content_type,
                content_disposition=part.content_disposition,
                content_id=part.content_id,
            )
            for part in parsed.attachments
        ),
        in_reply_to=parent,
        references=parsed.references,
        thread_id=await _thread_of(mail, principal, inbox, parent),
        source_message_id=parent,
    )


def submission_bytes(raw: bytes, *, message_id: str, at_us: int) -> bytes:
    """The mail as it will leave. Raises `Invalid` when it cannot be written as 7-bit mail."""
    message: RawMessage = message_from_bytes(raw, policy=_POLICY)
    for name in _DROPPED:
        del message[name]
    message["Date"] = formatdate(at_us // MICROS)
    message["Message-ID"] = message_id
    target = BytesIO()
    try:
        BytesGenerator(target, mangle_from_=False, policy=_POLICY).flatten(message)
        written = target.getvalue()
    except (ValueError, LookupError, UnicodeError):
        written = b""
    written = written.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\r\n")
    if not written or not written.isascii() or b"\0" in written:
        raise Invalid("the mail cannot be written as 7-bit mail", fix="encode its parts as base64 or quoted-printable")
    return written if written.endswith(b"\r\n") else written + b"\r\n"


def _other_headers(raw: bytes) -> dict[str, str]:
    """What else the mail's head says, for whoever is asked: several of one name on one line."""
    message: RawMessage = message_from_bytes(raw, policy=_POLICY)
    others = _SHOWN_APART | _OF_THE_FORM | {name.lower() for name in _DROPPED}
    found: dict[str, list[str]] = {}
    for name, value in message.items():
        if name.lower() not in others:
            found.setdefault(name, []).append(decode_words(str(value)))
    return {name: " | ".join(values) for name, values in found.items()}


def _by_field(parsed: Parsed, envelope: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The envelope's recipients as To, Cc and, where no field names them, Bcc."""
    wanted = {parse_address(text).canonical: text for text in envelope}

    def named(addresses: tuple[Address, ...]) -> tuple[str, ...]:
        return tuple(address.formatted for address in addresses if wanted.pop(address.canonical, None) is not None)

    return named(parsed.to), named(parsed.cc), tuple(wanted.values())


async def _thread_of(mail: Mail, principal: Principal, inbox: Inbox, message_id: str | None) -> str | None:
    if message_id is None:
        return None
    try:
        return (await mail.get_message(principal, inbox.inbox_id, message_id)).thread_id
    except NotFound:
        return None
