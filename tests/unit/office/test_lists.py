from __future__ import annotations

import dataclasses

import pytest

from postroom.config import Config, Gate
from postroom.errors import Conflict, Forbidden, Invalid, NotFound
from postroom.model.paging import MailFilter, PageRequest
from postroom.office.mail import OfficeMail
from postroom.office.office import Office
from postroom.office.receiving import allows

from .conftest import ALL, FIRST, OWNER, House, agent, letter
from .outgoing import ADA, FakeRelay, frozen

BLOCKED = MailFilter(include=frozenset({"blocked"}))


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], True),
        ([(0, "block", "bob@example.com")], False),
        ([(0, "block", "example.com")], False),
        ([(0, "block", "other.example")], True),
        ([(0, "allow", "other.example")], False),
        ([(0, "allow", "example.com")], True),
        ([(0, "block", "example.com"), (0, "allow", "bob@example.com")], True),
        ([(0, "allow", "bob@example.com"), (7, "block", "example.com")], False),
        ([(0, "block", "bob@example.com"), (7, "allow", "example.com")], True),
    ],
)
def test_the_most_specific_entry_wins_and_one_allow_entry_denies_the_rest(
    entries: list[tuple[int, str, str]], *, allowed: bool
) -> None:
    assert allows(entries, "Bob@example.com") is allowed


async def test_entries_are_kept_in_one_form_listed_in_order_and_deleted(house: House) -> None:
    await house.inbox()
    for entry in ("Zed@Example.com", "example.org", "adam@example.com"):
        await house.mail.create_entry(OWNER, ADA, "send", "allow", entry)
    again = await house.mail.create_entry(OWNER, ADA, "send", "allow", "zed@example.com", reason="ignored")
    assert (again.entry, again.entry_type, again.reason, again.inbox_id) == ("zed@example.com", "email", None, ADA)
    token, seen = None, []
    while True:
        page = await house.mail.list_entries(OWNER, ADA, "send", "allow", PageRequest(limit=2, page_token=token))
        seen += [entry.entry for entry in page.items]
        if (token := page.next_page_token) is None:
            break
    assert seen == ["adam@example.com", "example.org", "zed@example.com"]
    assert await house.mail.send_list(OWNER, ADA, "allow") == tuple(seen)
    await house.mail.delete_entry(OWNER, ADA, "send", "allow", "ZED@example.com")
    with pytest.raises(NotFound):
        await house.mail.get_entry(OWNER, ADA, "send", "allow", "zed@example.com")


async def test_the_opposite_list_a_bad_entry_and_an_agent_are_refused(house: House) -> None:
    await house.inbox()
    await house.mail.create_entry(OWNER, None, "receive", "block", "spam.example")
    with pytest.raises(Conflict):
        await house.mail.create_entry(OWNER, None, "receive", "allow", "spam.example")
    with pytest.raises(Invalid):
        await house.mail.create_entry(OWNER, None, "receive", "allow", "two words")
    with pytest.raises(Forbidden):
        await house.mail.create_entry(agent(1), ADA, "receive", "allow", "x.example")
    with pytest.raises(Forbidden):
        await house.mail.list_entries(agent(1), None, "send", "allow", FIRST)


async def test_entries_of_the_config_are_shown_and_cannot_be_deleted(house: House) -> None:
    config = dataclasses.replace(Config(), gate=Gate(limit=("Example.com",), blocked=("bad.example",)))
    mail = OfficeMail(house.store, config)
    (entry,) = (await mail.list_entries(OWNER, None, "send", "allow", FIRST)).items
    assert (entry.entry, entry.read_only) == ("example.com", True)
    with pytest.raises(Conflict) as refused:
        await mail.delete_entry(OWNER, None, "send", "block", "bad.example")
    assert refused.value.code == "cannot_delete"


async def test_blocked_mail_is_kept_hidden_and_has_its_own_event(house: House) -> None:
    await house.inbox()
    await house.mail.create_entry(OWNER, None, "receive", "block", "bob@example.com")
    await house.arrive(letter())
    assert (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items == ()
    (row,) = (await house.mail.list_messages(OWNER, ADA, BLOCKED, FIRST)).items
    assert row.labels == ("blocked", "received", "unread")
    assert await house.events() == [("message.received.blocked", "<one@example.com>")]


async def test_an_answer_to_our_mail_is_judged_by_the_reply_list_only(house: House) -> None:
    await house.inbox()
    office = await Office.open(house.store, house.config, FakeRelay())
    await house.mail.create_entry(OWNER, ADA, "receive", "allow", "friends.example")
    sent = await office.sender.send(frozen("bob@example.com"))
    answer = [f"In-Reply-To: {sent.message_id}"]
    await house.arrive(letter(message_id="<answer@example.com>", extra=answer))
    await house.arrive(letter(message_id="<fresh@example.com>"))
    assert (await house.mail.get_message(OWNER, ADA, "<answer@example.com>")).labels == ("received", "unread")
    assert (await house.mail.get_message(OWNER, ADA, "<fresh@example.com>")).labels == ("blocked", "received", "unread")
    await house.mail.create_entry(OWNER, ADA, "reply", "block", "bob@example.com")
    await house.arrive(letter(message_id="<later@example.com>", extra=answer))
    assert "blocked" in (await house.mail.get_message(OWNER, ADA, "<later@example.com>")).labels
