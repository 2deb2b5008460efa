"""A Gmail account over a scripted peer: an identity provider that counts, and messages to answer with.

Tried on asyncio's loop and on uvloop, which the daemon runs on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from httppeer import Peer, Request, Response, peer
from postroom.errors import PostroomError
from postroom.reader.request import ReadRequest
from readerkit import OWNER, Kit, gmail_message, granted, kit


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], Any]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@dataclass
class Google:
    """Answers as told: `messages` by id, in the order of a list; `broken` answers come first."""

    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    refresh: str = "refresh-1"
    issued: int = 0
    expires_in: Any = 3600
    broken: list[Response] = field(default_factory=list)
    next_page: str | None = None

    def put(self, *numbers: int | str, **more: Any) -> None:
        for number in numbers:
            self.messages[f"m{number}"] = gmail_message(number, **more)

    def handle(self, request: Request) -> Response:
        if request.path == "/oauth2/token":
            return self._token(request)
        if self.broken:
            return self.broken.pop(0)
        if request.path == "/gmail/v1/users/me/messages":
            body: dict[str, Any] = {"messages": [{"id": name, "threadId": "t"} for name in self.messages]}
            return Response(200, body | ({"nextPageToken": self.next_page} if self.next_page else {}))
        found = self.messages.get(request.path.rpartition("/")[2])
        return Response(200, found) if found else Response(404, {"error": {"code": 404, "message": "Not Found"}})

    def _token(self, request: Request) -> Response:
        if request.form.get("refresh_token") != self.refresh:
            return Response(400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."})
        self.issued += 1
        life = {} if self.expires_in is None else {"expires_in": self.expires_in}
        return Response(200, {"access_token": f"access-token-{self.issued}", "token_type": "Bearer", **life})


@dataclass
class World:
    """The reader, the peer it speaks to, and what the peer holds."""

    kit: Kit
    peer: Peer
    google: Google

    async def read(self, **asked: Any):
        return await self.kit.reader.read(OWNER, ReadRequest(**asked))

    async def code(self, **asked: Any) -> str:
        """The code of the error a read ends with."""
        return (await self.problem(**asked)).code

    async def problem(self, **asked: Any) -> PostroomError:
        with pytest.raises(PostroomError) as caught:
            await self.read(**asked)
        return caught.value

    def paths(self) -> list[str]:
        """Every request so far, as method and target."""
        return [f"{request.method} {request.target}" for request in self.peer.requests]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    google = Google()
    async with peer(google.handle) as running:
        made = kit(tmp_path, running.url)
        await granted(made)
        yield World(made, running, google)
        await made.reader.close()
