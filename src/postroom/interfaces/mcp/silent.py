"""A `tools/call` without an id: JSON-RPC's way to ask for something and not for an answer.

The protocol library takes it for an unknown notification and drops it. A client that sends a message
so would lose it, so it is carried out here: 202 comes when the call is done, so what was sent is kept
by then; a failure goes to the log only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
import structlog
from starlette.types import Message, Receive, Scope, Send

from postroom.model.principal import Principal
from postroom.tools.toolset import Toolset

log = structlog.get_logger(__name__)


async def taken(receive: Receive) -> tuple[bytes, Receive]:
    """The whole body, and a `receive` that gives it again."""
    pieces: list[bytes] = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"".join(pieces)
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return body, again


def call_in(body: bytes) -> Mapping[str, Any] | None:
    """The message when it is a `tools/call`, None of any other body."""
    if b'"tools/call"' not in body:
        return None
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return message if isinstance(message, dict) and message.get("method") == "tools/call" else None


def params_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A call's parameters."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


async def accept(send: Send) -> None:
    """202 and nothing."""
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def carry_out(tools: Toolset, scope: Scope, params: Mapping[str, Any]) -> None:
    """Run the call; a failure goes to the log."""
    principal: Principal = scope["state"]["principal"]
    query = parse_qs(scope["query_string"].decode("latin-1"))

    arguments = params.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    result = await tools.call(principal, str(params.get("name")), given, inbox=query.get("inbox", [None])[0])
    if result.is_error:
        log.warning("silent_call_failed", error=result.structured.get("error"))
