"""HTTP clients that mean no good, or are just slow, over real sockets against the real server with small bounds."""

import asyncio
import contextlib
import dataclasses
import json
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pace import PATIENCE_S
from postroom.access.token import read_token, unknown_key
from postroom.errors import InUse, Invalid
from postroom.interfaces.http.compose import build
from postroom.interfaces.http.hosts import Names
from postroom.interfaces.http.protocol import Bounds
from postroom.interfaces.http.server import HttpServer, Listener, bind
from postroom.interfaces.http.surface import Surface
from postroom.model.principal import Kind, Principal

TOKEN = f"am_key_{'0' * 32}_{'0' * 48}"
BOUNDS = Bounds(header_s=PATIENCE_S, header_bytes=4096, body_gap_s=PATIENCE_S, unread_s=PATIENCE_S, connections=8, stop_s=1)
GAP_S = 0.3
CAP = 8 * 1024 * 1024


class OneKey:
    async def authenticate(self, text: str | None) -> Principal:
        read_token(text)
        if text != TOKEN:
            raise unknown_key()
        return Principal(kind=Kind.OWNER)


taken: list[int] = []  # what `echo` was given, piece by piece


async def echo(scope, receive, send):
    """Reads the whole body; says its size, the path and who is calling."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        taken.append(len(message["body"]))
        if not message["more_body"]:
            break
    principal = scope["state"]["principal"]
    body = json.dumps({"size": size, "path": scope["path"], "uid": principal.peer_uid}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def stream(scope, receive, send):
    """Answers a little and then never ends."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    await asyncio.Event().wait()


def flood(ended: asyncio.Event):
    """Answers without end, until the client is gone; then sets `ended`."""

    async def app(scope, receive, send):
        await receive()
        gone = asyncio.create_task(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await asyncio.sleep(0)
        ended.set()

    return app


@contextlib.asynccontextmanager
async def serving(host: str, **bounds: float) -> AsyncIterator[Listener]:
    """A server with `BOUNDS`, but for those given. No bound is met unless a test makes it small."""
    try:
        listening = bind(host, 0)
    except Invalid:
        pytest.skip("this machine has no IPv6 loopback")
    origin = build({"echo": echo, "stream": stream}, accepting=lambda: True)
    surface = Surface(origin, access=OneKey(), names=Names(listening.host, listening.port))
    server = HttpServer(surface, listening, dataclasses.replace(BOUNDS, **bounds))
    await server.start()
    yield listening
    await asyncio.wait_for(server.stop(), PATIENCE_S)


@pytest.fixture(params=["127.0.0.1", "::1"])
async def listener(request: pytest.FixtureRequest) -> AsyncIterator[Listener]:
    async with serving(request.param) as listening:
        yield listening


@pytest.fixture(params=["127.0.0.1", "::1"])
async def hasty(request: pytest.FixtureRequest) -> AsyncIterator[Listener]:
    """A server that waits for no header."""
    async with serving(request.param, header_s=0.3) as listening:
        yield listening


@pytest.fixture(params=["127.0.0.1", "::1"])
async def steady(request: pytest.FixtureRequest) -> AsyncIterator[Listener]:
    """A server that wants a body piece by piece."""
    async with serving(request.param, body_gap_s=GAP_S) as listening:
        yield listening


class Wire:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, listener: Listener) -> "Wire":
        return cls(*await asyncio.open_connection(listener.host, listener.port))

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def flood(self, data: bytes) -> None:
        while True:
            await self.say(data)

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        try:
            return await asyncio.wait_for(self._reader.read(), PATIENCE_S)
        finally:
            self._writer.close()

    async def until(self, mark: bytes) -> bytes:
        return await asyncio.wait_for(self._reader.readuntil(mark), PATIENCE_S)

    @property
    def ended(self) -> bool:
        """Whether the server said something and closed."""
        return self._reader.at_eof() or self._writer.is_closing() or bool(self._reader._buffer)

    def close(self) -> None:
        self._writer.close()


def head(listener: Listener, start: str = "GET /echo", *lines: str, host: str | None = "", token: bool = True) -> bytes:
    host = listener.origin.removeprefix("http://") if host == "" else host
    rows = [f"{start} HTTP/1.1", *([f"Host: {host}"] if host is not None else []), "Connection: close", *lines]
    if token:
        rows.append(f"Authorization: Bearer {TOKEN}")
    return "\r\n".join([*rows, "", ""]).encode("latin-1")


async def ask(listener: Listener, data: bytes) -> tuple[int, Any]:
    wire = await Wire.open(listener)
    await wire.say(data)
    return read(await wire.rest())


def read(answer: bytes) -> tuple[int, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Traceback" not in answer
    return int(head.split(b" ", 2)[1]), json.loads(body) if body else None


async def test_a_good_request_is_answered(listener: Listener):
    status, body = await ask(listener, head(listener, "POST /echo/a", "Content-Length: 5") + b"12345")
    assert (status, body["size"], body["path"]) == (200, 5, "/echo/a")


async def test_a_header_that_never_ends_is_cut_at_its_deadline_however_it_drips(hasty: Listener):
    wire = await Wire.open(hasty)
    await wire.say(b"GET /echo HTTP/1.1\r\n")
    answer = asyncio.create_task(wire.until(b"}"))
    while not answer.done():
        with contextlib.suppress(ConnectionError):  # cut off: the answer is there
            await wire.say(b"X: y\r\n")
        await asyncio.wait([answer], timeout=0.05)
    assert read(await answer)[1]["code"] == "request_timeout"
    wire.close()


async def test_a_connection_that_says_nothing_is_closed(hasty: Listener):
    assert await (await Wire.open(hasty)).rest() == b""


async def test_a_gap_in_a_body_ends_the_request(steady: Listener):
    wire = await Wire.open(steady)
    await wire.say(head(steady, "POST /echo", "Content-Length: 9") + b"123")
    assert read(await wire.rest()) == (
        408,
        {"name": "RequestTimeoutError", "message": "the rest of the body did not come in time", "code": "request_timeout"},
    )


async def test_a_slow_steady_body_ends_no_request(steady: Listener, monkeypatch: pytest.MonkeyPatch):
    wire = await Wire.open(steady)
    with monkeypatch.context() as patch:
        loop, passed = asyncio.get_running_loop(), 0.0
        begun = loop.time()
        patch.setattr(loop, "time", lambda: begun + passed)  # the pace is what is tested, not the machine's
        taken.clear()
        await wire.say(head(steady, "POST /echo", "Content-Length: 9"))
        for number, digit in enumerate(b"123456789", 1):
            await wire.say(bytes([digit]))
            while sum(taken) < number:
                assert not wire.ended
                await asyncio.sleep(0)
            passed += GAP_S * 0.7  # under the gap allowed, over it in sum
            for _ in range(10):
                await asyncio.sleep(0)  # whoever looks at the clock has looked
        assert read(await wire.rest())[1]["size"] == 9


@pytest.mark.parametrize("ended", [True, False])
async def test_a_header_over_its_cap_is_431_whether_it_ends_or_not(listener: Listener, ended: bool):
    long = head(listener, "GET /echo", "X: " + "y" * 5000)
    status, body = await ask(listener, long if ended else long[:5000])
    assert (status, body["code"]) == (431, "header_too_large")
    assert (await ask(listener, head(listener, "GET /echo/" + "y" * 5000)))[0] == 431
    assert (await ask(listener, head(listener, "GET /echo", *(f"X{n}: y" for n in range(900)))))[0] == 431
    assert (await ask(listener, head(listener, "GET /echo", "X: " + "y" * 3500)))[0] == 200


async def test_too_many_connections_are_told_so_and_the_others_live(listener: Listener):
    first = await Wire.open(listener)
    await first.say(head(listener)[:-2])
    idle = [await Wire.open(listener) for _ in range(BOUNDS.connections - 1)]
    assert read(await (await Wire.open(listener)).rest())[0] == 429
    await first.say(b"\r\n")
    assert read(await first.rest())[0] == 200
    for wire in idle:
        wire.close()


async def test_a_body_over_the_cap_is_413_declared_or_not_and_not_read_to_its_end(listener: Listener):
    status, body = await ask(listener, head(listener, "POST /echo", f"Content-Length: {CAP + 1}") + b"begin")
    assert (status, body["code"]) == (413, "too_large")
    wire = await Wire.open(listener)
    await wire.say(head(listener, "POST /echo", "Transfer-Encoding: chunked"))
    sent = 0
    answer = asyncio.create_task(wire.until(b"}"))
    while not answer.done() and sent < 16 * CAP:
        with contextlib.suppress(ConnectionError):  # cut off: the answer is there
            await wire.say(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
        sent += 0x100000
    assert read(await answer)[0] == 413
    assert sent < 16 * CAP
    with pytest.raises(ConnectionError):  # whoever goes on sending is cut off
        await wire.flood(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")


ODD = {
    "GET //": 404,
    "GET //evil.example/x": 404,
    "GET /..": 404,
    "GET /echo/../../health": 200,  # a path of /echo's, which takes it as it stands
    "GET /%2e%2e/health": 404,
    "GET /echo%2fx": 200,  # decoded once it is a path of /echo's
    "GET /%00": 404,
    "GET /\\": 404,
    "GET /%": 404,
    "GET /%zz": 404,
    "GET /?": 200,
    "GET *": 400,
    "GET http://evil.example/health": 400,
    "GET https://127.0.0.1/health": 400,
    "GET health": 400,
    "GET \xff": 400,
    "GET /\xff": 400,
    "OPTIONS *": 400,
    "CONNECT evil.example:443": 400,
    "TRACE /echo": 405,
    "PROPFIND /echo": 405,
    "BREW /echo": 400,
    "get /echo": 400,
    "": 400,
}


async def test_odd_requests_are_answered_cleanly(listener: Listener):
    assert {start: (await ask(listener, head(listener, start)))[0] for start in ODD} == ODD


async def test_an_absolute_target_of_our_own_is_its_path(listener: Listener):
    assert await ask(listener, head(listener, f"GET {listener.origin}/health", token=False)) == await ask(
        listener, head(listener, "GET /health", token=False)
    )
    assert (await ask(listener, head(listener, f"GET {listener.origin}/echo/x?y")))[1]["path"] == "/echo/x"
    assert (await ask(listener, head(listener, f"GET {listener.origin}@evil.example/echo")))[0] == 400


AMBIGUOUS = [
    ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ("Content-Length: 5", "Content-Length: 6"),
    ("Content-Length: -1",),
    ("Content-Length: 5x",),
    ("Content-Length: +5",),
    ("Transfer-Encoding: chunked, identity",),
    ("X : y",),
    ("X\x00: y",),
    ("X: a\rb",),
]


async def test_ambiguous_framing_is_refused(listener: Listener):
    got = {lines: (await ask(listener, head(listener, "POST /echo", *lines) + b"12345"))[0] for lines in AMBIGUOUS}
    assert got == dict.fromkeys(AMBIGUOUS, 400)


async def test_without_a_host_of_ours_it_is_400_even_with_the_token(listener: Listener):
    empty = head(listener, host=None).replace(b"Connection", b"Host: \r\nConnection", 1)
    named = [head(listener, host=f"{name}:{listener.port}") for name in ("evil.example", "localhost.", "owner@localhost")]
    for data in (head(listener, host=None), empty, *named):
        status, body = await ask(listener, data)
        assert (status, body["code"]) == (400, "invalid_host")


async def test_other_protocols_get_400_and_the_door(listener: Listener):
    for garbage in (b"\x16\x03\x01\x02\x00\x01\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n\r\nxx\r\n\r\n", b"EHLO x\r\n"):
        assert (await ask(listener, garbage))[0] == 400


async def test_a_web_socket_needs_our_host_and_a_token(listener: Listener):
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
    for data, status in (
        (head(listener, "GET /v0", *upgrade, token=False), 403),
        (head(listener, "GET /v0", *upgrade, host="evil.example"), 400),
        (head(listener, "GET /v0", "Origin: http://evil.example", *upgrade), 403),
        (head(listener, "GET /v0?api_key=am_1", *upgrade, token=False), 403),
        (head(listener, f"GET /v0?api_key={TOKEN}", *upgrade, token=False), 404),
    ):
        got, body = await ask(listener, data.replace(b"Connection: close", b"Connection: Upgrade"))
        assert (got, set(body) >= {"name", "message", "code"}) == (status, True)


async def test_requests_sent_ahead_are_answered_in_order(listener: Listener):
    wire = await Wire.open(listener)
    kept = head(listener, "POST /echo/1", "Content-Length: 2").replace(b"Connection: close", b"X: y") + b"ab"
    await wire.say(kept + head(listener, "POST /echo/2", "Content-Length: 3") + b"abc")
    answer = await wire.rest()
    assert [part.split(b'"')[0] for part in answer.split(b'"path": "')[1:]] == [b"/echo/1", b"/echo/2"]


async def test_a_client_that_does_not_read_its_answer_is_cut_off():
    listening = bind("127.0.0.1", 0)
    ended = asyncio.Event()
    origin = build({"flood": flood(ended)}, accepting=lambda: True)
    bounds = dataclasses.replace(BOUNDS, unread_s=0.5)
    server = HttpServer(Surface(origin, access=OneKey(), names=Names("127.0.0.1", listening.port)), listening, bounds)
    await server.start()
    with socket.create_connection(("127.0.0.1", listening.port)) as deaf:
        deaf.sendall(head(listening, "GET /flood"))
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
    await server.stop()


async def test_stopping_ends_an_endless_answer_in_time():
    listening = bind("127.0.0.1", 0)
    origin = build({"stream": stream}, accepting=lambda: True)
    server = HttpServer(Surface(origin, access=OneKey(), names=Names("127.0.0.1", listening.port)), listening, BOUNDS)
    await server.start()
    wire = await Wire.open(listening)
    await wire.say(head(listening, "GET /stream"))
    await wire.until(b"begun")
    await asyncio.wait_for(server.stop(), PATIENCE_S)
    assert await wire.rest() != b"0\r\n\r\n"  # cut, not ended: the client can tell


async def test_a_server_that_never_started_lets_go_of_its_port():
    listening = bind("127.0.0.1", 0)
    await HttpServer(echo, listening, BOUNDS).stop()
    bind("127.0.0.1", listening.port).socket.close()


def test_a_taken_port_is_a_clear_error_and_port_0_picks_one():
    taken = bind("127.0.0.1", 0)
    try:
        assert taken.port > 0
        with pytest.raises(InUse, match=f"127.0.0.1:{taken.port} is taken"):
            bind("127.0.0.1", taken.port)
    finally:
        taken.socket.close()
    with pytest.raises(Invalid, match="not an address"):
        bind("no such host", 0)
    with pytest.raises(Invalid, match="cannot listen"):
        bind("192.0.2.1", 0)


async def test_the_callers_os_user_is_known(listener: Listener):
    _, body = await ask(listener, head(listener))
    assert body["uid"] == os.getuid()


async def test_another_os_user_is_told_apart(listener: Listener):
    if os.getuid() != 0 or shutil.which("setpriv") is None or shutil.which("curl") is None:
        pytest.skip("needs root, setpriv and curl")
    other = pwd.getpwnam("nobody").pw_uid
    command = ["setpriv", f"--reuid={other}", "--clear-groups", "curl", "-sS", "--max-time", str(int(PATIENCE_S))]
    command += ["-H", f"Authorization: Bearer {TOKEN}", f"{listener.origin}/echo"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True, env={"PATH": os.environ["PATH"]})
    assert json.loads(done.stdout)["uid"] == other


def test_a_peer_from_elsewhere_has_no_user():
    from postroom.interfaces.http.peer import peer_uid

    assert peer_uid(("192.0.2.1", 1), ("127.0.0.1", 2)) is None
    assert peer_uid(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    assert peer_uid(None, ("127.0.0.1", 2)) is None
    assert peer_uid(("::1%lo", 1), ("::1", 2)) is None


async def test_half_a_connection_does_not_leak(listener: Listener):
    for _ in range(3 * BOUNDS.connections):
        sock = socket.create_connection((listener.host, listener.port))
        sock.sendall(b"GET /echo HTTP/1.1\r\nHost: x")
        sock.close()
    async with asyncio.timeout(PATIENCE_S):
        while (await ask(listener, head(listener)))[0] != 200:  # until the server has heard of their ends
            pass
