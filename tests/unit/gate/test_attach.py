"""Attachments given by URL: for whom they are fetched, when, and that what was fetched is what is frozen."""

import dataclasses

import pytest

from postroom.config import Config
from postroom.config import Gate as GateConfig
from postroom.errors import Invalid, Refused
from postroom.gate.gate import Gate
from postroom.limits import MAIL_BYTES
from postroom.model.mail import AttachmentData
from postroom.model.outgoing import State
from postroom.model.principal import Kind, Principal
from postroom.safety.redact import Redactor

AGENT = Principal(kind=Kind.AGENT, agent_id="agt_1", name="scout")
LINK = AttachmentData(content=b"", url="https://files.example/report.pdf")


class Files:
    """Answers each URL with what stands there now; notes what was asked for and how far it might reach."""

    def __init__(self) -> None:
        self.holds = {"https://files.example/report.pdf": b"first"}
        self.asked: list[tuple[str | None, bool]] = []
        self.left: list[int] = []
        self.closed = False

    async def fetch(self, entry: AttachmentData, *, most_bytes: int, listed_only: bool = False) -> AttachmentData:
        self.asked.append((entry.url, listed_only))
        self.left.append(most_bytes)
        if entry.url not in self.holds:
            raise Refused("the attachment at files.example could not be fetched: the answer has status 404")
        name = entry.url.rpartition("/")[2]
        return dataclasses.replace(entry, content=self.holds[entry.url], url=None, filename=entry.filename or name)

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def opened(house, files):
    def gate(**settings) -> Gate:
        return Gate(
            house.store,
            house.mail,
            house.sender,
            Config(gate=GateConfig(**settings)),
            clock=house.clock,
            redactor=Redactor([house.own_secret]),
            boundary=lambda principal: ("rule", "unknown"),
            fetch=files,
        )

    return gate


async def test_what_was_fetched_at_submit_is_what_is_approved_and_leaves(opened, house, files, owner, wish):
    gate = opened()
    held = await gate.submit(AGENT, wish(attachments=(LINK,)))
    files.holds[LINK.url] = b"something else by now"
    shown = await gate.show(owner, held.outgoing_id)
    assert shown.attachments == (("report.pdf", 5),)
    await gate.approve(owner, held.outgoing_id, shown.digest)
    (taken,) = house.sender.taken.values()
    assert taken.outbound.attachments == (AttachmentData(content=b"first", filename="report.pdf"),)
    assert b"Zmlyc3Q=" in taken.raw
    assert files.asked == [(LINK.url, False)]


async def test_a_repeated_key_answers_without_fetching_again(opened, files, owner, wish):
    gate = opened()
    first = await gate.submit(owner, wish(attachments=(LINK,)), "key-1")
    files.holds.clear()
    again = await gate.submit(owner, wish(attachments=(LINK,)), "key-1")
    assert (again.outgoing_id, again.repeated) == (first.outgoing_id, True)
    assert len(files.asked) == 1


async def test_nothing_is_fetched_for_a_mail_that_is_refused(opened, files, agent, owner, wish):
    gate = opened(blocked=("ada@customer.example",))
    for caller in (agent, owner):
        refused = await gate.submit(caller, wish(attachments=(LINK,)))
        assert refused.state is State.REFUSED
    assert files.asked == []


async def test_an_address_that_holds_a_secret_is_not_asked_for(opened, house, files, agent, wish):
    link = dataclasses.replace(LINK, url=f"https://files.example/{house.own_secret}")
    refused = await opened().submit(agent, wish(attachments=(link,)))
    assert refused.state is State.REFUSED
    assert "secret" in refused.reasons[0]
    with pytest.raises(Refused, match="holds a secret"):
        await opened().attaching.attach(agent, [link])
    assert files.asked == []


async def test_an_agent_that_read_mail_from_outside_reaches_listed_hosts_only_until_its_owner_looked(opened, files, owner, wish):
    gate = opened()
    await gate._read_log.record(AGENT, ["<hi@customer.example>"])
    await gate.submit(AGENT, wish(attachments=(LINK,)))
    await gate.clear_reading(owner, AGENT.agent_id)
    await gate.submit(AGENT, wish(attachments=(LINK,)))
    assert [listed_only for _, listed_only in files.asked] == [True, False]


async def test_an_observer_and_a_read_only_house_have_nothing_fetched(opened, files, agent):
    observer = dataclasses.replace(agent, profile="observer")
    with pytest.raises(Refused, match="not fetched"):
        await opened().attaching.attach(observer, [LINK])
    with pytest.raises(Refused, match="not fetched"):
        await opened(read_only=True).attaching.attach(agent, [LINK])
    assert files.asked == []


async def test_what_cannot_be_had_refuses_the_send_and_leaves_nothing_behind(opened, house, agent, owner, wish):
    gate = opened()
    missing = dataclasses.replace(LINK, url="https://files.example/gone")
    with pytest.raises(Refused) as problem:
        await gate.submit(agent, wish(attachments=(missing,)))
    assert problem.value.code == "message_rejected"
    assert await house.kinds() == []


async def test_bytes_given_and_bytes_fetched_share_one_limit(opened, files, agent):
    given = AttachmentData(content=b"x" * 1000)
    await opened().attaching.attach(agent, [LINK, given, LINK])
    assert files.left == [MAIL_BYTES - 1000, MAIL_BYTES - 1005]


async def test_a_mail_names_only_so_many_addresses(opened, files, agent):
    with pytest.raises(Invalid, match="at most 20"):
        await opened().attaching.attach(agent, [LINK] * 21)
    assert files.asked == []


async def test_a_name_from_an_address_is_a_name_and_no_path(opened, files, agent):
    odd = "https://files.example/x"
    files.holds[odd] = b"1"
    (got,) = await opened().attaching.attach(agent, [dataclasses.replace(LINK, url=odd, filename="../../etc\r\n/passwd")])
    assert got.filename == "passwd"


async def test_without_a_way_out_addresses_are_refused(house, agent, wish):
    with pytest.raises(Refused, match="not fetched here"):
        await house.submit(agent, attachments=(LINK,))


async def test_closing_the_gate_closes_the_way_out(opened, files):
    await opened().close()
    assert files.closed
