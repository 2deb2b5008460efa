"""Peers that break the WebSocket protocol against a real listener: each is told why, and the next client is served."""

import asyncio
import base64
import os
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from starlette.types import Scope

from pace import PATIENCE_S
from postroom.interfaces.http.server import HttpServer, Listener, bind
from postroom.interfaces.stream.socket import SocketDoor
from postroom.model.event import Event
from postroom.model.principal import Kind, Principal

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


class Silence:
    """A log in which nothing happens."""

    def last_seq(self) -> int:
        return 0

    async def after(self, seq: int, *, kinds: Sequence[str] | None = None, limit: int = 500) -> list[Event]:
        return []

    async def wait(self, seq: int, timeout_s: float | None = None) -> bool:
        await asyncio.Event().wait()
        return True

    async def seq_of(self, event_id: str) -> int | None:
        return None


async def authorize(scope: Scope) -> Principal:
    return Principal(kind=Kind.OWNER)


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    nothing: Any = None
    door = SocketDoor(Silence(), nothing, nothing, authorize)
    listener = bind("127.0.0.1", 0)
    server = HttpServer(door, listener)
    await server.start()
    yield listener
    await door.close()
    await server.stop()


def frame(opcode: int, payload: bytes, *, fin: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    head = bytes([(0x80 if fin else 0) | reserved | opcode])
    mask = 0x80 if masked else 0
    size = len(payload)
    head += bytes([mask | size]) if size < 126 else bytes([mask | 127]) + struct.pack("!Q", size)
    return head + (b"\0\0\0\0" if masked else b"") + payload  # a mask of zeros changes nothing


class Peer:
    """One raw connection after its handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def next(self) -> tuple[int, bytes]:
        head = await self.reader.readexactly(2)
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await self.reader.readexactly(2))
        return head[0] & 0x0F, await self.reader.readexactly(size)

    async def closed_with(self) -> int | None:
        """The close code; None when the connection just ended."""
        try:
            while True:
                opcode, payload = await self.next()
                if opcode == CLOSE:
                    return int(struct.unpack("!H", payload[:2])[0])
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


async def connected(listener: Listener) -> Peer:
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ["GET /v0 HTTP/1.1", f"Host: 127.0.0.1:{listener.port}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
    writer.write("\r\n".join(lines).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    return Peer(reader, writer)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(TEXT, b"{}", masked=False), 1002),
        (frame(TEXT, b"{}", reserved=0x40), 1002),
        (frame(3, b""), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(PING, b"", fin=False), 1002),
        (frame(0, b"never begun"), 1002),
        (frame(TEXT, b"x" * 65_537), 1009),
        (frame(TEXT, b"x" * 65_000, fin=False) + frame(0, b"x" * 65_000), 1009),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, struct.pack("!H", 1000)), 1000),
    ],
    ids=[
        "unmasked",
        "reserved",
        "opcode",
        "long ping",
        "cut ping",
        "stray",
        "large",
        "large in parts",
        "utf8",
        "bad close",
        "close",
    ],
)
async def test_a_broken_frame_ends_its_connection_and_no_other(listener: Listener, data: bytes, code: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        good, bad = await connected(listener), await connected(listener)
        bad.writer.write(data)
        assert await bad.closed_with() == code
        good.writer.write(frame(PING, b"still there"))
        assert await good.next() == (10, b"still there")
        for peer in (good, bad):
            peer.writer.close()


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b'{"type":1}', b'{"type":"subscribe","inbox_ids":"x"}', b'{"type":"\\ud800"}']
)
async def test_a_frame_that_means_nothing_is_answered_with_an_error(listener: Listener, content: bytes) -> None:
    async with asyncio.timeout(PATIENCE_S):
        peer = await connected(listener)
        for opcode in (TEXT, BINARY):
            peer.writer.write(frame(opcode, content))
            kind, answer = await peer.next()
            assert (kind, answer[:15]) == (TEXT, b'{"type":"error"')
        peer.writer.close()


async def test_a_connection_that_just_ends_is_forgotten(listener: Listener) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(20):
            peer = await connected(listener)
            peer.writer.transport.abort()
        last = await connected(listener)
        last.writer.write(frame(CLOSE, struct.pack("!H", 1001)))
        assert await last.closed_with() == 1001
        last.writer.close()
