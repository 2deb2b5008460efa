"""The mailbox over both engines, and over two nodes on one PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from engines import url_of
from postroom.errors import Conflict, Invalid
from postroom.mailbox.reading import Query
from postroom.mailbox.room import Mailbox, Options
from postroom.mailbox.sending import Letter
from postroom.model.principal import Kind, Principal
from postroom.safety.redact import Redactor
from postroom.store.engine import Store

ALICE, BOB = (Principal(kind=Kind.AGENT, agent_id=f"agt_{name}", name=name) for name in ("alice", "bob"))
OWNER = Principal(kind=Kind.OWNER)


async def agents() -> Sequence[str]:
    return ("alice", "bob")


def room(store: Store, folder: Path, **options: int) -> Mailbox:
    keys = {"key": bytes(32), "signing_key": bytes(range(32))}
    given = Options(domains=("postroom.localhost",), **options)
    return Mailbox(store, given, redactor=Redactor(), folder=folder, directory=agents, **keys)


@pytest.fixture(params=["sqlite", "postgresql"])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Mailbox, Mailbox]]:
    """Two rooms over one log: two nodes where the engine takes several, else the same one twice."""
    with url_of(request.param) as url:
        stores = [await Store.open(tmp_path / name, url=url) for name in (("one", "two") if url else ("one",))]
        rooms = [room(store, tmp_path / name, max_records=20) for store, name in zip(stores, ("one", "two"), strict=False)]
        yield rooms[0], rooms[-1]
        for store in stores:
            await store.close()


async def test_the_whole_life_of_a_message(nodes: tuple[Mailbox, Mailbox]):
    one, two = nodes
    sent = await one.send(ALICE, Letter(to="bob", text="the blue plan 計画", key="k", attachments=[{"content": "aGVsbG8="}]))
    assert (
        await two.send(ALICE, Letter(to="bob", text="the blue plan 計画", key="k", attachments=[{"content": "aGVsbG8="}]))
    ).deduplicated
    with pytest.raises(Conflict):
        await two.send(ALICE, Letter(to="bob", text="other", key="k"))
    reply = await two.send(BOB, Letter(to="alice", text="fine", reply_to=sent.seq))
    assert reply.thread == "#1"
    await one.edit(ALICE, sent.seq, "the red plan")
    await two.react(BOB, sent.seq, "👍")
    (message,) = (await two.read(BOB, Query(reader="", since=0))).messages
    assert (message.text, message.edited_from, message.reactions) == ("the red plan", "the blue plan 計画", (("bob", "👍"),))
    assert (await two.attachment(BOB, message.files[0].file_id))[1] == b"hello"
    assert [m.seq for m in await two.search(BOB, "red")] == [1]
    assert await two.search(BOB, "blue") == []
    await two.acknowledge(BOB, 99)
    await one.withdraw(ALICE, sent.seq)
    assert (await two.read(BOB, Query(reader="", since=0))).messages == ()
    assert (await one.verify()).fault is None


async def test_many_at_once_on_two_nodes_have_numbers_without_gaps_and_one_chain(nodes: tuple[Mailbox, Mailbox]):
    sends = [nodes[n % 2].send(OWNER, Letter(to="bob", text=f"n{n}"), sender="owner") for n in range(60)]
    assert sorted(sent.seq for sent in await asyncio.gather(*sends)) == list(range(1, 61))
    assert (await nodes[0].verify()).fault is None
    await nodes[0].sweep()
    assert (await nodes[1].verify()).fault is None
    batch = await nodes[1].read(BOB, Query(reader="", since=0))
    assert [message.seq for message in batch.messages] == list(range(45, 61))


async def test_a_reader_parked_at_one_node_is_woken_by_a_send_at_the_other(nodes: tuple[Mailbox, Mailbox]):
    parked = asyncio.create_task(nodes[1].wait(BOB, Query(reader=""), 5))
    while nodes[1].bells.count == 0:
        await asyncio.sleep(0)
    await nodes[0].send(ALICE, Letter(to="bob", text="hi"))
    assert [message.text for message in (await parked).messages] == ["hi"]


async def test_who_announced_at_one_node_can_be_written_to_at_the_other(nodes: tuple[Mailbox, Mailbox]):
    await nodes[0].announce(OWNER, name="shell")
    assert (await nodes[1].send(ALICE, Letter(to="shell", text="hi"))).seq == 1
    with pytest.raises(Invalid):
        await nodes[1].send(ALICE, Letter(to="nobody", text="hi"))
