"""One MCP server over a set of tools. Importing this module loads the protocol library; `app` does so late.

Translates and nothing else: the tool list, a call and its result, and the instructions, which name
the caller's own address and are therefore made per request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from postroom import __version__
from postroom.interfaces.mcp.direct import Direct
from postroom.limits import HTTP_BODY_BYTES
from postroom.model.principal import Principal
from postroom.tools.result import ToolResult
from postroom.tools.schemas import ToolSpec
from postroom.tools.toolset import Toolset

# Where clients put the id of the model's call: Claude Code's and Codex's spelling.
_CALL_IDS = ("claudecode/toolUseId", "callId")
_SESSIONS = ("sessionId", "threadId")
_SESSION = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_GREETINGS = ("initialize", "server/discover")

_Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Front:
    """How requests reach one set of tools: plain calls directly, everything else through the library's transport."""

    manager: StreamableHTTPSessionManager
    direct: Direct


def front_of(tools: Toolset) -> Front:
    """A stateless HTTP front of the tools, answering in JSON. Host and Origin are the HTTP surface's to check."""
    server = server_of(tools)
    manager = StreamableHTTPSessionManager(
        app=server,
        json_response=True,
        stateless=True,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=HTTP_BODY_BYTES,
    )
    return Front(manager, Direct(server))


async def keep_open(manager: StreamableHTTPSessionManager, opened: asyncio.Event) -> None:
    """Run the manager until cancelled; its task group must be left by the task that entered it."""
    async with manager.run():
        opened.set()
        await asyncio.Event().wait()


def server_of(tools: Toolset) -> Server[Any]:
    """The MCP server."""

    async def list_tools(ctx: _Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_tool(spec) for spec in tools.specs(_principal(ctx))], ttl_ms=0, cache_scope="private"
        )

    async def call_tool(ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        query = parse_qs(ctx.request.scope["query_string"].decode("latin-1")) if ctx.request else {}
        result = await tools.call(
            _caller(ctx),
            params.name,
            params.arguments or {},
            call_id=_call_id(ctx.meta or {}),
            inbox=query.get("inbox", [None])[0],
            canonical=query.get("fields") == ["canonical"],
        )
        return _answer(result)

    async def instruct(ctx: _Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in _GREETINGS and isinstance(result, dict):
            return {**result, "instructions": await tools.instructions(_principal(ctx))}
        return result

    server: Server[Any] = Server("postroom", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware = [instruct]
    return server


def _principal(ctx: _Context) -> Principal:
    principal: Principal = ctx.request.scope["state"]["principal"]  # type: ignore[union-attr]  # HTTP requests have one
    return principal


def _caller(ctx: _Context) -> Principal:
    """Who calls, in the session its client names. That is told to whoever approves; it is no right of its own."""
    principal = _principal(ctx)
    meta: Mapping[str, Any] = ctx.meta or {}
    named = next((meta[name] for name in _SESSIONS if isinstance(meta.get(name), str)), "")
    if principal.agent_id is None or principal.session_id is not None or not _SESSION.fullmatch(named):
        return principal
    return replace(principal, session_id=named)


def _tool(spec: ToolSpec) -> types.Tool:
    annotations = types.ToolAnnotations(read_only_hint=True) if spec.reads else None
    return types.Tool(name=spec.name, description=spec.description, input_schema=dict(spec.input_schema), annotations=annotations)


def _answer(result: ToolResult) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=result.text)],
        structured_content=dict(result.structured) or None,
        is_error=result.is_error,
    )


def _call_id(meta: Mapping[str, Any]) -> str | None:
    """A key for the model's call, if the client says which it is. A request's own id is no such thing: it starts anew."""
    call = next((meta[name] for name in _CALL_IDS if isinstance(meta.get(name), str)), None)
    if call is None:
        return None
    scope = [meta[name] for name in _SESSIONS if isinstance(meta.get(name), str)]
    return "call-" + hashlib.sha256(json.dumps([*scope, call]).encode()).hexdigest()
