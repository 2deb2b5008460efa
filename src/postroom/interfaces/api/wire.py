"""JSON in and out: typed bodies, query parameters, the shapes of our nouns."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from postroom.access.queries import AgentInfo
from postroom.clock import to_iso
from postroom.errors import Invalid
from postroom.model.outgoing import Outgoing
from postroom.model.paging import PageRequest
from postroom.model.principal import Principal
from postroom.model.session import Notice, SessionRow, Waiting

T = TypeVar("T")


def caller(request: Request) -> Principal:
    """Who asks; the surface has put it there."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


async def body_as(request: Request, kind: type[T]) -> T:
    """The body as `kind`; none at all counts as `{}`. Raises `Invalid` naming the field."""
    content = await request.body() or b"{}"
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as problem:
        what, _, where = str(problem).partition(" - at `$.")
        path = where.rstrip("`").split(".") if where else []
        raise Invalid(what, errors=[{"path": path, "message": what, "code": "invalid"}]) from None
    except (msgspec.DecodeError, RecursionError):
        raise Invalid("the body is not valid JSON", code="invalid_json") from None


def page_of(request: Request) -> PageRequest:
    """`?limit=&page_token=`."""
    return PageRequest(limit=integer(request, "limit"), page_token=request.query_params.get("page_token"))


def integer(request: Request, name: str) -> int | None:
    """A whole number from the query, None when absent. Raises `Invalid`."""
    value = request.query_params.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise Invalid(
            f"{name} must be a whole number", errors=[{"path": [name], "message": "must be a whole number", "code": "invalid"}]
        )
    return int(value)


def answer(body: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def agent_shape(info: AgentInfo, inboxes: list[str]) -> dict[str, Any]:
    """An agent with the inboxes it owns."""
    return {
        "agent_id": info.agent_id,
        "name": info.name,
        "profile": info.profile,
        "inboxes": inboxes,
        "created_at": to_iso(info.created_at),
    }


def outgoing_shape(mail: Outgoing, *, whole: bool) -> dict[str, Any]:
    """An outgoing mail as its approver needs it: who gets it, hidden recipients first. Rows of a list carry no bodies."""
    shape: dict[str, Any] = {
        "outgoing_id": mail.outgoing_id,
        "state": mail.state.value,
        "agent": mail.agent,
        "inbox_id": mail.inbox_id,
        "bcc": mail.bcc,
        "to": mail.to,
        "cc": mail.cc,
        "reply_to": mail.reply_to,
        "from": mail.mail_from,
        "subject": mail.subject,
        "attachments": [{"filename": name, "size": size} for name, size in mail.attachments],
        "size": mail.size,
        "digest": mail.digest,
        "boundary": mail.boundary,
        "boundary_reason": mail.boundary_reason,
        "reasons": mail.reasons,
        "message_id": mail.message_id,
        "created_at": to_iso(mail.created_at),
        "expires_at": to_iso(mail.expires_at),
        "possible_duplicate": mail.possible_duplicate,
    }
    if whole:
        shape |= {"text": mail.text, "html": mail.html, "headers": mail.headers, "read_outside": list(mail.read)}
        shape["findings"] = [{"code": each.code, "count": each.count, "detail": each.detail} for each in mail.findings]
    optional = {
        "session_id": mail.session_id,
        "thread_id": mail.thread_id,
        "in_reply_to": mail.in_reply_to,
        "decided_by": mail.decided_by,
        "decided_at": to_iso(mail.decided_at) if mail.decided_at is not None else None,
        "comment": mail.comment,
        "detail": mail.detail,
    }
    return shape | {key: value for key, value in optional.items() if value is not None}


def session_shape(row: SessionRow) -> dict[str, Any]:
    """A session as listed."""
    return {
        "session_id": row.session_id,
        "thread_id": row.thread_id,
        "inbox_id": row.inbox_id,
        "agent_id": row.agent_id,
        "host": row.host,
        "pending": row.pending,
        "offered": row.offered,
        "taken": row.taken,
        "waiting": row.waiting,
        "updated_at": to_iso(row.updated_at),
    }


def notice_shape(notice: Notice) -> dict[str, Any]:
    """A notice; `text` is fenced already."""
    return {
        "seq": notice.seq,
        "event_id": notice.event_id,
        "kind": notice.kind,
        "text": notice.text,
        "message_id": notice.message_id,
        "thread_id": notice.thread_id,
        "repeated": notice.repeated,
    }


def waiting_shape(one: Waiting) -> dict[str, Any]:
    """One line of what waits."""
    return {
        "session_id": one.session_id,
        "thread_id": one.thread_id,
        "inbox_id": one.inbox_id,
        "seq": one.seq,
        "kind": one.kind,
        "message_id": one.message_id,
        "from": one.sender,
    }
