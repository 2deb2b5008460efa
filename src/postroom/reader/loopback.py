"""The listener that takes the one redirect of an authorization: loopback only, a port of its own, closed after.

Anything that is not the redirect (a favicon, another path, another method, a foreign Host) is answered
and ignored. The page a person sees is ours and repeats nothing of the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import parse_qsl, urlsplit

_HEAD_BYTES: Final = 16_384
_HEAD_S: Final = 5.0
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
_HEADERS: Final = (
    "Content-Type: text/html; charset=utf-8\r\nContent-Security-Policy: default-src 'none'\r\n"
    "Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\n"
)
_DONE: Final = "<!doctype html><title>postroom</title><p>postroom has the answer. You can close this window."
_NOT_HERE: Final = "<!doctype html><title>postroom</title><p>Nothing is here."


class Loopback:
    """`async with Loopback(state) as listener:` then `await listener.redirected()`."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._server: asyncio.Server | None = None
        self.port = 0  # the system chooses
        self._redirect: asyncio.Future[Mapping[str, str] | None] = asyncio.get_running_loop().create_future()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_BYTES)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:  # connections a browser opened ahead; the redirect's page is out already
            writer.close()

    async def redirected(self) -> Mapping[str, str] | None:
        """The redirect's parameters; None when it did not carry our state, and is refused."""
        return await self._redirect

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_HEAD_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head, writer)
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        given = self._redirect_in(head)
        status, page = ("200 OK", _DONE) if given is not None else ("404 Not Found", _NOT_HERE)
        writer.write(f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(page)}\r\n\r\n{page}".encode())
        await writer.drain()
        if given is not None and not self._redirect.done():
            self._redirect.set_result(given if self._proves(given) else None)

    def _redirect_in(self, head: bytes) -> Mapping[str, str] | None:
        """The parameters, if this request is the redirect."""
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        target = urlsplit(rest.rpartition(" ")[0])
        hosts = [line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith("host:")]
        given = dict(parse_qsl(target.query))
        is_ours = method == "GET" and target.path == "/" and not target.netloc and hosts in self._hosts()
        return given if is_ours and not self._redirect.done() and {"state", "code", "error"} & set(given) else None

    def _hosts(self) -> list[list[str]]:
        return [[f"{name}:{self.port}"] for name in _NAMES]

    def _proves(self, given: Mapping[str, str]) -> bool:
        return hmac.compare_digest(given.get("state", "").encode(), self._state.encode())
