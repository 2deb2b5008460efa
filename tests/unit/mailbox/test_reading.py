"""Cursors, filters, waits and search. Names B… are the reference's behaviours."""

import asyncio

import pytest

from postroom.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge
from postroom.limits import MAILBOX_TEXT_BYTES
from postroom.mailbox.reading import Query
from postroom.mailbox.room import check_limit

from .conftest import ALICE, BOB, CAROL, OWNER, Box


async def test_b20_reading_never_consumes_and_begins_after_what_was_acknowledged(box: Box):
    await box.send("one")
    await box.send("two")
    assert await box.texts() == await box.texts() == ["one", "two"]
    await box.room.acknowledge(BOB, 1)
    assert await box.texts() == ["two"]
    assert await box.texts(since=0) == ["one", "two"]


async def test_b20_direct_and_broadcast_are_seen_and_other_peoples_mail_is_not(box: Box):
    await box.send("to bob")
    await box.send("to all", to="*", by=CAROL)
    await box.send("to carol", to="carol")
    assert await box.texts() == ["to bob", "to all"]


async def test_b21_paging_loses_nothing_and_ends_at_the_log_s_end(box: Box):
    for number in range(10):
        await box.send(f"n{number}")
        await box.send("elsewhere", to="carol")
    pages, since = [], 0
    while True:
        batch = await box.read(since=since, limit=4)
        pages.append([message.text for message in batch.messages])
        since = batch.cursor
        if not batch.more:
            break
    assert [len(page) for page in pages] == [4, 4, 2]
    assert [text for page in pages for text in page] == [f"n{number}" for number in range(10)]
    assert since == 20


@pytest.mark.parametrize("limit", [0, -1, 501, "abc", 2.5, True, None])
async def test_b22_a_junk_limit_is_an_error_never_a_wrong_page(limit: object):
    with pytest.raises(Invalid):
        check_limit(limit, 500)


async def test_b8_a_filter_is_read_like_a_name(box: Box):
    await box.send("hi")
    for same in ("alice", " alice ", "alice@postroom.localhost"):
        assert await box.texts(sender=same, since=0) == ["hi"]


async def test_b23_an_edit_after_the_cursor_is_reported(box: Box):
    sent = await box.send("draft")
    cursor = (await box.read()).cursor
    await box.room.edit(ALICE, sent.seq, "final")
    (message,) = (await box.read(since=cursor)).messages
    assert (message.seq, message.text, message.edited_from, message.change.kind) == (1, "final", "draft", "edit")
    assert [message.text for message in (await box.read(since=0)).messages] == ["final"]


async def test_b23_a_withdrawal_and_a_reaction_after_the_cursor_are_reported(box: Box):
    first, second = await box.send("gone soon"), await box.send("good")
    cursor = (await box.read()).cursor
    await box.room.withdraw(ALICE, first.seq)
    await box.room.react(BOB, second.seq, "👍")
    (withdrawn,) = (await box.read(since=cursor)).messages
    assert (withdrawn.seq, withdrawn.text, withdrawn.change.kind) == (1, "", "withdraw")
    (reacted,) = (await box.read(by=ALICE, since=cursor)).messages
    assert (reacted.seq, reacted.reactions, reacted.change.by) == (2, (("bob", "👍"),), "bob")


async def test_b24_ones_own_broadcast_comes_back_only_when_asked_for(box: Box):
    await box.send("to all", to="*")
    assert await box.texts(by=ALICE) == []
    assert await box.texts(by=ALICE, sent=True) == ["to all"]


async def test_b25_a_wait_answers_at_once_with_what_is_there(box: Box):
    await box.send("hi")
    batch = await box.room.wait(BOB, Query(reader="", since=0), 60)
    assert [message.text for message in batch.messages] == ["hi"]


async def test_b25_a_parked_wait_is_woken_by_its_own_mail_only(box: Box):
    parked = asyncio.create_task(box.room.wait(BOB, Query(reader=""), 60))
    other = asyncio.create_task(box.room.wait(CAROL, Query(reader=""), 0.2))
    await asyncio.sleep(0)
    await box.send("hi")
    assert [message.text for message in (await parked).messages] == ["hi"]
    silent = await other
    assert (silent.messages, silent.waited) == ((), True)
    assert silent.cursor in (0, 1)  # rung or not, it was looked at: nothing up to there is hers


async def test_b24_b25_ones_own_broadcast_does_not_wake_ones_own_wait(box: Box):
    parked = asyncio.create_task(box.room.wait(ALICE, Query(reader=""), 0.2))
    await asyncio.sleep(0)
    await box.send("to all", to="*")
    assert (await parked).waited


async def test_b25_a_wait_with_a_filter_stays_parked_until_it_matches(box: Box):
    parked = asyncio.create_task(box.room.wait(BOB, Query(reader="", priority="high"), 60))
    await asyncio.sleep(0)
    await box.send("low")
    await box.send("urgent", priority="high")
    assert [message.text for message in (await parked).messages] == ["urgent"]


async def test_a_thousand_parked_readers_are_woken_by_one_broadcast(box: Box):
    parked = [asyncio.create_task(box.room.wait(OWNER, Query(reader=f"r{n}"), 60, by_cursor=True)) for n in range(1000)]
    while box.room.bells.count < 1000:
        await asyncio.sleep(0)
    await box.send("all", to="*")
    assert {len((await one).messages) for one in parked} == {1}
    assert box.room.bells.count == 0


async def test_b26_search_finds_by_words_newest_first_and_never_what_was_withdrawn(box: Box):
    for number in range(60):
        await box.send(f"plan number {number}")
    await box.room.withdraw(ALICE, 60)
    found = await box.room.search(BOB, "PLAN", limit=50)
    assert [message.seq for message in found] == list(range(59, 9, -1))
    assert await box.room.search(BOB, "nowhere") == []
    assert await box.room.search(BOB, "  ") == []
    assert [m.seq for m in await box.room.search(BOB, '"number 7"')] == [8]


async def test_b26_search_sees_what_the_caller_may_see_and_the_present_text(box: Box):
    await box.send("the blue plan")
    await box.send("the blue sky", to="*")
    assert [message.seq for message in await box.room.search(CAROL, "blue")] == [2]
    assert [message.seq for message in await box.room.search(ALICE, "blue")] == [2, 1]
    assert [message.seq for message in await box.room.search(OWNER, "blue")] == [2, 1]
    await box.room.edit(ALICE, 1, "the red plan")
    assert [message.seq for message in await box.room.search(BOB, "blue")] == [2]
    assert [message.seq for message in await box.room.search(BOB, "red")] == [1]


async def test_b26_search_finds_cjk_and_survives_odd_queries(box: Box):
    await box.send("会議は明日です — café")
    assert [message.seq for message in await box.room.search(BOB, "明日")] == [1]
    assert [message.seq for message in await box.room.search(BOB, "cafe")] == [1]
    for query in ('"', "*", "a AND", "NEAR(", 'scope:"x"', "\ue000abc", "-x", "()"):
        await box.room.search(BOB, query)


async def test_b27_only_the_author_edits_and_the_original_is_kept(box: Box):
    sent = await box.send("one")
    with pytest.raises(Forbidden):
        await box.room.edit(BOB, sent.seq, "forged")
    await box.room.edit(ALICE, sent.seq, "two")
    await box.room.edit(ALICE, sent.seq, "three")
    (message,) = (await box.read()).messages
    assert (message.text, message.edited_from) == ("three", "one")
    with pytest.raises(Invalid):
        await box.room.edit(ALICE, sent.seq, " ")
    with pytest.raises(TooLarge):
        await box.room.edit(ALICE, sent.seq, "x" * (MAILBOX_TEXT_BYTES + 1))


async def test_b27_b28_what_was_withdrawn_is_gone_once_and_for_all(box: Box):
    sent = await box.send("oops")
    await box.room.withdraw(ALICE, sent.seq)
    assert await box.texts(since=0) == []
    for again in (box.room.withdraw(ALICE, sent.seq), box.room.edit(ALICE, sent.seq, "x"), box.room.react(BOB, sent.seq, "x")):
        with pytest.raises(Conflict, match="withdrawn"):
            await again


async def test_b28_b29_what_is_not_the_callers_to_see_does_not_exist(box: Box):
    sent = await box.send("between us")
    for attempt in (
        box.room.withdraw(CAROL, sent.seq),
        box.room.react(CAROL, sent.seq, "👀"),
        box.room.edit(CAROL, sent.seq, "x"),
        box.room.message(CAROL, sent.seq),
        box.room.withdraw(CAROL, 99),
    ):
        with pytest.raises(NotFound, match="no such message"):
            await attempt


async def test_b29_a_reaction_is_there_once_and_can_be_taken_back(box: Box):
    sent = await box.send("good")
    await box.room.react(BOB, sent.seq, "👍")
    assert (await box.room.react(BOB, sent.seq, "👍")).deduplicated
    assert (await box.room.message(BOB, sent.seq))[0].reactions == (("bob", "👍"),)
    await box.room.react(BOB, sent.seq, "👍", remove=True)
    assert (await box.room.message(BOB, sent.seq))[0].reactions == ()
    for odd in ("\x1b[2J", "", "x" * 33):
        with pytest.raises(Invalid):
            await box.room.react(BOB, sent.seq, odd)


async def test_b31_an_acknowledgement_is_clamped_to_the_end_and_never_goes_back(box: Box):
    await box.send("one")
    assert (await box.room.acknowledge(BOB, 10**9)).seq == 1
    await box.send("two")
    assert await box.texts() == ["two"]
    assert (await box.room.acknowledge(BOB, 0)).seq == 1
    for odd in (-1, "1", 1.5, None, True):
        with pytest.raises(Invalid):
            await box.room.acknowledge(BOB, odd)


async def test_b32_b33_peers_lists_who_is_here_how_live_and_how_much_is_unread(box: Box):
    await box.send("one")
    await box.send("all", to="*", by=CAROL)
    await box.room.announce(OWNER, name="shell", role="a person")
    peers = {peer.name: peer for peer in await box.room.peers(ALICE)}
    assert (peers["bob"].unread, peers["alice"].unread, peers["carol"].unread) == (2, 1, 0)
    assert (peers["shell"].role, peers["shell"].is_agent, peers["bob"].is_agent) == ("a person", False, True)
    assert (peers["alice"].live, peers["watcher"].live) == (True, False)


async def test_b33_a_long_name_of_wide_letters_is_a_peer_like_any_other(box: Box):
    name = "日" * 60
    await box.room.announce(OWNER, name=name)
    assert name in {peer.name for peer in await box.room.peers(ALICE)}


@pytest.mark.parametrize(("seconds", "live"), [(89, True), (91, False)])
async def test_b33_a_peer_is_live_for_ninety_seconds_after_any_call(box: Box, seconds: int, live: bool):
    await box.read()
    box.clock.advance(seconds)
    assert {peer.name: peer.live for peer in await box.room.peers(ALICE)}["bob"] is live


async def test_b33_who_was_silent_for_a_month_is_forgotten_and_agents_are_not(box: Box):
    await box.room.announce(OWNER, name="shell")
    await box.read()
    box.clock.advance(31 * 86_400)
    await box.room.roster.prune()
    assert "shell" not in set(box.room.roster.names())
    assert "bob" in set(box.room.roster.names())


async def test_a_receipt_says_only_what_is_true(box: Box):
    sent = await box.send("hi")

    async def state() -> str:
        return (await box.room.message(ALICE, sent.seq))[1]["state"]

    assert await state() == "stored"
    box.room.roster.enter("bob")
    box.room.roster.notified("bob", sent.seq)
    assert await state() == "notified"
    await box.read(sender="carol", since=0)  # a filtered reading may have passed it over
    await box.read(since=1)  # so may one from a later cursor
    assert await state() == "notified"
    await box.read(since=0)
    assert await state() == "fetched"
    await box.room.acknowledge(BOB, sent.seq)
    assert await state() == "acknowledged"


async def test_receipts_of_a_broadcast_count_its_readers(box: Box):
    sent = await box.send("all", to="*")
    await box.read()
    await box.read(by=CAROL)
    await box.room.acknowledge(CAROL, sent.seq)
    assert (await box.room.message(ALICE, sent.seq))[1] == {"state": "stored", "notified": 0, "fetched": 1, "acknowledged": 1}


async def test_cursors_and_receipts_survive_a_restart(box: Box):
    await box.send("one")
    await box.read()
    await box.room.acknowledge(BOB, 1)
    await box.room.close()
    box.room = box.again()
    assert (await box.room.message(ALICE, 1))[1] == {"state": "acknowledged"}
    assert await box.texts() == []


async def test_the_newest_page_and_its_cursor(box: Box):
    for number in range(30):
        await box.send(f"n{number}")
    batch = await box.read(newest=True, limit=3, since=0)
    assert ([message.text for message in batch.messages], batch.cursor) == (["n27", "n28", "n29"], 30)
    await box.send("n30")
    assert await box.texts(since=batch.cursor) == ["n30"]


async def test_a_page_ends_before_it_grows_too_large_and_nothing_is_lost(box: Box):
    for _ in range(5):
        await box.send("x" * 1000)
    batch = await box.read(since=0, most_bytes=2500)
    assert (len(batch.messages), batch.more) == (2, True)
    assert len((await box.read(since=batch.cursor)).messages) == 3
