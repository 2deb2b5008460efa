"""One listening address, and uvicorn run on it inside the loop that is already there.

Binding comes first (so the port is known before anything is built on it), serving second. Signals
are the caller's business. Stopping lets open requests finish for `Bounds.stop_s`, then ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from postroom import limits
from postroom.errors import InUse, Invalid
from postroom.interfaces.http.hosts import bracketed
from postroom.interfaces.http.protocol import BoundedProtocol, Bounds
from postroom.interfaces.http.websocket import BoundedSocket
from postroom.limits import SOCKET_PING_S

_BACKLOG = 1024
_LOOKS = 4  # times per shortest deadline that deadlines are looked at
_KEEP_ALIVE_S = 30  # longer than clients keep idle connections, so that they close first
_HEADERS = [("x-content-type-options", "nosniff")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A bound address. `port` is the real one, also when 0 was asked for."""

    host: str
    port: int
    socket: socket.socket

    @property
    def origin(self) -> str:
        """`http://HOST:PORT`."""
        return f"http://{bracketed(self.host)}:{self.port}"


def bind(host: str, port: int) -> Listener:
    """Bind `host:port`. Raises `InUse` when taken, `Invalid` when it is no address of this machine."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind)
    except OSError:
        raise Invalid(f"{host} is not an address to listen on", fix="use --http HOST:PORT, for example 127.0.0.1:4470") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        if problem.errno == errno.EADDRINUSE:
            raise InUse(
                f"{bracketed(host)}:{port} is taken by another program", fix="choose another with --http, or port 0"
            ) from None
        raise Invalid(f"cannot listen on {bracketed(host)}:{port}: {problem.strerror}") from None
    return Listener(host=host, port=listener.getsockname()[1], socket=listener)


class HttpServer:
    """`start`, and later `stop`."""

    def __init__(self, app: ASGIApp, listener: Listener, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        protocol = type("Protocol", (BoundedProtocol,), {"bounds": self._bounds})
        self._server = _Server(
            uvicorn.Config(
                app,
                http=protocol,
                ws=BoundedSocket,
                ws_ping_interval=SOCKET_PING_S,
                ws_ping_timeout=SOCKET_PING_S,
                ws_per_message_deflate=False,
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                headers=_HEADERS,
                timeout_keep_alive=_KEEP_ALIVE_S,
                ws_max_size=limits.HTTP_SOCKET_MESSAGE_BYTES,
                timeout_graceful_shutdown=self._bounds.stop_s,
            )
        )
        self._listener = listener
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Return when requests are answered."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener.socket]), name="http")
        self._tasks = [serving, asyncio.create_task(self._watch_deadlines(), name="http deadlines")]
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
        if not self._server.started:
            ready.cancel()
            await serving

    async def stop(self) -> None:
        """Take no more connections, let open requests finish for a while, then end them. Fine before `start`, too."""
        self._server.should_exit = True
        if not self._tasks:
            self._listener.socket.close()
            return
        serving, deadlines = self._tasks
        try:
            await serving
        finally:
            deadlines.cancel()

    async def _watch_deadlines(self) -> None:
        loop = asyncio.get_running_loop()
        pause = min(self._bounds.header_s, self._bounds.body_gap_s, self._bounds.unread_s, _LOOKS) / _LOOKS
        while True:
            await asyncio.sleep(pause)
            now = loop.time()
            for connection in tuple(self._server.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.expire(now)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, and with an event instead of a flag to poll."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
