"""JSON in and out of `/mailbox`: typed bodies, a reading's parameters, and the shapes of our nouns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from postroom.clock import to_iso
from postroom.errors import Invalid
from postroom.mailbox.names import wrong
from postroom.mailbox.reading import PAGE, PAGE_MAX, Query
from postroom.mailbox.records import Batch, Message, Stored
from postroom.mailbox.room import HOLD_MAX_S, HOLD_S, Peer, check_limit
from postroom.model.principal import Principal

T = TypeVar("T")
_MOST_SEQ = 2**53


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Every body may say who speaks; only the owner's key may name another."""

    sender: str | None = msgspec.field(default=None, name="from")


class SendBody(Body):
    """A message to send."""

    to: str
    text: str
    thread: str | None = None
    reply_to: int | None = None
    priority: str | None = None
    attachments: list[dict[str, Any]] | None = None
    idempotency_key: str | None = None


class EditBody(Body):
    """New text."""

    text: str


class ReactionBody(Body):
    """A reaction, or one taken back."""

    emoji: str
    remove: bool = False


class AcknowledgeBody(Body):
    """Up to which cursor."""

    up_to: int


class AnnounceBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Who is here."""

    name: str | None = None
    role: str | None = None


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Body, SendBody, EditBody, ReactionBody, AcknowledgeBody, AnnounceBody)
}
_encode = msgspec.json.Encoder().encode


def caller(request: Request) -> Principal:
    """Who asks; the surface has put it there."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


async def body_as(request: Request, kind: type[T]) -> T:
    """The body as `kind`. Raises `Invalid` naming the field."""
    return decoded(await request.body(), request.headers.get("content-type", ""), kind)


def decoded(content: bytes, content_type: str, kind: type[T]) -> T:
    """A body as `kind`. Raises `Invalid` naming the field."""
    if content and content_type.partition(";")[0].strip().lower() != "application/json":
        raise Invalid("the body must be application/json", code="invalid_content_type", fix="send Content-Type: application/json")
    try:
        body: T = _DECODERS[kind].decode(content or b"{}")
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$.")
        path = where.rstrip("`").split(".") if where else []
        raise Invalid(what, errors=[{"path": path, "message": what, "code": "invalid"}]) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Invalid("the body is not valid JSON", code="invalid_json") from None
    return body


def answer(body: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(_encode(body), status, media_type="application/json")


def integer(request: Request, name: str, default: int) -> int:
    """A whole number of the query string. Raises `Invalid`."""
    value = request.query_params.get(name)
    if value is None:
        return default
    if not value.isascii() or not value.isdigit() or int(value[:17]) >= _MOST_SEQ:
        raise wrong(name, f"{name} must be a whole number, 0 or more")
    return int(value)


def query_of(request: Request) -> Query:
    """What to read: `?reader=&since=&from=&thread=&mention=&priority=&limit=&sent=1&newest=1`."""
    given = request.query_params
    return Query(
        reader=given.get("reader", ""),
        since=integer(request, "since", 0),
        limit=check_limit(integer(request, "limit", PAGE), PAGE_MAX),
        sender=given.get("from"),
        thread=given.get("thread"),
        mention=given.get("mention"),
        priority=given.get("priority"),
        sent=bool(integer(request, "sent", 0)),
        newest=bool(integer(request, "newest", 0)),
    )


def hold_of(request: Request) -> float:
    """How long to park, in seconds: `?hold_ms=`, at most five minutes."""
    return min(integer(request, "hold_ms", int(HOLD_S * 1000)) / 1000, HOLD_MAX_S)


def stored_shape(stored: Stored) -> dict[str, Any]:
    """The receipt of a write."""
    shape: dict[str, Any] = {"seq": stored.seq, "link": stored.link, "at": to_iso(stored.at), "state": "stored"}
    if stored.thread:
        shape["thread"] = stored.thread
    if stored.deduplicated:
        shape["deduplicated"] = True
    if stored.redacted:
        shape["redacted"] = stored.redacted
    return shape


def message_shape(message: Message, receipt: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A message as it is now."""
    shape: dict[str, Any] = {
        "seq": message.seq,
        "at": to_iso(message.at),
        "from": message.sender,
        "to": message.to,
        "thread": message.thread,
        "text": message.text,
    }
    optional = {
        "reply_to": message.reply_to,
        "priority": message.priority,
        "mentions": message.mentions,
        "attachments": [{"id": f.file_id, "name": f.name, "media_type": f.media_type, "size": f.size} for f in message.files],
        "edited_at": message.edited_at and to_iso(message.edited_at),
        "edited_from": message.edited_from,
        "withdrawn_at": message.withdrawn_at and to_iso(message.withdrawn_at),
        "reactions": [{"from": who, "emoji": what} for who, what in message.reactions],
        "change": message.change
        and {"kind": message.change.kind, "seq": message.change.seq, "by": message.change.by, "at": to_iso(message.change.at)},
        "receipt": receipt,
    }
    return shape | {name: value for name, value in optional.items() if value}


def batch_shape(batch: Batch) -> dict[str, Any]:
    """A page, and where to go on."""
    shape: dict[str, Any] = {
        "messages": [message_shape(message) for message in batch.messages],
        "cursor": batch.cursor,
        "link": batch.link,
        "more": batch.more,
    }
    if batch.waited:
        shape["waited"] = True
    if batch.missed:
        shape["missed"] = batch.missed
    return shape


def peer_shape(peer: Peer) -> dict[str, Any]:
    """A participant."""
    return {
        "name": peer.name,
        "role": peer.role,
        "live": peer.live,
        "agent": peer.is_agent,
        "seen_at": to_iso(peer.seen_at) if peer.seen_at else None,
        "acknowledged": peer.acknowledged,
        "unread": peer.unread,
    }
