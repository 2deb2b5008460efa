"""A hosted office to try against: another postroom on loopback by real HTTP and WebSocket, or a stub that misbehaves.

`remote_office` runs a whole house behind a real socket and, with `Trouble`, a peer before it that answers each
request wrongly the first time. `hosted_over` is the backend under test, over a store of its own.
"""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.server import ServerConnection, serve

import postroom.hosted.tables  # noqa: F401 - tables must be known before the store is opened
from houses import Living, living
from httppeer import Peer, Request, Response, peer
from pace import PATIENCE_S
from postroom.config import Config, Inbound, Office
from postroom.hosted.office import HostedOffice
from postroom.interfaces.http.server import HttpServer, bind
from postroom.model.event import RECEIVED, Event
from postroom.model.mail import Inbox
from postroom.model.principal import DEFAULT_POD, Kind, Principal
from postroom.office.intake import Envelope
from postroom.store.engine import Store
from postroom.testing import FakeClock
from postroom.wires.socket import opened

DOMAIN = "agents.example"
ADA = Principal(kind=Kind.AGENT, agent_id="agt_ada", name="ada")
EVE = Principal(kind=Kind.AGENT, agent_id="agt_eve", name="eve")
AGENTS = {"agt_ada": ADA, "agt_eve": EVE}


class Trouble:
    """What a bad peer does to the first attempt of each request, one thing after the other; the next attempt is answered."""

    def __init__(self) -> None:
        self._ways: Iterator[Response | None] = itertools.cycle(
            [
                Response(status=500, body=b"<html>oops</html>"),
                Response(status=429, body={"message": "slow down"}, headers={"retry-after": "0"}),
                None,  # the connection is dropped
                Response(status=200, body=b"{not json"),
                Response(status=503, body=b""),
                Response(status=200, body=[1, 2, 3]),
                Response(status=408, body={"name": 7}),
            ]
        )
        self._spoiled: set[tuple[str, str, bytes]] = set()

    def spoil(self, request: Request) -> Response | None:
        """A wrong answer; None once this request got one. Bytes behind a link say nothing of being wrong, so those are refused."""
        key = self._key(request)
        if key in self._spoiled:
            return None
        self._spoiled.add(key)
        wrong = next(self._ways)
        if wrong is None:
            raise ConnectionAbortedError
        return Response(status=500) if wrong.status == 200 and request.path.startswith("/dl/") else wrong

    def answered(self, request: Request) -> None:
        """The next request like this one gets a wrong answer first again."""
        self._spoiled.discard(self._key(request))

    def _key(self, request: Request) -> tuple[str, str, bytes]:
        return request.method, request.target, request.body


@dataclass
class Remote:
    """The office there. `url` is where the backend is to look for it."""

    house: Living
    url: str
    key: str

    async def arrive(self, to: str, raw: bytes) -> None:
        """Mail from outside comes in there, and is read."""
        office = self.house.house.office
        await office.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=(to,)), raw)
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything queued there is read."""
        office = self.house.house.office
        while await office.ingest.step():
            pass


@contextlib.asynccontextmanager
async def remote_office(folder: Path, trouble: Trouble | None = None, config: Config | None = None) -> AsyncIterator[Remote]:
    """A postroom with its HTTP door open."""
    listener = bind("127.0.0.1", 0)
    given = config or Config(office=Office(domains=(DOMAIN,)))
    async with living(folder, given, listener=listener) as house:
        server = HttpServer(house.app, listener)
        await server.start()
        try:
            if trouble is None:
                yield Remote(house, listener.origin, house.owner_key)
            else:
                async with _spoiling(listener.origin, trouble) as between:
                    yield Remote(house, between.url, house.owner_key)
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def _spoiling(origin: str, trouble: Trouble) -> AsyncIterator[Peer]:
    async with httpx.AsyncClient(base_url=origin, timeout=PATIENCE_S) as client:

        async def answer(request: Request) -> Response:
            wrong = trouble.spoil(request)
            if wrong is not None:
                return wrong
            named = {
                name: value
                for name, value in request.headers.items()
                if name in ("authorization", "idempotency-key", "content-type")
            }
            try:
                answered = await client.request(request.method, request.target, content=request.body, headers=named)
            except httpx.HTTPError:
                raise ConnectionAbortedError from None
            trouble.answered(request)
            return Response(status=answered.status_code, body=answered.content.replace(origin.encode(), between.url.encode()))

        async with peer(answer) as between:
            yield between


POLL_S = 1000.0  # a pause of this length is ended by the test


@dataclass
class Here:
    """The backend under test, its store, and how long it would have paused between attempts.

    `tick` lets the next poll happen.
    """

    office: HostedOffice
    store: Store
    clock: FakeClock
    pauses: list[float] = field(default_factory=list)
    tick: asyncio.Event = field(default_factory=asyncio.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def paused(self, count: int, wait_s: float | None = None) -> None:
        """Wait until there were so many pauses, of this length if one is given."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(wait_s in (None, one) for one in self.pauses) < count:
                await self.moved.wait()

    async def told(self, *kinds: str, count: int = 0) -> list[Event]:
        """Events of these kinds, once there are as many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := await self.store.events.after(0, kinds=kinds or (RECEIVED,), limit=10_000)) < count:
                await self.store.events.wait(self.store.events.last_seq())
        return found

    async def own(self, address: str, agent: Principal = ADA) -> None:
        """Make an inbox of the account the agent's."""
        await self.office.inboxes.claim(Inbox(inbox_id=address, pod_id=DEFAULT_POD), agent.agent_id or "")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The office hears of mail for the length of a block."""
        task = asyncio.create_task(self.office.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def config_for(url: str, key_file: Path, *, inbound: Mapping[str, Any] | None = None, **office: Any) -> Config:
    """A config whose office is elsewhere."""
    given = {"domains": (DOMAIN,), **office}
    return Config(
        office=Office(url=url, key=f"file:{key_file}", **given), inbound=Inbound(**{"poll_interval_s": POLL_S, **(inbound or {})})
    )


@contextlib.asynccontextmanager
async def hosted_over(folder: Path, remote: Remote, **more: Any) -> AsyncIterator[Here]:
    """A backend over `remote`."""
    async with hosted_at(folder, remote.url, remote.key, **more) as here:
        yield here


@contextlib.asynccontextmanager
async def hosted_at(
    folder: Path,
    url: str,
    key: str = "am_test_key",
    *,
    socket: "SocketPeer | None" = None,
    ping_s: float = 20.0,
    database: str = "",
    **more: Any,
) -> AsyncIterator[Here]:
    """A backend over whatever answers at `url`, its socket there or at `socket`. Pauses are noted and not waited for."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "key").write_text(key, encoding="utf-8")
    clock = FakeClock()
    store = await Store.open(folder, clock=clock, url=database)

    async def pause(wait_s: float) -> None:
        here.pauses.append(wait_s)
        moved, here.moved = here.moved, asyncio.Event()
        moved.set()
        if wait_s == POLL_S:
            await here.tick.wait()
            here.tick.clear()
        await asyncio.sleep(0)

    office = HostedOffice(store, config_for(url, folder / "key", **more), directory, pause=pause)
    here = Here(office, store, clock)
    if socket is not None:
        office.inbound._connect = lambda: opened(socket.url, key, ping_s=ping_s)
    try:
        yield here
    finally:
        await office.close()
        await store.close()


async def directory(agent_id: str) -> Principal | None:
    return AGENTS.get(agent_id)


class SocketPeer:
    """A WebSocket on loopback that does with each connection what `script` says, the last of it for ever.

    `subscribed` holds the frames clients sent, one list per connection.
    """

    def __init__(self, *script: "Act") -> None:
        self.script = list(script) or [stay]
        self.subscribed: list[list[dict[str, Any]]] = []
        self.changed = asyncio.Event()
        self.url = ""

    async def serve(self, connection: ServerConnection) -> None:
        frames: list[dict[str, Any]] = []
        self.subscribed.append(frames)
        act = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        frames.append(json.loads(await connection.recv()))
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
        await act(connection)

    async def connections(self, count: int) -> None:
        """Wait until so many connections subscribed."""
        async with asyncio.timeout(PATIENCE_S):
            while sum(bool(frames) for frames in self.subscribed) < count:
                await self.changed.wait()


Act = Callable[[ServerConnection], Awaitable[None]]


async def stay(connection: ServerConnection) -> None:
    """Answer pings and say nothing."""
    await connection.wait_closed()


async def leave(connection: ServerConnection) -> None:
    """Close with 1000."""
    await connection.close(1000)


async def vanish(connection: ServerConnection) -> None:
    """Break off: the client sees 1006."""
    connection.transport.abort()


async def fall_silent(connection: ServerConnection) -> None:
    """Keep the connection and answer nothing, not even pings."""
    connection.transport.pause_reading()
    await connection.wait_closed()


def say(*frames: Any, then: Act = stay) -> Act:
    """Send these frames, then do something else."""

    async def act(connection: ServerConnection) -> None:
        for frame in frames:
            await connection.send(frame if isinstance(frame, str) else json.dumps(frame))
        await then(connection)

    return act


@contextlib.asynccontextmanager
async def socket_peer(*script: Act) -> AsyncIterator[SocketPeer]:
    """A running socket for the length of a block."""
    running = SocketPeer(*script)
    async with serve(running.serve, "127.0.0.1", 0, ping_interval=None, close_timeout=0.2) as server:
        running.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v0"
        yield running


class Account:
    """An account at a hosted office, as far as these tests need one: inboxes and their messages. A handler for `peer`."""

    def __init__(self, *inboxes: str) -> None:
        self.inboxes = list(inboxes)
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.first: list[Response] = []  # answered before anything else is

    def add(self, inbox: str, number: int, *labels: str, sent: bool = False) -> dict[str, Any]:
        """A message, a second later than the one before by its number."""
        row = message_frame(inbox, number, *(labels or (("sent",) if sent else ("received", "unread"))))
        self.messages.setdefault(inbox, []).append(row)
        return row

    def __call__(self, request: Request) -> Response:
        if self.first:
            return self.first.pop(0)
        parts = request.path.removeprefix("/v0/").split("/")
        match (request.method, *parts):
            case ("GET", "inboxes"):
                return Response(body={"count": len(self.inboxes), "inboxes": [self._inbox(name) for name in self.inboxes]})
            case ("POST", "inboxes"):
                self.inboxes.append(f"made-{len(self.inboxes) + 1}@{DOMAIN}")
                return Response(body=self._inbox(self.inboxes[-1]))
            case ("GET", "inboxes", inbox) if inbox in self.inboxes:
                return Response(body=self._inbox(inbox))
            case ("GET", "inboxes", inbox, "messages") if inbox in self.inboxes:
                return Response(body=self._listed(inbox, request.query))
        return Response(status=404, body={"name": "NotFoundError", "message": "Not found", "code": "not_found"})

    def _inbox(self, name: str) -> dict[str, Any]:
        return {"inbox_id": name, "email": name, "pod_id": "p", "created_at": at(0), "updated_at": at(0)}

    def _listed(self, inbox: str, query: dict[str, str]) -> dict[str, Any]:
        wanted = set(json.loads(query.get("labels", "[]")))
        rows = [row for row in self.messages.get(inbox, []) if wanted <= set(row["labels"])]
        rows = [row for row in rows if row["timestamp"] >= query.get("after", "")]
        rows.sort(key=lambda row: row["timestamp"], reverse=query.get("ascending") != "true")
        start, limit = int(query.get("page_token", "0")), int(query.get("limit", "50"))
        page = {"count": len(rows), "messages": rows[start : start + limit]}
        return page | ({"next_page_token": str(start + limit)} if len(rows) > start + limit else {})


def at(number: int) -> str:
    """A moment, so many seconds after a fixed one."""
    return f"2030-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000000Z"


def message_frame(inbox: str, number: int, *labels: str) -> dict[str, Any]:
    """A message as the service tells of it."""
    return {
        "inbox_id": inbox,
        "thread_id": f"thread-{number}",
        "message_id": f"<n{number}@example.com>",
        "labels": list(labels),
        "timestamp": at(number),
        "from": "Bob <bob@example.com>",
        "to": [inbox],
        "subject": f"Note {number}",
        "size": 10,
    }


def received_frame(inbox: str, number: int, **more: Any) -> dict[str, Any]:
    """The event of an arrived message."""
    message = message_frame(inbox, number, "received", "unread")
    return {"type": "event", "event_type": RECEIVED, "event_id": f"e{number}", "message": message, "thread": {}, **more}
