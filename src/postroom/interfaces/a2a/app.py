"""`/a2a`: JSON-RPC and REST of protocol 1.0, and 0.3 on the same paths. The library loads on the first request, in a thread."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from postroom.errors import NotFound, PostroomError
from postroom.interfaces.a2a.cards import available
from postroom.mailbox.room import Mailbox

_PATH: Final = "/a2a"
_WRONG_METHOD: Final = 405
_WRONG_TYPE: Final = 415
_JSON: Final = (b"application/json", b"application/a2a+json")


class A2ADoor:
    """The ASGI application."""

    def __init__(self, mailbox: Mailbox, origin: str = "") -> None:
        """`origin` is where this house is reached: what an answer links to lies there."""
        self._mailbox = mailbox
        self._origin = origin
        self._making: asyncio.Task[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not available():
            raise NotFound("A2A is not installed here", code="not_installed", fix="install postroom with the a2a extra")
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(self._make))
        rpc, rest = await asyncio.shield(self._making)
        path = scope["path"].rstrip("/")
        if scope["method"] == "POST" and not _is_json(scope):
            await self._refuse_type(path == _PATH, scope, receive, send)
            return
        router, root = (rpc, "") if path == _PATH else (rest, _PATH)
        try:
            await router({**scope, "path": path, "app": router, "root_path": root}, receive, send)
        except HTTPException as problem:
            if problem.status_code == _WRONG_METHOD:
                raise PostroomError("this path does not take that method", code="method_not_allowed") from problem
            raise NotFound("Route not found", fix="see the agent card") from problem

    def _make(self) -> Any:
        from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
        from starlette.routing import Router

        from postroom.interfaces.a2a.handler import Contexts, Handler

        handler, contexts = Handler(self._mailbox, self._origin), Contexts()
        rpc = create_jsonrpc_routes(handler, _PATH, context_builder=contexts, enable_v0_3_compat=True)
        rest = create_rest_routes(handler, context_builder=contexts)  # below our path, and again below each tenant there
        return Router(rpc, redirect_slashes=False), Router(rest, redirect_slashes=False)

    async def _refuse_type(self, is_rpc: bool, scope: Scope, receive: Receive, send: Send) -> None:
        """The protocol's own answer to a body of another type, in the binding's form."""
        from a2a.server.request_handlers.response_helpers import build_error_response
        from a2a.utils.error_handlers import build_rest_error_payload
        from a2a.utils.errors import ContentTypeNotSupportedError
        from starlette.responses import JSONResponse

        problem = ContentTypeNotSupportedError("the body must be application/json")
        payload = build_error_response(None, problem) if is_rpc else build_rest_error_payload(problem)
        if not is_rpc:
            payload["error"]["code"] = _WRONG_TYPE
        await JSONResponse(payload, 200 if is_rpc else _WRONG_TYPE)(scope, receive, send)


def _is_json(scope: Scope) -> bool:
    """Says the header that the body is JSON, or is there none?"""
    given = next((value for name, value in scope["headers"] if name == b"content-type"), None)
    return given is None or given.partition(b";")[0].strip().lower() in _JSON
