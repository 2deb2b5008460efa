"""An office on a real store: a database file in a temporary folder, and the same in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import bindparam, delete

from engines import url_of
from postroom.config import Config
from postroom.errors import StorageFailure
from postroom.model.mail import Inbox, NewInbox
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.principal import SYSTEM, Kind, Principal
from postroom.office.ingest import Ingest
from postroom.office.intake import Envelope, Intake
from postroom.office.mail import OfficeMail
from postroom.office.parsing import SplitReader
from postroom.store import schema
from postroom.store.engine import Store
from postroom.store.statement import sql

_LOSE = sql(delete(schema.blob).where(schema.blob.c.sha == bindparam("sha")))
START = 1_800_000_000_000_000
OWNER = Principal(kind=Kind.OWNER)
ALL = MailFilter()
FIRST = PageRequest()


def agent(number: int) -> Principal:
    return Principal(kind=Kind.AGENT, agent_id=f"agt_{number}", name=f"agent-{number}")


class FakeClock:
    """Time that moves when told to, and a little at every look."""

    def __init__(self) -> None:
        self.now = START

    def now_us(self) -> int:
        self.now += 1
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)


@dataclass
class House:
    """Everything a test of the office touches."""

    store: Store
    clock: FakeClock
    config: Config
    mail: OfficeMail
    intake: Intake
    ingest: Ingest
    kinds: list[str] = field(default_factory=list)

    async def inbox(self, name: str = "ada", owner: str | None = "agt_1") -> Inbox:
        return await self.mail.create_inbox(OWNER, NewInbox(username=name, owner_agent=owner))

    async def arrive(self, raw: bytes, *to: str, mail_from: str = "bob@example.com") -> None:
        """Accept a mail from outside and read everything that waits."""
        await self.intake.accept(Envelope(mail_from=mail_from, rcpt_to=to or ("ada@postroom.localhost",)), raw)
        await self.settle()

    async def settle(self) -> None:
        while await self.ingest.step():
            pass

    async def events(self, *kinds: str) -> Sequence[tuple[str, str]]:
        return [(event.kind, event.ref) for event in await self.store.events.after(0, kinds=kinds or None)]


async def lose(house: House, sha: str) -> None:
    """Make a blob's bytes go missing, as a failing disk would."""
    await house.store.write(lambda tx: tx.run(_LOSE, sha=sha))


def letter(
    subject: str = "Hello",
    text: str = "Hi Ada,\nhow are you?",
    *,
    message_id: str | None = "<one@example.com>",
    sender: str = "Bob <bob@example.com>",
    to: str = "ada@postroom.localhost",
    extra: Sequence[str] = (),
) -> bytes:
    """A plain mail with CRLF lines."""
    lines = [f"From: {sender}", f"To: {to}", f"Subject: {subject}", "Date: Fri, 15 Jan 2027 08:00:00 +0000", *extra]
    lines += [f"Message-ID: {message_id}"] if message_id else []
    return "\r\n".join([*lines, "", *text.split("\n"), ""]).encode()


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture(params=["file", "memory", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    with url_of("postgresql" if request.param == "postgresql" else "sqlite") as url:
        opened = await Store.open(":memory:" if request.param == "memory" else tmp_path, clock=FakeClock(), url=url)
        yield opened
        await opened.close()


@pytest.fixture
async def house(store: Store, config: Config) -> AsyncIterator[House]:
    reader = SplitReader()
    assert isinstance(store.clock, FakeClock)
    yield House(
        store=store,
        clock=store.clock,
        config=config,
        mail=OfficeMail(store, config),
        intake=Intake(store, config),
        ingest=Ingest(store, reader),
    )
    reader.close()


__all__ = ["ALL", "FIRST", "OWNER", "SYSTEM", "FakeClock", "House", "agent", "letter", "lose"]


def cut_short(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the second write from here, and at no other."""
    write, writes = house.store.write, []

    async def dies_at_the_second(fn: Any) -> Any:
        writes.append(fn)
        if len(writes) == 2:
            raise StorageFailure("the disk is full")
        return await write(fn)

    monkeypatch.setattr(house.store, "write", dies_at_the_second)
