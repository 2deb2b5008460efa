"""A scripted HTTP server on loopback, in the test's own loop: it notes every request and answers as told."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """Percent-decoded."""
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query, keep_blank_values=True).items()}

    @property
    def form(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(self.body.decode()).items()}

    @property
    def bearer(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass
class Response:
    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    chunks: int = 0  # that many times the body, without a length

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Handler = Callable[[Request], Response | Awaitable[Response]]


class Peer:
    """`handler` may be replaced at any time. `sent` counts the bytes of bodies that were written."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.requests: list[Request] = []
        self.sent = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer):
                pass
        self._writers.discard(writer)
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        request = Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))
        self.requests.append(request)
        answer = self.handler(request)
        response = answer if isinstance(answer, Response) else await answer
        content = response.content
        lines = [f"HTTP/1.1 {response.status} x", "content-type: application/json"]
        lines += [f"{name}: {value}" for name, value in response.headers.items()]
        lines.append("transfer-encoding: chunked" if response.chunks else f"content-length: {len(content)}")
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        for _ in range(response.chunks):
            writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            self.sent += len(content)
            await writer.drain()
        writer.write(b"0\r\n\r\n" if response.chunks else content)
        await writer.drain()
        return True


@contextlib.asynccontextmanager
async def peer(handler: Handler) -> AsyncIterator[Peer]:
    """A running peer for the length of a block."""
    running = Peer(handler)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()
