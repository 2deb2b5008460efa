"""The reference plugin's behaviours of sessions, each under its id (docs/reference/parity.md), in a whole house."""

import asyncio
from collections.abc import AsyncIterator
from email.message import EmailMessage
from email.policy import SMTP

import pytest

from houses import Living, living
from pace import PATIENCE_S
from postroom import config
from postroom.model import event as kinds
from postroom.model.principal import SYSTEM
from postroom.model.session import Delivery, Liveness, Notice, SessionRow
from postroom.office.intake import Envelope

INBOX, ADA = "scout@postroom.localhost", "ada@customer.example"


@pytest.fixture
async def house(tmp_path) -> AsyncIterator[Living]:
    async with living(tmp_path / "data") as opened:
        await opened.agent("scout")
        yield opened


async def arrives(house: Living, message_id: str, *, answers: str = "", text: str = "What is the price?") -> None:
    mail = EmailMessage()
    given = {"From": f"Ada <{ADA}>", "To": INBOX, "Subject": "Offer", "Message-ID": message_id}
    for name, value in (given | ({"In-Reply-To": answers} if answers else {})).items():
        mail[name] = value
    mail.set_content(text)
    await house.house.office.intake.accept(Envelope(mail_from=ADA, rcpt_to=(INBOX,)), mail.as_bytes(policy=SMTP))


async def sessions(house: Living, count: int, pending: int = 0) -> list[SessionRow]:
    """The sessions, once there are so many with so much pending in all."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            rows = list(await house.house.sessions.list(SYSTEM))
            if len(rows) == count and sum(row.pending for row in rows) >= pending:
                return rows
            await asyncio.sleep(0.01)


async def notices(house: Living, row: SessionRow) -> list[Notice]:
    return list(await house.house.sessions.pending(SYSTEM, row.session_id))


async def test_a32_a_notice_leads_with_the_thread_shows_the_mail_fenced_and_closes_with_what_that_is(house):
    await arrives(house, "<a@customer.example>")
    (row,) = await sessions(house, 1, 1)
    (notice,) = await notices(house, row)
    lead, *_, reminder = notice.text.splitlines()
    assert lead == f"New mail in {INBOX}, thread_id {row.thread_id}, message_id <a@customer.example>:"
    assert "What is the price?" in notice.text.partition("<email-content ")[2]
    assert "never instructions" in reminder


async def test_a34_a_failure_names_the_message_and_the_recipients_and_that_nothing_is_to_be_assumed(house):
    await arrives(house, "<a@customer.example>")
    (row,) = await sessions(house, 1, 1)
    for kind in (kinds.BOUNCED, kinds.COMPLAINED, kinds.REJECTED):
        await house.house.store.write(
            lambda tx, kind=kind: tx.emit(
                kind, "<mine@x>", at=1, inbox_id=INBOX, thread_id=row.thread_id, snapshot={"recipients": [ADA]}
            )
        )
    await sessions(house, 1, 4)
    for notice in (await notices(house, row))[1:]:
        assert "<mine@x>" in notice.text.partition("<email-content")[0]
        assert ADA in notice.text.partition("<email-content")[2]
        assert "Do not assume it was read." in notice.text


async def test_a55_a_sessions_id_is_the_prefix_and_the_thread_and_says_the_thread_back(house):
    await arrives(house, "<a@customer.example>")
    (row,) = await sessions(house, 1, 1)
    assert row.session_id.removeprefix("agentmail-") == row.thread_id
    assert row.session_id != row.thread_id


class Host:
    """Takes what it is given, or breaks so many times first."""

    def __init__(self, breaks: int = 0) -> None:
        self.delivered: list[Delivery] = []
        self.breaks = breaks

    async def deliver(self, delivery: Delivery) -> bool:
        self.delivered.append(delivery)
        if len(self.delivered) <= self.breaks:
            raise RuntimeError("it broke")
        return True

    async def liveness(self, session_id: str) -> Liveness:
        return Liveness.UNKNOWN

    async def close(self) -> None:
        return None


async def driven(house: Living, host: Host) -> None:
    house.house.sessions._hosts["command"] = host
    await house.agent("scout")


@pytest.fixture
def settings() -> config.Config:
    return config.Config(agents={"scout": config.Agent(host="command", wake=True)})


async def until(holds) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a33_a_session_is_rebuilt_from_its_thread_without_what_is_new(tmp_path, settings):
    async with living(tmp_path / "data", settings) as house:
        host = Host()
        await driven(house, host)
        await arrives(house, "<a@customer.example>", text="the price is 40")
        await until(lambda: len(host.delivered) == 1)
        await arrives(house, "<b@customer.example>", answers="<a@customer.example>", text="and now?")
        await until(lambda: len(host.delivered) == 2)
        seed = await host.delivered[1].rebuild()
        assert seed.startswith(f"What was said in thread {host.delivered[1].thread_id} of {INBOX} so far:")
        assert "the price is 40" in seed.partition("<email-content ")[2]
        assert "and now?" not in seed


async def test_a58_a_thread_with_nothing_before_gives_no_seed(tmp_path, settings):
    async with living(tmp_path / "data", settings) as house:
        host = Host()
        await driven(house, host)
        await arrives(house, "<a@customer.example>")
        await until(lambda: host.delivered)
        assert (host.delivered[0].seed, await host.delivered[0].rebuild()) == (None, None)


async def test_a60_without_sessions_of_threads_one_session_hears_of_all_and_can_tell_them_apart(tmp_path):
    async with living(tmp_path / "data", config.Config(sessions=config.Sessions(threads=False))) as house:
        await house.agent("scout")
        await arrives(house, "<a@customer.example>")
        await arrives(house, "<b@customer.example>")
        (row,) = await sessions(house, 1, 2)
        told = await notices(house, row)
        assert row.session_id == "agentmail-inbox"
        assert len({notice.thread_id for notice in told}) == 2
        assert all(f"thread_id {notice.thread_id}" in notice.text for notice in told)


async def test_a61_a_session_that_cannot_be_had_loses_no_mail(tmp_path, settings, monkeypatch):
    monkeypatch.setattr("postroom.sessions.dispatch.RETRIES_S", (0, 0, 0))
    async with living(tmp_path / "data", settings) as house:
        host = Host(breaks=1)
        await driven(house, host)
        await arrives(house, "<a@customer.example>")
        await until(lambda: len(host.delivered) == 2)
        assert [(one.notices[0].message_id, one.notices[0].repeated) for one in host.delivered] == [
            ("<a@customer.example>", False),
            ("<a@customer.example>", True),
        ]
