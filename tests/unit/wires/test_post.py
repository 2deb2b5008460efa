"""One POST to a real server on loopback: what arrives, and what is made of the answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from certificates import certificate
from pace import PATIENCE_S
from postroom.errors import TransportFailure
from postroom.wires.post import Poster

OK = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


class Peer:
    """Answers every connection with the same bytes and keeps what it was sent."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.port = 0
        self.serving: set[asyncio.Task[None]] = set()

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        self.requests.append(head + await reader.readexactly(length))
        writer.write(self.answer)
        if not self.answer:
            await reader.read()  # until the client gives up
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def peer(answer: bytes = OK, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    one = Peer(answer)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=tls)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*one.serving, return_exceptions=True)


def poster(port: int, *, timeout_s: float = 5, trust: ssl.SSLContext | bool = True, host: str = "127.0.0.1") -> Poster:
    async def resolver(name: str, number: int) -> Sequence[str]:
        return ["127.0.0.1"]

    return Poster(exceptions=[f"{host}:{port}"], timeout_s=timeout_s, trust=trust, resolver=resolver)


async def test_the_body_the_headers_and_the_host_arrive() -> None:
    async with peer() as one:
        wire = poster(one.port)
        assert (
            await wire.post(
                f"http://127.0.0.1:{one.port}/hook?a=b", b'{"x":1}', {"X-Key": "k", "Content-Type": "application/json"}
            )
            == 204
        )
        await wire.close()
    head, _, body = one.requests[0].partition(b"\r\n\r\n")
    lines = {line.partition(b": ")[0].lower(): line.partition(b": ")[2] for line in head.split(b"\r\n")[1:]}
    assert (head.split(b"\r\n")[0], body) == (b"POST /hook?a=b HTTP/1.1", b'{"x":1}')
    assert (lines[b"host"], lines[b"x-key"], lines[b"content-type"]) == (
        f"127.0.0.1:{one.port}".encode(),
        b"k",
        b"application/json",
    )


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_an_answer_not_a_way(status: int) -> None:
    async with peer(OK) as elsewhere:
        answer = f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{elsewhere.port}/\r\nContent-Length: 0\r\n\r\n"
        async with peer(answer.encode()) as one:
            wire = poster(one.port)
            assert await wire.post(f"http://127.0.0.1:{one.port}/", b"", {}) == status
            await wire.close()
        assert elsewhere.requests == []


async def test_an_endless_answer_is_not_read() -> None:
    async with peer(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 1_000_000) as one:
        wire = poster(one.port)
        assert await wire.post(f"http://127.0.0.1:{one.port}/", b"", {}) == 200
        await wire.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "no answer within"),
        (b"SMTP ready\r\n\r\n", "the exchange failed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", "the exchange failed"),
    ],
)
async def test_no_answer_or_none_that_is_http_is_a_failure(answer: bytes, said: str) -> None:
    async with peer(answer) as one:
        wire = poster(one.port, timeout_s=0.3)
        with pytest.raises(TransportFailure, match=said):
            await wire.post(f"http://127.0.0.1:{one.port}/", b"", {})
        await wire.close()


async def test_nobody_listening_is_a_failure() -> None:
    async with peer() as one:
        port = one.port
    wire = poster(port)
    with pytest.raises(TransportFailure, match="cannot connect"):
        await wire.post(f"http://127.0.0.1:{port}/", b"", {})
    await wire.close()


async def test_the_certificate_must_be_the_names_though_the_address_is_dialled(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "hooks.example")
    async with peer(OK, server) as one:
        right = poster(one.port, trust=trust, host="hooks.example")
        assert await right.post(f"https://hooks.example:{one.port}/", b"", {}) == 204
        wrong = poster(one.port, trust=trust, host="other.example")
        with pytest.raises(TransportFailure, match="cannot connect"):
            await wrong.post(f"https://other.example:{one.port}/", b"", {})
        await right.close()
        await wrong.close()


async def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with peer() as proxy, peer() as one:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        wire = poster(one.port)
        assert await wire.post(f"http://127.0.0.1:{one.port}/", b"", {}) == 204
        await wire.close()
        assert (len(proxy.requests), len(one.requests)) == (0, 1)
