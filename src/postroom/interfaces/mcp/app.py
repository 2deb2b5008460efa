"""`/mcp`, `/mcp/email`, `/mcp/reader`: the tools over MCP, streamable HTTP without sessions, both protocol eras.

The protocol library costs a second and much memory to load, so it is loaded by the first request (or
by `warm`), in a thread. The caller is whoever the HTTP surface found behind the token; Host, Origin
and the body's size have been checked there.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

from postroom.errors import NotFound, PostroomError, Unauthorized
from postroom.interfaces.mcp.silent import accept, call_in, carry_out, params_of, taken
from postroom.model.principal import Principal
from postroom.tools.toolset import Joined, Toolset

if TYPE_CHECKING:
    from postroom.interfaces.mcp.server import Front

_SERVER = "postroom.interfaces.mcp.server"


class McpDoor:
    """The ASGI application; `paths` maps a full path to the tools offered there."""

    def __init__(self, paths: dict[str, Toolset]) -> None:
        self._paths = paths
        self._starting: asyncio.Task[dict[str, Front]] | None = None
        self._running: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].rstrip("/") not in self._paths:
            raise NotFound("Route not found", fix="MCP is served at " + " and ".join(self._paths))
        if scope["method"] != "POST":  # nothing is ever sent unasked, so there is no stream to open and no session to end
            raise PostroomError("MCP is spoken by POST here", code="method_not_allowed")
        if not isinstance(scope.get("state", {}).get("principal"), Principal):
            raise Unauthorized("MCP needs a bearer token", code="missing_authorization")
        path = scope["path"].rstrip("/")
        body, again = await taken(receive)
        call = call_in(body)
        if call is not None and "id" not in call:
            await carry_out(self._paths[path], scope, params_of(call))
            await accept(send)
            return
        fronts = await self._start()
        if call is None or not await fronts[path].direct.answer(scope, call, send):
            await fronts[path].manager.handle_request(scope, again, send)

    async def warm(self) -> None:
        """Load the protocol library and open the door, so that the first request does not wait for it."""
        await self._start()

    async def close(self) -> None:
        """End what is in flight."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running, self._starting = [], None

    async def _start(self) -> dict[str, Front]:
        if self._starting is None:
            self._starting = asyncio.create_task(self._open())
        return await asyncio.shield(self._starting)

    async def _open(self) -> dict[str, Front]:
        server: Any = await asyncio.to_thread(importlib.import_module, _SERVER)
        fronts = {}
        for path, tools in self._paths.items():
            fronts[path] = server.front_of(tools)
            opened = asyncio.Event()
            self._running.append(asyncio.create_task(server.keep_open(fronts[path].manager, opened)))
            await opened.wait()
        return fronts


def mcp_app(**sets: Toolset) -> McpDoor:
    """The door to mount at `/mcp`: each set under its own name, and at `/mcp` all of them."""
    return McpDoor({"/mcp": Joined(list(sets.values())), **{f"/mcp/{name}": tools for name, tools in sets.items()}})
