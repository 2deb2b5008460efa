"""One mailbox over a real store, with a clock that stands still."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engines import ENGINES, url_of
from postroom.mailbox.reading import Query
from postroom.mailbox.records import Batch, Stored
from postroom.mailbox.room import Mailbox, Options
from postroom.mailbox.sending import Letter
from postroom.model.principal import Kind, Principal
from postroom.safety.redact import Redactor
from postroom.store.engine import Store
from postroom.testing import FakeClock

OWNER = Principal(kind=Kind.OWNER)
ALICE, BOB, CAROL = (Principal(kind=Kind.AGENT, agent_id=f"agt_{name}", name=name) for name in ("alice", "bob", "carol"))
WATCHER = Principal(kind=Kind.AGENT, agent_id="agt_watcher", name="watcher", profile="observer")
AGENTS = ("alice", "bob", "carol", "watcher")
KEY = bytes(range(32))


@dataclass
class Box:
    """A mailbox and short ways to use it."""

    store: Store
    folder: Path
    clock: FakeClock
    options: Options
    room: Mailbox = field(init=False)

    def __post_init__(self) -> None:
        self.room = self.again()

    def again(self) -> Mailbox:
        """The room after a restart."""
        keys = {"key": KEY, "signing_key": KEY[::-1]}
        return Mailbox(self.store, self.options, redactor=Redactor(), folder=self.folder, directory=agents, **keys)

    async def send(self, text: str, to: str = "bob", by: Principal = ALICE, *, sender: str | None = None, **more: Any) -> Stored:
        return await self.room.send(by, Letter(to=to, text=text, **more), sender=sender)

    async def read(self, by: Principal = BOB, **more: Any) -> Batch:
        by_cursor = "since" in more
        return await self.room.read(by, Query(**{"reader": "", **more}), by_cursor=by_cursor)

    async def texts(self, by: Principal = BOB, **more: Any) -> list[str]:
        return [message.text for message in (await self.read(by, **more)).messages]


async def agents() -> tuple[str, ...]:
    return AGENTS


@pytest.fixture(params=ENGINES)
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Makes a mailbox with options, on each engine."""
    clock = FakeClock()
    with url_of(request.param) as url:
        store = await Store.open(tmp_path, clock=clock, url=url)

        def box(**options: Any) -> Box:
            return Box(store, tmp_path, clock, Options(domains=("postroom.localhost",), **options))

        yield box
        await store.close()


@pytest.fixture
async def box(make: Callable[..., Box]) -> Box:
    return make()
