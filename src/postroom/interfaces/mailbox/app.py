"""The application at `/mailbox`. Errors pass through it to the surface, which tells them."""

from __future__ import annotations

from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.errors import NotFound, PostroomError
from postroom.interfaces.http.errors import send_json
from postroom.interfaces.mailbox import wire
from postroom.interfaces.mailbox.wire import answer, body_as, caller, decoded
from postroom.mailbox.names import wrong
from postroom.mailbox.room import SEARCH_MAX, SEARCH_PAGE, Mailbox, check_limit
from postroom.mailbox.sending import Letter

_CREATED = 201


def mailbox_app(mailbox: Mailbox, *more: Route) -> ASGIApp:
    """The routes over one mailbox; `more` are the owner's, on the log as a whole."""
    router = Router([*_writing(mailbox), *_reading(mailbox), *more], redirect_slashes=False, default=_unknown)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and scope["path"] == "/mailbox/messages":
            await _send_message(mailbox, scope, receive, send)
            return
        try:
            # `app` makes the router raise for a wrong method instead of answering in plain text.
            await router({**scope, "app": app, "root_path": ""}, receive, send)
        except HTTPException as problem:
            raise PostroomError("this path does not take that method", code="method_not_allowed") from problem

    return app


async def _send_message(mailbox: Mailbox, scope: Scope, receive: Receive, send: Send) -> None:
    """The one verb that is called thousands of times a second: without router, request and response objects."""
    headers = dict(scope["headers"])
    content, more = b"", True
    while more:
        part = await receive()
        if part["type"] == "http.disconnect":
            return
        content, more = content + part.get("body", b""), part.get("more_body", False)
    body = decoded(content, headers.get(b"content-type", b"").decode("latin-1"), wire.SendBody)
    key = headers.get(b"idempotency-key")
    letter = Letter(
        to=body.to,
        text=body.text,
        thread=body.thread,
        reply_to=body.reply_to,
        priority=body.priority,
        attachments=body.attachments,
        key=body.idempotency_key or (key.decode("latin-1") if key is not None else None),
    )
    stored = await mailbox.send(scope["state"]["principal"], letter, sender=body.sender)
    await send_json(send, 200 if stored.deduplicated else _CREATED, wire.stored_shape(stored))


def _writing(mailbox: Mailbox) -> list[Route]:
    async def edit(request: Request) -> Response:
        body = await body_as(request, wire.EditBody)
        return answer(wire.stored_shape(await mailbox.edit(caller(request), _seq(request), body.text, sender=body.sender)))

    async def withdraw(request: Request) -> Response:
        sender = (await body_as(request, wire.Body)).sender or request.query_params.get("from")
        return answer(wire.stored_shape(await mailbox.withdraw(caller(request), _seq(request), sender=sender)))

    async def react(request: Request) -> Response:
        body = await body_as(request, wire.ReactionBody)
        stored = await mailbox.react(caller(request), _seq(request), body.emoji, sender=body.sender, remove=body.remove)
        return answer(wire.stored_shape(stored))

    async def acknowledge(request: Request) -> Response:
        body = await body_as(request, wire.AcknowledgeBody)
        stored = await mailbox.acknowledge(caller(request), body.up_to, reader=body.sender)
        return answer({"up_to": stored.seq, "link": stored.link})

    async def announce(request: Request) -> Response:
        body = await body_as(request, wire.AnnounceBody)
        return answer(wire.peer_shape(await mailbox.announce(caller(request), name=body.name, role=body.role)))

    return [
        Route("/mailbox/messages/{seq}", edit, methods=["PATCH"]),
        Route("/mailbox/messages/{seq}", withdraw, methods=["DELETE"]),
        Route("/mailbox/messages/{seq}/reactions", react, methods=["POST"]),
        Route("/mailbox/acknowledge", acknowledge, methods=["POST"]),
        Route("/mailbox/announce", announce, methods=["POST"]),
    ]


def _reading(mailbox: Mailbox) -> list[Route]:
    async def read(request: Request) -> Response:
        query, given = wire.query_of(request), "since" in request.query_params
        batch = await mailbox.read(caller(request), query, by_cursor=given)
        return answer(wire.batch_shape(batch))

    async def wait(request: Request) -> Response:
        query, given = wire.query_of(request), "since" in request.query_params
        batch = await mailbox.wait(caller(request), query, wire.hold_of(request), by_cursor=given)
        return answer(wire.batch_shape(batch))

    async def show(request: Request) -> Response:
        message, receipt = await mailbox.message(caller(request), _seq(request), reader=request.query_params.get("reader"))
        return answer(wire.message_shape(message, receipt))

    async def search(request: Request) -> Response:
        limit = check_limit(wire.integer(request, "limit", SEARCH_PAGE), SEARCH_MAX)
        words, reader = request.query_params.get("q", ""), request.query_params.get("reader")
        found = await mailbox.search(caller(request), words, reader=reader, limit=limit)
        return answer({"messages": [wire.message_shape(message) for message in found]})

    async def peers(request: Request) -> Response:
        return answer({"peers": [wire.peer_shape(peer) for peer in await mailbox.peers(caller(request))]})

    async def attachment(request: Request) -> Response:
        file_id, reader = request.path_params["id"], request.query_params.get("reader")
        file, data = await mailbox.attachment(caller(request), file_id, reader=reader)
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
            "Content-Security-Policy": "sandbox",
            "X-Media-Type": quote(file.media_type, safe="/;=+.- "),
        }
        return Response(data, headers=headers, media_type="application/octet-stream")

    return [
        Route("/mailbox/messages", read, methods=["GET"]),
        Route("/mailbox/wait", wait, methods=["GET"]),
        Route("/mailbox/messages/{seq}", show, methods=["GET"]),
        Route("/mailbox/search", search, methods=["GET"]),
        Route("/mailbox/peers", peers, methods=["GET"]),
        Route("/mailbox/attachments/{id}", attachment, methods=["GET"]),
    ]


def _seq(request: Request) -> int:
    text: str = request.path_params["seq"]
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise wrong("seq", "seq is the number of a message")
    return int(text)


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound("Route not found", fix="see / for what is offered here")
