"""From a wish to send to the very mail that would leave.

`resolve` looks up, as the caller, everything a `SendRequest` refers to (the message answered or
forwarded, the draft as it is now) and returns an `Outbound` with nothing left to look up. `fix`
turns that into bytes and an envelope and names both by one digest: what a person approves is what
is sent. Nothing here decides whether it may be.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from postroom.errors import Conflict, Invalid, TooLarge
from postroom.gate import quoting
from postroom.gate.submission import resolve_submission, submission_bytes
from postroom.ids import new_message_id
from postroom.limits import MAIL_BYTES, RECIPIENTS_PER_SEND
from postroom.mime.addresses import parse_address
from postroom.mime.compose import carried, compose, is_content_id
from postroom.mime.threading import references_for_reply
from postroom.model.mail import AttachmentData, Inbox, Message
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.model.request import Outbound, SendKind, SendRequest
from postroom.policy.digest import digest_bytes, digest_request
from postroom.policy.labels import SYSTEM_LABELS, check_labels


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A mail as bytes with its envelope; `digest` names both."""

    outbound: Outbound
    message_id: str
    mail_from: str
    rcpt_to: tuple[str, ...]
    raw: bytes
    digest: str


def fingerprint(request: SendRequest) -> str:
    """A hash of everything the caller asked for."""
    return _hash(request)


def content_hash(outbound: Outbound) -> str:
    """A hash of everything that would leave."""
    return _hash(outbound)


async def resolve(
    mail: Mail, principal: Principal, request: SendRequest, *, redact: Callable[[str], str], quotes: bool = True
) -> Outbound:
    """What `request` means now. `quotes` False: whoever sends answers quotes what they answer.

    Raises `NotFound`, `Invalid` or `Conflict`.
    """
    draft_id = request.draft_id if request.kind is SendKind.DRAFT else None
    if request.kind is SendKind.DRAFT:
        request = await _of_draft(mail, principal, request)
    inbox = await mail.get_inbox(principal, request.inbox_id)
    if inbox.status == "paused":
        raise Conflict("this inbox is paused and does not send", fix="set its status to active")
    if request.kind in (SendKind.REPLY, SendKind.REPLY_ALL, SendKind.FORWARD):
        source = await mail.get_message(principal, inbox.inbox_id, _required(request.message_id, "message_id"))
        if request.kind is SendKind.FORWARD:
            outbound = await _forward(mail, principal, inbox, request, source)
        else:
            outbound = _reply(inbox, request, source, redact if quotes else None)
    elif request.kind is SendKind.SUBMISSION:
        outbound = await resolve_submission(mail, principal, inbox, request)
    else:
        outbound = _new(inbox, request)
    return _checked(dataclasses.replace(outbound, draft_id=draft_id))


def fix(outbound: Outbound, *, binds: Literal["bytes", "request"], at_us: int, submitted: bytes | None = None) -> Fixed:
    """Bytes, envelope and digest of `outbound`, dated `at_us`. Raises `Invalid` or `TooLarge`.

    `submitted` is the mail as its writer handed it in, where it was handed in whole.
    """
    domain = outbound.inbox_id.rpartition("@")[2]
    message_id = new_message_id(domain)
    if submitted is None:
        raw = compose(outbound, message_id=message_id, at_us=at_us, boundary_seed=message_id)
    else:
        raw = submission_bytes(submitted, message_id=message_id, at_us=at_us)
    if len(raw) > MAIL_BYTES:
        raise TooLarge(f"the mail has {len(raw)} bytes, over the limit of {MAIL_BYTES}", fix="send smaller attachments")
    mail_from = outbound.inbox_id
    rcpt_to = recipients(outbound)
    digest = digest_bytes(mail_from, rcpt_to, raw) if binds == "bytes" else digest_request(outbound)
    return Fixed(outbound=outbound, message_id=message_id, mail_from=mail_from, rcpt_to=rcpt_to, raw=raw, digest=digest)


def recipients(outbound: Outbound) -> tuple[str, ...]:
    """The canonical addresses the mail goes to, each once, in order."""
    return tuple(dict.fromkeys(parse_address(text).canonical for text in (*outbound.to, *outbound.cc, *outbound.bcc)))


def hidden_recipients(outbound: Outbound) -> tuple[str, ...]:
    """Those of `recipients` that nobody else who gets the mail would see."""
    shown = {parse_address(text).canonical for text in (*outbound.to, *outbound.cc)}
    return tuple(address for address in recipients(outbound) if address not in shown)


async def _of_draft(mail: Mail, principal: Principal, request: SendRequest) -> SendRequest:
    draft = await mail.get_draft(principal, request.inbox_id, _required(request.draft_id, "draft_id"))
    fields = draft.fields
    kind = SendKind.SEND
    if fields.in_reply_to:
        chosen = fields.to or fields.cc or fields.bcc
        kind = SendKind.REPLY_ALL if fields.reply_all and not chosen else SendKind.REPLY
    elif fields.forward_of:
        kind = SendKind.FORWARD
    add, remove = check_labels(request.add_labels, request.remove_labels)
    kept = tuple(label for label in (*fields.labels, *add) if label not in SYSTEM_LABELS | set(remove))
    return SendRequest(
        kind=kind,
        inbox_id=draft.inbox_id,
        to=fields.to,
        cc=fields.cc,
        bcc=fields.bcc,
        reply_to=fields.reply_to,
        subject=fields.subject,
        text=fields.text,
        html=fields.html,
        labels=kept,
        attachments=fields.attachments,
        message_id=fields.in_reply_to or fields.forward_of,
    )


def _new(inbox: Inbox, request: SendRequest) -> Outbound:
    return Outbound(
        inbox_id=inbox.inbox_id,
        kind=request.kind,
        from_=_from(inbox),
        to=request.to,
        cc=request.cc,
        bcc=request.bcc,
        reply_to=request.reply_to,
        subject=request.subject or "",
        text=request.text,
        html=request.html,
        labels=request.labels,
        attachments=request.attachments,
        headers=dict(request.headers),
    )


def _reply(inbox: Inbox, request: SendRequest, source: Message, redact: Callable[[str], str] | None) -> Outbound:
    to, cc = _reply_recipients(inbox, request, source)
    text, html = request.text, request.html
    if redact is not None:
        text, html = quoting.answer(source, text, html, redact=redact)
    return dataclasses.replace(
        _new(inbox, request),
        to=to,
        cc=cc,
        subject=_prefixed("Re: ", request.subject, source),
        text=text,
        html=html,
        in_reply_to=source.message_id,
        references=references_for_reply(source.message_id, _listed(source.in_reply_to), source.references),
        thread_id=source.thread_id,
        source_message_id=source.message_id,
    )


async def _forward(mail: Mail, principal: Principal, inbox: Inbox, request: SendRequest, source: Message) -> Outbound:
    text, html = quoting.forward(source, request.text, request.html)
    return dataclasses.replace(
        _new(inbox, request),
        subject=_prefixed("Fwd: ", request.subject, source),
        text=text,
        html=html,
        attachments=(*await _attachments(mail, principal, inbox, source), *request.attachments),
        thread_id=source.thread_id,
        source_message_id=source.message_id,
    )


async def _attachments(mail: Mail, principal: Principal, inbox: Inbox, source: Message) -> list[AttachmentData]:
    found = []
    for entry in source.attachments:
        _, blob = await mail.get_attachment(principal, inbox.inbox_id, source.message_id, entry.attachment_id)
        found.append(
            AttachmentData(
                content=blob.content,
                filename=entry.filename,
                content_type=entry.content_type,
                content_disposition=entry.content_disposition,
                content_id=entry.content_id if entry.content_id and is_content_id(entry.content_id) else None,
            )
        )
    return found


def _reply_recipients(inbox: Inbox, request: SendRequest, source: Message) -> tuple[tuple[str, ...], tuple[str, ...]]:
    chosen = request.to or request.cc or request.bcc
    if request.kind is SendKind.REPLY_ALL and chosen:
        raise Invalid(
            "reply_all takes its recipients from the message", fix="leave out to, cc and bcc, or reply without reply_all"
        )
    if chosen:
        return request.to, request.cc
    own = parse_address(inbox.inbox_id).canonical
    answered = source.to if _canonical(source.from_) == own else source.reply_to or (source.from_,)
    if request.kind is SendKind.REPLY:
        return answered, ()
    to = _without((*answered, *source.to), {own}) or answered
    return to, _without(source.cc, {own, *map(_canonical, to)})


def _without(addresses: Iterable[str], unwanted: set[str]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for text in addresses:
        canonical = _canonical(text)
        if canonical not in unwanted:
            kept.setdefault(canonical, text)
    return tuple(kept.values())


def _canonical(text: str) -> str:
    return parse_address(text).canonical


def _listed(value: str | None) -> tuple[str, ...]:
    return (value,) if value else ()


def _prefixed(prefix: str, asked: str | None, source: Message) -> str:
    if asked is not None:
        return asked
    subject = carried(source.subject or "")
    return subject if subject[: len(prefix)].lower().startswith(prefix.strip().lower()) else prefix + subject


def _from(inbox: Inbox) -> str:
    if not inbox.display_name:
        return inbox.inbox_id
    return parse_address(f'"{inbox.display_name}" <{inbox.inbox_id}>').formatted


def _checked(outbound: Outbound) -> Outbound:
    count = len(outbound.to) + len(outbound.cc) + len(outbound.bcc)
    if not count:
        raise Invalid(
            "to, cc, or bcc must be specified",
            errors=[{"path": ["to"], "message": "at least one recipient is required", "code": "required"}],
        )
    if count > RECIPIENTS_PER_SEND:
        raise Invalid(f"{count} recipients are over the limit of {RECIPIENTS_PER_SEND}", fix="send to fewer at a time")
    return dataclasses.replace(
        outbound,
        to=_strict(outbound.to),
        cc=_strict(outbound.cc),
        bcc=_strict(outbound.bcc),
        reply_to=_strict(outbound.reply_to),
        labels=check_labels(outbound.labels)[0],
    )


def _strict(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(parse_address(text).formatted for text in addresses)


def _required(value: str | None, name: str) -> str:
    if not value:
        raise Invalid(f"{name} is required", errors=[{"path": [name], "message": "required", "code": "required"}])
    return value


def _hash(value: SendRequest | Outbound) -> str:
    """Attachments and raw bytes enter by their own hash: no need to write 25 MiB as base64 first."""
    attachments = tuple(dataclasses.replace(entry, content=hashlib.sha256(entry.content).digest()) for entry in value.attachments)
    slim = dataclasses.replace(value, attachments=attachments)
    if isinstance(slim, SendRequest) and slim.raw is not None:
        slim = dataclasses.replace(slim, raw=hashlib.sha256(slim.raw).digest())
    return hashlib.sha256(msgspec.json.encode(slim, order="sorted")).hexdigest()
