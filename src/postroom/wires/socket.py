"""An outbound WebSocket to one service: text frames in, text frames out, and why it ended.

A redirect is not followed, no proxy of the environment used, frames are bounded and not compressed. A peer that
stops answering pings is given up within two intervals, so silence is noticed like any other end.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from postroom import __version__

PING_S: Final = 20.0
OPEN_S: Final = 15.0
CLOSE_S: Final = 2.0
FRAME_BYTES: Final = 8 * 1024 * 1024


class SocketFailure(Exception):
    """It could not be opened, or broke off. Carries no text of the peer's."""


class _Pinned(connect):
    """The library would follow a redirect to another host."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Socket:
    """One open connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, text: str) -> None:
        """Raises `SocketFailure`."""
        try:
            await self._connection.send(text)
        except ConnectionClosed:
            raise SocketFailure(self._ending()) from None

    async def frames(self) -> AsyncGenerator[str, None]:
        """Text frames until the peer closes properly (code 1000 or 1001). Raises `SocketFailure` for any other end."""
        try:
            async for frame in self._connection:
                if isinstance(frame, str):
                    yield frame
        except ConnectionClosed:
            raise SocketFailure(self._ending()) from None

    def _ending(self) -> str:
        return f"closed with {self._connection.close_code}"


@contextlib.asynccontextmanager
async def opened(url: str, bearer: str, *, ping_s: float = PING_S) -> AsyncIterator[Socket]:
    """A connection for the length of a block. Raises `SocketFailure`."""
    try:
        connection = await _Pinned(
            url,
            additional_headers={"Authorization": f"Bearer {bearer}"},
            user_agent_header=f"postroom/{__version__}",
            compression=None,
            proxy=None,
            open_timeout=OPEN_S,
            close_timeout=CLOSE_S,
            ping_interval=ping_s,
            ping_timeout=ping_s,
            max_size=FRAME_BYTES,
        )
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as problem:
        raise SocketFailure(f"cannot open ({type(problem).__name__})") from None
    try:
        yield Socket(connection)
    finally:
        await connection.close()
