"""The mailbox: durable sends over HTTP and MCP, reads and search by size, waking, beside the usual parts in the same run.

The reference for a send is bare Starlette on uvicorn with SQLite (WAL, FULL) and FTS5: two statements
per message, grouped commits, no authentication, chain, redaction or visibility. The one over MCP is the
protocol library's own server with one tool that does nothing. Each runs as a process of its own, like
ours, with the same load generator in turn. Reads, search, waking and memory are measured at 1,000 and at
POSTROOM_BENCH_RECORDS records (100,000; `1000000` takes a quarter of an hour more), filled through the
room itself.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

SECONDS = float(os.environ.get("BENCH_MAILBOX_SECONDS", "4"))
LARGE = int(os.environ.get("POSTROOM_BENCH_RECORDS", "100000"))
ROUNDS = 3
PARKED = 1000  # readers
TEXT_BYTES = 900
WORDS = ["plan", "build", "test", "deploy", "review", "merge", "queue", "cache", "index", "token", "agent", "inbox", "reply"]

REFERENCE = r"""
import asyncio, json, queue, sqlite3, sys, threading
import uvicorn, uvloop, msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

db = sqlite3.connect(sys.argv[1], check_same_thread=False, isolation_level=None)
db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                 "CREATE TABLE m(id INTEGER PRIMARY KEY, f TEXT, t TEXT, body TEXT); CREATE VIRTUAL TABLE s USING fts5(body, content='')")
jobs = queue.SimpleQueue()
loop = None

def done(batch, ids):
    for (entry, future), number in zip(batch, ids):
        if not future.done():
            future.set_result(number)

def work():
    number = 0
    while True:
        batch = [jobs.get()]
        while len(batch) < 256:
            try: batch.append(jobs.get_nowait())
            except queue.Empty: break
        db.execute("BEGIN IMMEDIATE")
        ids = []
        for entry, _ in batch:
            number = db.execute("INSERT INTO m(f, t, body) VALUES (?, ?, ?)", (entry["from"], entry["to"], entry["text"])).lastrowid
            db.execute("INSERT INTO s(rowid, body) VALUES (?, ?)", (number, entry["text"]))
            ids.append(number)
        db.execute("COMMIT")
        loop.call_soon_threadsafe(done, batch, ids)

async def send(request):
    entry = msgspec.json.decode(await request.body())
    future = loop.create_future()
    jobs.put((entry, future))
    return Response(msgspec.json.encode({"seq": await future}), 201, media_type="application/json")

app = Starlette(routes=[Route("/mailbox/messages", send, methods=["POST"])])

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        global loop
        loop = asyncio.get_running_loop()
        threading.Thread(target=work, daemon=True).start()
        await super().startup(sockets)
        print("postroom ready http://127.0.0.1:%d x" % self.servers[0].sockets[0].getsockname()[1], flush=True)

uvloop.run(Server(uvicorn.Config(app, port=0, log_level="critical", access_log=False)).serve())
"""


REFERENCE_MCP = r"""
import contextlib
import mcp_types as types, uvicorn, uvloop
from mcp.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount

async def call(ctx, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text="done")])

async def tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="trivial", input_schema={"type": "object"})])

manager = StreamableHTTPSessionManager(
    app=Server("bare", on_list_tools=tools, on_call_tool=call), json_response=True, stateless=True)

@contextlib.asynccontextmanager
async def lifespan(app):
    async with manager.run():
        yield

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("postroom ready http://127.0.0.1:%d x" % self.servers[0].sockets[0].getsockname()[1], flush=True)

app = Starlette(routes=[Mount("/mcp", manager.handle_request)], lifespan=lifespan)
uvloop.run(Server(uvicorn.Config(app, port=0, log_level="critical", access_log=False)).serve())
"""


@contextmanager
def started(command: list[str]) -> Iterator[tuple[int, int]]:
    """A server's port and process id."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("postroom ready"), line
        yield int(line.split()[2].rpartition(":")[2]), process.pid
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def reference(folder: Path) -> Any:
    """The bare server."""
    return started([sys.executable, "-c", REFERENCE, str(folder / "reference.db")])


def reference_mcp() -> Any:
    """The bare MCP server."""
    return started([sys.executable, "-c", REFERENCE_MCP])


def postroom(folder: Path) -> Any:
    """`postroom serve`."""
    command = [sys.executable, "-m", "postroom.cli.main", "serve", "--data", str(folder)]
    return started([*command, "--http", "127.0.0.1:0", "--smtp", "off"])


def call(port: int, token: str, method: str, path: str, body: Any = None) -> Any:
    """One request of its own."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
        content = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        client.request(method, path, content, headers | {"Accept": "application/json, text/event-stream"})
        answer = client.getresponse()
        text = answer.read()
        assert answer.status < 300, (answer.status, text)
        return json.loads(text)


def texts(count: int) -> list[str]:
    """Messages of about `TEXT_BYTES`, from a fixed seed."""
    rng = random.Random(3)
    out = []
    for number in range(count):
        words: list[str] = []
        while sum(map(len, words)) + len(words) < TEXT_BYTES:
            words.append(rng.choice(WORDS) if rng.random() < 0.4 else f"w{rng.randrange(20_000)}")
        out.append(f"message {number} " + " ".join(words))
    return out


LOAD = r"""
import asyncio, json, sys, time
import uvloop
port, clients, seconds, token, path = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
bodies = [line.rstrip("\n").encode() for line in open(sys.argv[6], encoding="utf-8")]

def request(body):
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    return (head + f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body

requests = [request(body) for body in bodies]

class Client(asyncio.Protocol):
    def __init__(self, number, end):
        self.number, self.end, self.times, self.buffer, self.done = number, end, [], b"", asyncio.get_running_loop().create_future()
    def connection_made(self, transport):
        self.transport = transport
        self.send()
    def send(self):
        self.number += 1
        self.begin = time.perf_counter()
        self.transport.write(requests[self.number * 7 % len(requests)])
    def data_received(self, data):
        self.buffer += data
        head, mark, rest = self.buffer.partition(b"\r\n\r\n")
        if not mark: return
        at = head.lower().find(b"content-length:")
        length = int(head[at + 15:].split(b"\r\n", 1)[0])
        if len(rest) < length: return
        now = time.perf_counter()
        assert head[9:10] == b"2", (head, rest)
        self.times.append(now - self.begin)
        self.buffer = rest[length:]
        if now < self.end: self.send()
        else: self.done.set_result(None); self.transport.close()

async def main():
    loop = asyncio.get_running_loop()
    begin = time.perf_counter()
    made = [(await loop.create_connection(lambda n=n: Client(n * 1000, begin + seconds), "127.0.0.1", port))[1] for n in range(clients)]
    await asyncio.gather(*(one.done for one in made))
    took = time.perf_counter() - begin
    times = sorted(t for one in made for t in one.times)
    print(json.dumps({"rate": len(times) / took, "p50": times[len(times) // 2] * 1000, "p95": times[int(len(times) * 0.95)] * 1000}))

uvloop.run(main())
"""


def load(folder: Path, port: int, clients: int, *, token: str, path: str, bodies: list[Any]) -> dict[str, float]:
    """Rate and times of one load, from a process of its own."""
    bodies_file = folder / "bodies"
    bodies_file.write_text("\n".join(json.dumps(body) for body in bodies), encoding="utf-8")
    command = [sys.executable, "-c", LOAD, str(port), str(clients), str(SECONDS), token, path, str(bodies_file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def owner_of(folder: Path) -> str:
    """The owner's key."""
    return (folder / "owner.key").read_text(encoding="utf-8").strip()


def row(name: str, value: float, unit: str, reference_name: str = "", reference_value: float | None = None) -> dict[str, Any]:
    """One line of the table."""
    ratio = value / reference_value if reference_value else None
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "reference": reference_name,
        "reference_value": reference_value,
        "ratio": ratio,
    }


def sends(folder: Path) -> Iterator[dict[str, Any]]:
    """Durable sends over HTTP at 1, 8 and 32 clients, both servers in turn."""
    said = texts(500)
    bodies = [{"from": f"s{n % 20}", "to": f"r{n % 20}", "text": text} for n, text in enumerate(said)]
    with reference(folder) as (bare, _), postroom(folder / "house") as (port, _):
        token = owner_of(folder / "house")
        for number in range(20):
            call(port, token, "POST", "/mailbox/announce", {"name": f"r{number}"})
        for clients in (1, 8, 32):
            ours, theirs = [], []
            for _ in range(ROUNDS):
                theirs.append(load(folder, bare, clients, token="none", path="/mailbox/messages", bodies=bodies)["rate"])
                ours.append(load(folder, port, clients, token=token, path="/mailbox/messages", bodies=bodies)["rate"])
            about = ("bare Starlette + SQLite FULL + FTS5", statistics.median(theirs))
            yield row(f"mailbox: durable sends, HTTP, {clients} clients", statistics.median(ours), "/s", *about)


def over_mcp(folder: Path) -> Iterator[dict[str, Any]]:
    """`mailbox_send` over MCP beside a tool that does nothing, on the protocol library's own server."""
    with reference_mcp() as (bare, _), postroom(folder / "mcp") as (port, _):
        token = owner_of(folder / "mcp")
        call(port, token, "POST", "/mailbox/announce", {"name": "r"})

        def tool(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}

        send = [tool("mailbox_send", {"to": "r", "text": text}) for text in texts(200)]
        trivial = [tool("trivial", {"text": text}) for text in texts(200)]
        rates: dict[str, list[float]] = {"send": [], "trivial": []}
        call(port, token, "POST", "/mcp/mailbox", send[0])  # loads the protocol library
        for _ in range(ROUNDS):
            rates["trivial"].append(load(folder, bare, 8, token="none", path="/mcp/", bodies=trivial)["rate"])
            rates["send"].append(load(folder, port, 8, token=token, path="/mcp/mailbox", bodies=send)["rate"])
        about = ("a tool that does nothing, bare MCP server", statistics.median(rates["trivial"]))
        yield row("mailbox: mailbox_send over MCP, 8 clients", statistics.median(rates["send"]), "/s", *about)


async def fill(folder: Path, start: int, end: int) -> None:
    """Records through the room itself, many per commit."""
    from postroom.app.house import House
    from postroom.config import Config
    from postroom.mailbox.sending import Letter
    from postroom.model.principal import SYSTEM

    said = texts(300)
    house = await House.open(folder, Config())
    try:
        for name in ("reader", *(f"r{n}" for n in range(50))):
            await house.mailbox.announce(SYSTEM, name=name)
        for at in range(start, end, 256):
            letters = [
                Letter(to="reader" if n % 10 == 0 else f"r{n % 50}", text=f"n{n} {said[n % 300]}")
                for n in range(at, min(at + 256, end))
            ]
            await asyncio.gather(*(house.mailbox.send(SYSTEM, letter, sender="filler") for letter in letters))
    finally:
        await house.close()


def timed(ask: Callable[[], Any], count: int = 300) -> tuple[float, float]:
    """p50 and p95 in ms over one connection."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        ask()
        times.append((time.perf_counter() - begin) * 1000)
    times.sort()
    return times[count // 2], times[int(count * 0.95)]


class Kept:
    """One kept-alive connection, spoken on a plain socket so that the client costs little."""

    def __init__(self, port: int, token: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self._head += "Accept: application/json, text/event-stream\r\n"

    def ask(self, method: str, path: str, body: Any = None) -> bytes:
        """One request; the answer's body."""
        self.say(method, path, body)
        return self.answer()

    def say(self, method: str, path: str, body: Any = None) -> None:
        """One request, its answer left for later."""
        content = b"" if body is None else json.dumps(body).encode()
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(content)}\r\n\r\n".encode() + content)

    def answer(self) -> bytes:
        """The next answer's body."""
        length = 0
        while (line := self._file.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return self._file.read(length)

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()


def by_size(folder: Path, size: int) -> dict[str, float]:
    """Reading, searching, waking and sending with `size` records."""
    figures: dict[str, float] = {}
    with postroom(folder) as (port, pid):
        token = owner_of(folder)
        one = Kept(port, token)
        page = {"name": "mailbox_read", "arguments": {"to": "reader", "limit": 20, "newest": True}}
        mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": page}
        one.ask("POST", "/mcp/mailbox", mcp)
        figures["read 20 newest, MCP"], _ = timed(lambda: one.ask("POST", "/mcp/mailbox", mcp))
        cursor = max(size - 200, 0)
        figures["read by cursor"], _ = timed(lambda: one.ask("GET", f"/mailbox/messages?reader=reader&since={cursor}&limit=20"))
        figures["search, p50"], figures["search, p95"] = timed(lambda: one.ask("GET", "/mailbox/search?q=deploy+cache&limit=20"))
        figures["wake, p50"], figures["wake, p95"] = waking(port, token, one)
        with parked(port, token, PARKED):
            figures[f"wake, p50, {PARKED:,} more parked"], figures[f"wake, p95, {PARKED:,} more parked"] = waking(
                port, token, one
            )
        figures["memory"] = memory_of(pid)
        bodies = [{"from": "filler", "to": "r1", "text": text} for text in texts(200)]
        figures["send"] = load(folder.parent, port, 32, token=token, path="/mailbox/messages", bodies=bodies)["rate"]
        one.close()
    return figures


@contextmanager
def parked(port: int, token: str, count: int) -> Iterator[None]:
    """So many readers of their own names, waiting for what never comes."""
    waiting = [Kept(port, token) for _ in range(count)]
    for number, one in enumerate(waiting):
        one.say("GET", f"/mailbox/wait?reader=parked{number % 50}&since={1 << 50}&hold_ms=300000")
    deadline = time.monotonic() + 60
    while call(port, token, "GET", "/health")["waiting"] < count and time.monotonic() < deadline:
        time.sleep(0.05)
    yield
    for one in waiting:
        one.close()


def waking(port: int, token: str, sender: Kept) -> tuple[float, float]:
    """From the start of a send to the parked reader's answer."""
    reader = Kept(port, token)
    call(port, token, "POST", "/mailbox/announce", {"name": "woken"})
    cursor, times = 1 << 50, []
    for number in range(150):
        got: list[float] = []

        def parked(got: list[float] = got, since: int = cursor) -> None:
            answer = json.loads(reader.ask("GET", f"/mailbox/wait?reader=woken&since={since}&hold_ms=5000"))
            got += [time.perf_counter(), answer["cursor"]]

        thread = threading.Thread(target=parked)
        thread.start()
        time.sleep(0.006)
        begin = time.perf_counter()
        sender.ask("POST", "/mailbox/messages", {"from": "filler", "to": "woken", "text": f"wake {number}"})
        thread.join(10)
        times.append((got[0] - begin) * 1000)
        cursor = int(got[1])
    reader.close()
    times.sort()
    return times[len(times) // 2], times[int(len(times) * 0.95)]


def memory_of(pid: int) -> float:
    """Resident memory in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def in_memory() -> str | None:
    """A place that costs no disk syncs while large logs are filled, where there is room for one."""
    place = "/dev/shm"
    return place if Path(place).is_dir() and shutil.disk_usage(place).free > 8 << 30 else None


def sizes() -> Iterator[dict[str, Any]]:
    """The same log at 1,000 and at `LARGE` records: what it costs more."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        house = Path(folder) / "house"
        asyncio.run(fill(house, 0, 1000))
        small = by_size(house, 1000)
        asyncio.run(fill(house, 1000, LARGE))
        large = by_size(house, LARGE)
    for name, value in large.items():
        unit = {"send": "/s", "memory": "MiB"}.get(name, "ms")
        yield row(f"mailbox: {name}, {LARGE:,} records", value, unit, "the same with 1,000 records", small[name])


def rows() -> Iterator[dict[str, Any]]:
    """Everything above, a row at a time."""
    with tempfile.TemporaryDirectory() as folder:
        yield from sends(Path(folder))
        yield from over_mcp(Path(folder))
    yield from sizes()
