"""What every request passes before any application sees it. Pure ASGI, no buffering.

In order: Host and Origin, method, token, body cap. The principal goes to
`scope["state"]["principal"]`, with the caller's OS user where the kernel tells it. Paths open
without a token are compared as they stand on the wire, so no encoding of another path opens it.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Mapping
from typing import Protocol
from urllib.parse import parse_qs

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom import limits
from postroom.errors import Invalid, PostroomError, TooLarge, Unauthorized
from postroom.interfaces.http.errors import body_of, headers_of, internal_error, send_error, send_json, status_of
from postroom.interfaces.http.hosts import ODD_HOST, Names
from postroom.model.principal import Principal

OPEN_PATHS = frozenset({b"/", b"/health", b"/.well-known/agent-card.json", b"/.well-known/agent.json"})
BODY_CAPS: Mapping[bytes, int] = {b"/v0": limits.HTTP_SEND_BODY_BYTES}
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_DOWNLOADS = b"/dl/"
_SOCKET_KEYS = (b"api_key", b"auth_token")  # how clients that cannot set headers authenticate a WebSocket
_FORBIDDEN = 403  # what a refused handshake answers in this contract, also to a bad key
_LINGER_S = 1.0  # read off what a refused client is still sending, so that it gets to read the answer

log = structlog.get_logger(__name__)


class Authenticator(Protocol):
    """Makes a principal from a token."""

    def authenticate(self, text: str | None, /) -> Awaitable[Principal]: ...


class Surface:
    """The outermost application of the HTTP origin."""

    def __init__(self, app: ASGIApp, *, access: Authenticator, names: Names, body_caps: Mapping[bytes, int] = BODY_CAPS) -> None:
        self._app = app
        self._access = access
        self._names = names
        self._caps = tuple(body_caps.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        exchange = _Exchange(scope, receive, send)
        try:
            self._names.check(scope["headers"], scope.get("server"))
            await self._admit(scope)
            exchange.cap = self._cap(scope)
            await self._app(scope, exchange.receive, exchange.send)
        except PostroomError as error:
            await exchange.refuse(error)
        except Exception:  # noqa: BLE001  (the last resort: no request ends in a stack trace)
            if exchange.too_large is None:  # else it is what the application made of our refusal to read on
                # Formatted here: a traceback with local variables would put tokens into the log.
                log.error("request_failed", room=_room_of(scope), traceback=traceback.format_exc())  # noqa: TRY400  (said above)
            await exchange.refuse(internal_error())

    async def _admit(self, scope: Scope) -> None:
        if scope["type"] == "http" and scope["method"] not in METHODS:
            raise PostroomError("this method is not used here", code="method_not_allowed")
        state = scope.setdefault("state", {})
        if _is_open(scope):
            return
        principal = await self._access.authenticate(token_of(scope))
        peer = state.get("peer")
        state["principal"] = peer.identify(principal) if peer is not None else principal

    def _cap(self, scope: Scope) -> int:
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        for prefix, cap in self._caps:
            if path == prefix or path.startswith(prefix + b"/"):
                return cap
        return limits.HTTP_BODY_BYTES


class _Exchange:
    """One request's `receive` and `send`, counting the body and knowing whether an answer has begun."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._seen = 0
        self._started = False
        self.too_large: TooLarge | None = None
        self.cap = limits.HTTP_BODY_BYTES

    async def receive(self) -> Message:
        if self._seen == 0:
            self._check(_declared_length(self._scope))
        message = await self._receive()
        self._seen += len(message.get("body") or b"")
        self._check(self._seen)
        return message

    async def send(self, message: Message) -> None:
        if self.too_large is not None and not self._started:
            raise self.too_large  # whatever the application made of it, this is the answer
        self._started = True
        await self._send(message)

    async def refuse(self, error: PostroomError) -> None:
        """Answer with the error if nothing has been answered yet; else leave the response visibly cut."""
        if self._scope["type"] == "websocket":
            await self._refuse_socket(error)
        elif self._started:
            raise Cut from error
        elif self.too_large is not None:
            await self._answer_and_linger(self.too_large)
        else:
            await send_error(self._send, error, close=error.code == ODD_HOST)

    async def _answer_and_linger(self, error: PostroomError) -> None:
        headers = [*headers_of(error), (b"connection", b"close")]
        await send_json(self._send, status_of(error)[0], body_of(error), headers, more=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while (await self._receive()).get("more_body"):
                    pass
        await self._send({"type": "http.response.body", "body": b""})

    async def _refuse_socket(self, error: PostroomError) -> None:
        if self._started:
            await self._send({"type": "websocket.close", "code": 1011})
        elif "websocket.http.response" in self._scope.get("extensions", {}):
            status = _FORBIDDEN if isinstance(error, Unauthorized) else status_of(error)[0]
            await send_json(_as_denial(self._send), status, body_of(error), headers_of(error))
        else:
            await self._send({"type": "websocket.close", "code": 1008})

    def _check(self, size: int) -> None:
        if size > self.cap and self._scope["type"] == "http":
            self.too_large = TooLarge(f"the body is over this path's limit of {self.cap} bytes")
            raise self.too_large


class Cut(Exception):
    """Ends a response that had begun when it failed; the server closes the connection."""


def _as_denial(send: Send) -> Send:
    async def deny(message: Message) -> None:
        await send({**message, "type": message["type"].replace("http", "websocket.http")})

    return deny


def _is_open(scope: Scope) -> bool:
    raw: bytes = scope.get("raw_path") or b""
    if raw.startswith(_DOWNLOADS):
        return b"/" not in raw[len(_DOWNLOADS) :] and b"%" not in raw
    return raw in OPEN_PATHS and scope["type"] == "http"


def token_of(scope: Scope) -> str | None:
    """The bearer token of a request, or of a WebSocket also from its query. Raises `Unauthorized` for another scheme."""
    values: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) > 1:
        raise Unauthorized("there is more than one Authorization header", code="invalid_token_type")
    if values:
        scheme, _, token = values[0].decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized(
                "the Authorization header is not a bearer token", code="invalid_token_type", fix="send Bearer am_…"
            )
        return token.strip()
    if scope["type"] == "websocket":
        query: dict[bytes, list[bytes]] = parse_qs(scope["query_string"])
        return next((query[name][0].decode("latin-1") for name in _SOCKET_KEYS if name in query), None)
    return None


def _declared_length(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    try:
        return int(value)
    except ValueError:
        raise Invalid("Content-Length is not a number") from None


def _room_of(scope: Scope) -> str:
    """The first path segment, for the log: no ids, no addresses."""
    return str(scope["path"]).split("/", 2)[1][:20] if "/" in scope["path"] else ""
