"""uvicorn's WebSocket protocol with an end that always comes.

A close is written at once, also behind what a slow client has not taken yet, so that it can read the
reason; when it does not, the connection is cut after a while instead of waiting for ever.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from postroom.limits import SOCKET_CLOSE_S


class BoundedSocket(WebSocketsSansIOProtocol):
    """One WebSocket connection."""

    async def send(self, message: Any) -> None:
        ends = message["type"] == "websocket.close"
        if ends:
            self.writable.set()
        await super().send(message)
        if ends and self.close_timer is not None:
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(SOCKET_CLOSE_S, self.transport.abort)
