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


class A2ADoor:
    """The ASGI application."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._making: asyncio.Task[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not available():
            raise NotFound("A2A is not installed here", code="not_installed", fix="install postroom with the a2a extra")
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(self._make))
        rpc, rest = await asyncio.shield(self._making)
        path = scope["path"].rstrip("/")
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

        handler, contexts = Handler(self._mailbox), Contexts()
        rpc = create_jsonrpc_routes(handler, _PATH, context_builder=contexts, enable_v0_3_compat=True)
        rest = create_rest_routes(handler, context_builder=contexts)  # below our path, and again below each tenant there
        return Router(rpc, redirect_slashes=False), Router(rest, redirect_slashes=False)
