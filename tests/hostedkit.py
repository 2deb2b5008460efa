"""A hosted office to try against: another postroom on loopback by real HTTP and WebSocket, or a stub that misbehaves.

`remote_office` runs a whole house behind a real socket and, with `Trouble`, a peer before it that answers each
request wrongly the first time. `hosted_over` is the backend under test, over a store of its own.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import postroom.hosted.tables  # noqa: F401 - tables must be known before the store is opened
from houses import Living, living
from httppeer import Peer, Request, Response, peer
from postroom.config import Config, Inbound, Office
from postroom.hosted.office import HostedOffice
from postroom.interfaces.http.server import HttpServer, bind
from postroom.model.principal import Kind, Principal
from postroom.office.intake import Envelope
from postroom.store.engine import Store
from postroom.testing import FakeClock

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
        """A wrong answer; None when this one was spoiled before."""
        key = (request.method, request.target, request.body)
        if key in self._spoiled:
            self._spoiled.discard(key)
            return None
        self._spoiled.add(key)
        wrong = next(self._ways)
        if wrong is None:
            raise ConnectionAbortedError
        return wrong


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
    async with httpx.AsyncClient(base_url=origin) as client:

        async def answer(request: Request) -> Response:
            wrong = trouble.spoil(request)
            if wrong is not None:
                return wrong
            named = {
                name: value
                for name, value in request.headers.items()
                if name in ("authorization", "idempotency-key", "content-type")
            }
            answered = await client.request(request.method, request.target, content=request.body, headers=named)
            return Response(status=answered.status_code, body=answered.content.replace(origin.encode(), between.url.encode()))

        async with peer(answer) as between:
            yield between


@dataclass
class Here:
    """The backend under test, its store, and how long it would have paused between attempts."""

    office: HostedOffice
    store: Store
    clock: FakeClock
    pauses: list[float] = field(default_factory=list)


def config_for(url: str, key_file: Path, **more: Any) -> Config:
    """A config whose office is elsewhere."""
    inbound = more.pop("inbound", Inbound())
    given = {"domains": (DOMAIN,), **more}
    return Config(office=Office(url=url, key=f"file:{key_file}", **given), inbound=inbound)


@contextlib.asynccontextmanager
async def hosted_over(folder: Path, remote: Remote, **more: Any) -> AsyncIterator[Here]:
    """A backend over `remote`."""
    async with hosted_at(folder, remote.url, remote.key, **more) as here:
        yield here


@contextlib.asynccontextmanager
async def hosted_at(folder: Path, url: str, key: str = "am_test_key", **more: Any) -> AsyncIterator[Here]:
    """A backend over whatever answers at `url`. Pauses are noted and not waited for."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "key").write_text(key, encoding="utf-8")
    clock = FakeClock()
    store = await Store.open(folder, clock=clock)
    pauses: list[float] = []

    async def pause(wait_s: float) -> None:
        pauses.append(wait_s)
        await asyncio.sleep(0)

    ping_s = more.pop("ping_s", 20.0)
    office = HostedOffice(store, config_for(url, folder / "key", **more), directory, pause=pause, ping_s=ping_s)
    try:
        yield Here(office, store, clock, pauses)
    finally:
        await office.close()
        await store.close()


async def directory(agent_id: str) -> Principal | None:
    return AGENTS.get(agent_id)
