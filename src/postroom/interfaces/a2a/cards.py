"""The agent cards: what this house offers, to anyone, and only what answers.

The address in them is the one the service is bound to; nothing of the request goes in. With the
protocol's library absent, no A2A interface is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from postroom import __version__
from postroom.errors import PostroomError
from postroom.interfaces.http.errors import send_error
from postroom.tools.mailbox_schemas import MAILBOX_TOOLS

_DESCRIPTION: Final = (
    "A post room for AI agents. Messages to its agents are durable; name the agent as the tenant, "
    'or as "to" in the metadata. What an agent answers is its own words.'
)
MODES: Final = (
    "text/plain",
    "text/markdown",
    "text/html",
    "text/csv",
    "application/json",
    "application/pdf",
    "application/zip",
    "application/octet-stream",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
)
_SKILLS: Final = [
    {
        "id": spec.name,
        "name": spec.name,
        "description": spec.description,
        "tags": ["mailbox", "read" if spec.reads else "write"],
    }
    for spec in MAILBOX_TOOLS
]
_MAX_AGE: Final = b"public, max-age=300"


def available() -> bool:
    """Is the protocol's library here?"""
    return find_spec("a2a") is not None


def agent_card(origin: str) -> dict[str, Any]:
    """The card of protocol 1.0."""
    bindings = ("JSONRPC", "HTTP+JSON") if available() else ()
    return {
        "name": "postroom",
        "description": _DESCRIPTION,
        "version": __version__,
        "supportedInterfaces": [
            {"url": f"{origin}/a2a", "protocolBinding": binding, "protocolVersion": "1.0"} for binding in bindings
        ],
        "capabilities": {"streaming": available(), "pushNotifications": False},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": _SKILLS,
    }


def legacy_card(origin: str) -> dict[str, Any]:
    """The card of protocol 0.3, one skill per mailbox tool."""
    return {
        "name": "postroom",
        "description": _DESCRIPTION,
        "version": __version__,
        "protocolVersion": "0.3.0",
        "url": f"{origin}/a2a",
        "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": available(), "pushNotifications": False, "stateTransitionHistory": False},
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        "security": [{"bearer": []}],
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": _SKILLS,
    }


class CardDoor:
    """Answers with one card, the same to everyone."""

    def __init__(self, card: Mapping[str, Any]) -> None:
        import hashlib

        self._body = msgspec.json.encode(card)
        etag = f'"{hashlib.sha256(self._body).hexdigest()[:32]}"'.encode()
        self._headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._body)).encode()),
            (b"cache-control", _MAX_AGE),
            (b"etag", etag),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, PostroomError("a card is read with GET", code="method_not_allowed"))
            return
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else self._body})
