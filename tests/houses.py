"""A whole house inside the test's own event loop: every room wired as `postroom serve` wires it.

`living` opens one over a folder and runs its rooms; HTTP goes through the real surface without a
socket. A test that needs a socket or another process uses `served` instead.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from postroom.app.doors import http_app, mcp_door, socket_door
from postroom.app.house import House
from postroom.clock import Clock
from postroom.config import Config
from postroom.interfaces.http.server import Listener, bind


@dataclass
class Living:
    """A running house. `http` is the owner's client; `client` makes one for another token."""

    house: House
    listener: Listener
    app: ASGIApp
    http: httpx.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        self.http = self.client(self.owner_key)

    @property
    def owner_key(self) -> str:
        return (self.house.folder / "owner.key").read_text(encoding="utf-8").strip()

    def client(self, token: str) -> httpx.AsyncClient:
        """An HTTP client with this token."""
        transport = httpx.ASGITransport(app=self.app)
        return httpx.AsyncClient(transport=transport, base_url=self.listener.origin, headers={"Authorization": f"Bearer {token}"})

    async def agent(self, name: str, **more: Any) -> str:
        """Make an agent with an inbox; its token."""
        answer = await self.http.post("/api/agents", json={"name": name, **more})
        assert answer.status_code < 300, answer.text
        token: str = answer.json()["token"]
        return token

    async def inbox(self, username: str, **more: Any) -> Mapping[str, Any]:
        """Make an inbox that no agent owns."""
        answer = await self.http.post("/v0/inboxes", json={"username": username, **more})
        assert answer.status_code == 200, answer.text
        made: Mapping[str, Any] = answer.json()
        return made


@contextlib.asynccontextmanager
async def living(
    folder: Path, config: Config | None = None, *, clock: Clock | None = None, listener: Listener | None = None
) -> AsyncIterator[Living]:
    """A house for the length of a block. A given `listener` is the caller's to serve on."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    house = await House.open(folder, config or Config(), clock=clock)
    if listener is None:
        listener = bind("127.0.0.1", 0)
        listener.socket.close()  # only its name is used: requests do not go through a socket
    house.address.http = listener.origin
    mcp = mcp_door(house)
    opened = Living(house, listener, http_app(house, listener, mcp, socket_door(house)))
    try:
        await house.work()
        yield opened
    finally:
        await opened.http.aclose()
        await mcp.close()
        await house.close()
