"""Where a hosted office is: its API, its WebSocket, and where its download links may lead though private.

`office.url` is the owner's word and the only thing that says where the key goes. AgentMail's two regions have a
host of their own for the socket; any other office, such as another postroom, has it at the same origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from postroom.errors import Invalid

US: Final = "https://api.agentmail.to"
EU: Final = "https://api.agentmail.eu"
_SOCKETS: Final = {US: "wss://ws.agentmail.to", EU: "wss://ws.agentmail.eu"}
_EU_KEY: Final = "am_eu_"
_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`api` is an origin; `authority` its `host:port`."""

    api: str
    socket: str
    authority: str


def place_of(url: str, key: str) -> Place:
    """The office at `url` for the holder of `key`. Raises `Invalid` for a key of another region."""
    api = url.rstrip("/")
    if api == US and key.startswith(_EU_KEY):
        raise Invalid("office.key belongs to AgentMail's region EU", fix=f'set office.url = "{EU}"')
    parts = urlsplit(api)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return Place(
        api=api,
        socket=f"{_SOCKETS.get(api, 'ws' + api.removeprefix('http'))}/v0",
        authority=f"{host}:{parts.port or _PORTS[parts.scheme]}",
    )
