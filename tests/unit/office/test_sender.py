from __future__ import annotations

import asyncio

import pytest

from pace import PATIENCE_S
from postroom.model.mail import DraftFields
from postroom.model.paging import MailFilter
from postroom.office.office import Office

from .conftest import ALL, FIRST, OWNER, House, agent, letter
from .outgoing import ADA, FakeRelay, frozen

EVE = "eve@postroom.localhost"


@pytest.fixture
async def office(house: House) -> Office:
    await house.inbox("ada", "agt_1")
    await house.inbox("eve", "agt_2")
    return await Office.open(house.store, house.config, FakeRelay())


async def test_local_mail_is_one_commit_of_message_event_and_queue(house: House, office: Office) -> None:
    accepted = await office.sender.send(frozen(EVE))
    assert accepted.message_id == "<out_1@postroom.localhost>"
    assert accepted.binds == "bytes"

    sent = await house.mail.get_message(agent(1), ADA, accepted.message_id)
    assert (sent.thread_id, sent.labels) == (accepted.thread_id, ("delivered", "project", "sent"))
    assert (sent.from_, sent.to, sent.subject, sent.text) == (f"Ada <{ADA}>", (EVE,), "Offer", "Dear reader")
    assert await house.events() == [
        ("message.sent", accepted.message_id),
        ("message.delivered", accepted.message_id),
        ("outbox.sent", "out_1"),
    ]
    await house.settle()
    got = await house.mail.get_message(agent(2), EVE, accepted.message_id)
    assert got.labels == ("received", "unread")
    assert (await house.mail.get_raw(agent(2), EVE, accepted.message_id)).content == frozen(EVE).raw


async def test_sending_the_same_outgoing_id_twice_changes_nothing(house: House, office: Office) -> None:
    first = await office.sender.send(frozen(EVE, "bob@example.com"))
    again = await asyncio.gather(*(office.sender.send(frozen(EVE, "bob@example.com")) for _ in range(3)))
    assert again == [first, first, first]
    assert len(await house.events("message.sent")) == 1
    await house.settle()
    assert len((await house.mail.list_messages(OWNER, EVE, ALL, FIRST)).items) == 1


async def test_a_reply_joins_the_thread_and_its_answer_comes_back_into_it(house: House, office: Office) -> None:
    await house.arrive(letter())
    source = await house.mail.get_message(OWNER, ADA, "<one@example.com>")
    accepted = await office.sender.send(
        frozen("bob@example.com", thread_id=source.thread_id, in_reply_to=source.message_id, references=(source.message_id,))
    )
    assert accepted.thread_id == source.thread_id
    await house.arrive(letter(message_id="<back@example.com>", extra=[f"In-Reply-To: {accepted.message_id}"]))
    (thread,) = (await house.mail.list_threads(OWNER, ADA, ALL, FIRST)).items
    assert (thread.message_count, thread.thread_id) == (3, source.thread_id)


async def test_an_unanswered_outbound_thread_is_listed_by_its_labels_only(house: House, office: Office) -> None:
    accepted = await office.sender.send(frozen("bob@example.com"))
    assert (await house.mail.list_threads(OWNER, ADA, ALL, FIRST)).items == ()
    for label in ("sent", "project"):
        (thread,) = (await house.mail.list_threads(OWNER, ADA, MailFilter(labels=(label,)), FIRST)).items
        assert thread.thread_id == accepted.thread_id
    (row,) = (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items
    assert row.message_id == accepted.message_id


async def test_bcc_is_kept_on_the_sent_copy_and_reaches_its_inbox_unseen(house: House, office: Office) -> None:
    accepted = await office.sender.send(frozen("bob@example.com", bcc=(EVE,)))
    assert (await house.mail.get_message(OWNER, ADA, accepted.message_id)).bcc == (EVE,)
    await house.settle()
    got = await house.mail.get_message(OWNER, EVE, accepted.message_id)
    assert (got.to, got.bcc) == (("bob@example.com",), ())


async def test_mail_to_oneself_is_a_sent_and_a_received_message(house: House, office: Office) -> None:
    await office.sender.send(frozen(ADA))
    await house.settle()
    received, sent = (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items
    assert (received.labels, sent.labels) == (("received", "unread"), ("delivered", "project", "sent"))
    assert received.findings == ()


async def test_a_local_address_without_an_inbox_fails_alone(house: House, office: Office) -> None:
    await office.sender.send(frozen(EVE, "nobody@postroom.localhost"))
    await office.sender.send(frozen("nobody@postroom.localhost", outgoing_id="out_2"))
    sent, failed = await house.store.events.after(0, kinds=["outbox.sent", "outbox.failed"])
    reason = {"nobody@postroom.localhost": "no inbox of this office has that address"}
    assert (sent.kind, sent.snapshot["recipients"], sent.snapshot["failed"]) == ("outbox.sent", [EVE], reason)
    assert (failed.kind, failed.ref, failed.snapshot["failed"]) == ("outbox.failed", "out_2", reason)


async def test_what_can_be_reached(house: House, office: Office) -> None:
    assert office.sender.can_reach("Eve@Postroom.Localhost") is None
    assert office.sender.can_reach("bob@example.com") is None
    assert office.sender.can_reach("nobody@postroom.localhost") == "no inbox of this office has that address"
    closed = await Office.open(house.store, house.config, None)
    reason = closed.sender.can_reach("bob@example.com")
    assert reason is not None
    assert "[relay]" in reason


async def test_sending_a_draft_deletes_it_in_the_same_commit(house: House, office: Office) -> None:
    draft = await house.mail.create_draft(agent(1), ADA, DraftFields(to=(EVE,), text="x"))
    await office.sender.send(frozen(EVE, draft_id=draft.draft_id))
    assert (await house.mail.list_drafts(OWNER, ADA, ALL, FIRST)).items == ()


@pytest.mark.parametrize("worker", ["ingest", "outbox"])
async def test_told_to_stop_in_the_moment_it_is_woken_it_stops(office: Office, worker: str) -> None:
    working = getattr(office, worker)
    running = asyncio.create_task(working.run())
    while not (waiting := working._wake._waiters) and not running.done():
        await asyncio.sleep(0.001)  # until it waits
    assert waiting
    working.wake()
    running.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_the_office_runs_by_itself_and_stops_cleanly(house: House, office: Office) -> None:
    running = asyncio.create_task(office.run())
    seq = house.store.events.last_seq()
    await office.sender.send(frozen(EVE, "bob@example.com"))
    kinds: set[str] = set()
    async with asyncio.timeout(PATIENCE_S):
        while not {"message.received", "outbox.sent"} <= kinds:
            await house.store.events.wait(seq, PATIENCE_S)
            seq = house.store.events.last_seq()
            kinds = {kind for kind, _ in await house.events()}
    running.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await running
