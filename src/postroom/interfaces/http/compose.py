"""Which application answers which path: by the first segment, or by the whole path.

A mounted application sees the full path, with its own prefix as `root_path`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from postroom import __version__
from postroom.errors import NotFound, PostroomError
from postroom.interfaces.http.errors import send_error, send_json


def build(
    prefixes: Mapping[str, ASGIApp],
    *,
    accepting: Callable[[], bool],
    exact: Mapping[str, ASGIApp] | None = None,
    sockets: Mapping[str, ASGIApp] | None = None,
) -> ASGIApp:
    """The application of the whole origin.

    `prefixes` maps a first path segment (`"v0"`) to what is mounted there, `exact` a whole path
    (`"/openapi.json"`) to what answers it alone, `sockets` a whole path to a WebSocket. `accepting`
    says whether the store takes writes.
    """
    whole: dict[str, ASGIApp] = {"/health": _health(accepting), "/": _descriptor, **(exact or {})}
    mounted = {f"/{segment}": app for segment, app in prefixes.items()}

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if scope["type"] == "websocket":
            await _socket(sockets or {}, path)(scope, receive, send)
            return
        if (app := whole.get(path)) is not None:
            await app(scope, receive, send)
            return
        prefix = path[: path.find("/", 1)] if "/" in path[1:] else path
        if (app := mounted.get(prefix)) is None:
            raise NotFound("Route not found", fix="see / for what is offered here")
        await app({**scope, "root_path": prefix}, receive, send)

    return route


def _socket(sockets: Mapping[str, ASGIApp], path: str) -> ASGIApp:
    if (app := sockets.get(path)) is None:
        raise NotFound("no WebSocket is offered here", fix="connect to /v0")
    return app


def _health(accepting: Callable[[], bool]) -> ASGIApp:
    async def health(scope: Scope, receive: Receive, send: Send) -> None:
        fine = accepting()
        await _answer(scope, send, {"status": "ok" if fine else "degraded", "version": __version__}, status=200 if fine else 503)

    return health


async def _descriptor(scope: Scope, receive: Receive, send: Send) -> None:
    await _answer(
        scope,
        send,
        {
            "name": "postroom",
            "version": __version__,
            "email_api": "/v0",
            "mcp": ["/mcp", "/mcp/email", "/mcp/mailbox", "/mcp/reader"],
            "openapi": "/openapi.json",
            "health": "/health",
            "authentication": "Authorization: Bearer am_…",
        },
    )


async def _answer(scope: Scope, send: Send, body: dict[str, Any], *, status: int = 200) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        await send_error(send, PostroomError("this is read with GET", code="method_not_allowed"))
        return
    await send_json(send, status, body)
