"""A plain `tools/call`, answered by the protocol library's own kernel without a transport made for it.

For each request of the older era without a session the library builds a transport, two streams, a task group
and three tasks, which cost four times the call itself. One request and one JSON answer need none of that.
Validation, dispatch and the shape of the answer are the library's all the same; whatever is not such a request
(another method, no id, odd headers, a body that is no request) goes the library's own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import mcp_types as types
import msgspec
import structlog
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import Scope, Send

log = structlog.get_logger(__name__)

_TRANSPORT: Final = TransportContext(kind="streamable-http", can_send_request=False)
_JSON: Final = b"application/json"
_FAILED: Final = types.ErrorData(code=0, message="something went wrong inside postroom")
_INVALID: Final = types.ErrorData(code=types.INVALID_PARAMS, message="Invalid request parameters", data="")
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One request seen by the kernel: nothing can be sent before its answer."""

    request_id: types.RequestId
    message_metadata: ServerMessageMetadata
    transport: TransportContext = _TRANSPORT
    can_send_request: bool = False
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """There is no stream to put it on."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """As above."""


class Direct:
    """The short way to one server."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def answer(self, scope: Scope, message: Any, send: Send) -> bool:
        """Answer `message` if it is a plain call; False when it is for the library's own transport."""
        version = _version(scope) if _is_plain(message) else None
        if version is None:
            return False
        exchange = _Exchange(request_id=message["id"], message_metadata=ServerMessageMetadata(request_context=Request(scope)))
        connection = Connection.from_envelope(version, None, None)
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = await serve_one(
                self._server, exchange, message["method"], message.get("params"), connection=connection, lifespan_state={}
            )
        except Exception as problem:  # noqa: BLE001 - whatever it is, the caller is answered
            reply["error"] = _told(problem)
        content = _encode(reply)
        headers = [(b"content-type", _JSON), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        return True


def _is_plain(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("method") == "tools/call"
        and message.get("jsonrpc") == "2.0"
        and type(message.get("id")) in (int, str)
        and isinstance(message.get("params"), dict)
    )


def _version(scope: Scope) -> str | None:
    """The protocol's version when the headers are those of an older client that takes JSON; else None."""
    headers = dict(scope["headers"])
    if _JSON not in headers.get(b"accept", b"") or headers.get(b"content-type", b"").partition(b";")[0].strip() != _JSON:
        return None
    version = headers.get(b"mcp-protocol-version", types.DEFAULT_NEGOTIATED_VERSION.encode()).decode("latin-1")
    return version if version in HANDSHAKE_PROTOCOL_VERSIONS else None


def _told(problem: Exception) -> dict[str, Any]:
    """The error as the protocol tells it."""
    if isinstance(problem, MCPError):
        error = problem.error
    elif isinstance(problem, ValidationError):
        error = _INVALID
    else:
        log.error("mcp_call_failed", problem=type(problem).__name__)
        error = _FAILED
    return error.model_dump(by_alias=True, exclude_none=True)
