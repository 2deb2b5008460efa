from __future__ import annotations

import pytest

from postroom.errors import Forbidden, Invalid, NotFound
from postroom.model.mail import DraftFields, NewInbox
from postroom.model.paging import MailFilter, PageRequest

from .conftest import ALL, FIRST, OWNER, START, House, agent, letter

ADA = "ada@postroom.localhost"


async def fill(house: House, count: int) -> None:
    await house.inbox()
    for number in range(count):
        await house.arrive(letter(f"Subject {number}", message_id=f"<m{number}@example.com>"))


async def walk(house: House, filter: MailFilter, *, limit: int, ascending: bool = False) -> list[str]:
    token, seen = None, []
    while True:
        page = await house.mail.list_messages(OWNER, ADA, filter, PageRequest(limit=limit, page_token=token, ascending=ascending))
        seen += [row.message_id[1:-1].partition("@")[0] for row in page.items]
        if (token := page.next_page_token) is None:
            return seen


async def test_a_walk_over_all_pages_meets_each_message_once_in_order(house: House) -> None:
    await fill(house, 11)
    newest_first = [f"m{number}" for number in reversed(range(11))]
    for limit in (1, 4, 11, 100):
        assert await walk(house, ALL, limit=limit) == newest_first
        assert await walk(house, ALL, limit=limit, ascending=True) == newest_first[::-1]
        assert await walk(house, MailFilter(labels=("unread",)), limit=limit) == newest_first


async def test_a_token_is_bound_to_its_filter(house: House) -> None:
    await fill(house, 3)
    token = (await house.mail.list_messages(OWNER, ADA, ALL, PageRequest(limit=1))).next_page_token
    assert token is not None
    for wrong in (token[:-2], "junk", "", token + "AAAA", "e30"):
        with pytest.raises(Invalid):
            await house.mail.list_messages(OWNER, ADA, ALL, PageRequest(limit=1, page_token=wrong))
    with pytest.raises(Invalid):
        await house.mail.list_messages(OWNER, ADA, MailFilter(labels=("unread",)), PageRequest(limit=1, page_token=token))
    with pytest.raises(Invalid):
        await house.mail.list_threads(OWNER, ADA, ALL, PageRequest(limit=1, page_token=token))


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_limit_out_of_range_is_invalid(house: House, limit: int) -> None:
    await house.inbox()
    with pytest.raises(Invalid):
        await house.mail.list_messages(OWNER, ADA, ALL, PageRequest(limit=limit))
    with pytest.raises(Invalid):
        await house.mail.list_messages(OWNER, ADA, MailFilter(senders=("x",)), PageRequest(limit=101))


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (MailFilter(senders=("BOB",)), ["m1", "m0"]),
        (MailFilter(senders=("bob", "carol")), []),
        (MailFilter(subject=("ÜBERS",)), ["m1"]),
        (MailFilter(subject=("100%",)), ["m2"]),
        (MailFilter(subject=("a_b",)), ["m0"]),
        (MailFilter(recipients=("dave@",)), ["m2"]),
        (MailFilter(labels=("received", "unread")), ["m2", "m1", "m0"]),
        (MailFilter(labels=("received", "sent")), []),
        (MailFilter(after=START + 10**12), []),
        (MailFilter(before=START), []),
        (MailFilter(after=START, before=START + 10**12, senders=("bob",), subject=("ü",), labels=("unread",)), ["m1"]),
    ],
)
async def test_filters_are_case_blind_substrings_that_must_all_match(
    house: House, filter: MailFilter, expected: list[str]
) -> None:
    await house.inbox()
    await house.arrive(letter("a_b", message_id="<m0@example.com>"))
    await house.arrive(letter("=?utf-8?q?Die_=C3=9Cbersicht?=", message_id="<m1@example.com>"))
    carol = letter("100% done", message_id="<m2@example.com>", sender="carol@example.com", extra=["Cc: Dave <dave@example.com>"])
    await house.arrive(carol)
    assert await walk(house, filter, limit=2) == expected


async def test_threads_page_by_their_newest_received_message(house: House) -> None:
    await fill(house, 5)
    await house.arrive(letter(message_id="<again@example.com>", extra=["In-Reply-To: <m1@example.com>"]))
    token, subjects = None, []
    while True:
        page = await house.mail.list_threads(OWNER, None, ALL, PageRequest(limit=2, page_token=token))
        subjects += [thread.subject for thread in page.items]
        if (token := page.next_page_token) is None:
            break
    assert subjects == ["Subject 1", "Subject 4", "Subject 3", "Subject 2", "Subject 0"]


async def test_an_agent_sees_its_own_inboxes_and_no_others(house: House) -> None:
    await house.inbox("ada", "agt_1")
    await house.inbox("eve", "agt_2")
    await house.arrive(letter(), ADA, "eve@postroom.localhost")
    theirs = await house.mail.get_message(OWNER, "eve@postroom.localhost", "<one@example.com>")

    assert [inbox.inbox_id for inbox in (await house.mail.list_inboxes(agent(1), FIRST)).items] == [ADA]
    assert [thread.inbox_id for thread in (await house.mail.list_threads(agent(1), None, ALL, FIRST)).items] == [ADA]
    assert (await house.mail.list_threads(agent(3), None, ALL, FIRST)).items == ()
    eve = "eve@postroom.localhost"
    for refused in (
        house.mail.get_inbox(agent(1), eve),
        house.mail.list_messages(agent(1), eve, ALL, FIRST),
        house.mail.get_message(agent(1), eve, "<one@example.com>"),
        house.mail.get_raw(agent(1), eve, "<one@example.com>"),
        house.mail.update_message(agent(1), eve, "<one@example.com>", ["x"], []),
        house.mail.get_thread(agent(1), None, theirs.thread_id),
        house.mail.update_thread(agent(1), ADA, theirs.thread_id, ["x"], []),
        house.mail.list_threads(agent(1), eve, ALL, FIRST),
        house.mail.search_threads(agent(1), eve, "hello", FIRST, ALL),
        house.mail.list_drafts(agent(1), eve, ALL, FIRST),
        house.mail.get_inbox(OWNER, "nobody@postroom.localhost"),
    ):
        with pytest.raises(NotFound):
            await refused
    assert (await house.mail.search_threads(agent(1), None, "hello", FIRST, ALL)).items[0].inbox_id == ADA


async def test_creating_inboxes_is_the_owners_and_idempotent_by_client_id(house: House) -> None:
    with pytest.raises(Forbidden):
        await house.mail.create_inbox(agent(1), NewInbox(username="x"))
    first = await house.mail.create_inbox(OWNER, NewInbox(username="Sales", client_id="c-1", display_name="Sales team"))
    again = await house.mail.create_inbox(OWNER, NewInbox(username="other", client_id="c-1"))
    assert first == again
    assert first.inbox_id == "sales@postroom.localhost"
    unnamed = await house.mail.create_inbox(OWNER, NewInbox())
    assert unnamed.inbox_id.endswith("@postroom.localhost")


async def test_a_taken_address_and_a_foreign_domain_are_forbidden_with_their_codes(house: House) -> None:
    await house.inbox()
    with pytest.raises(Forbidden) as taken:
        await house.mail.create_inbox(OWNER, NewInbox(username="ADA"))
    assert taken.value.code == "already_exists"
    assert taken.value.details["suggestions"] == [f"ada{number}@postroom.localhost" for number in (2, 3, 4)]
    with pytest.raises(Forbidden) as foreign:
        await house.mail.create_inbox(OWNER, NewInbox(domain="example.com"))
    assert foreign.value.code == "domain_not_verified"


@pytest.mark.parametrize(
    "new",
    [
        NewInbox(username="has space"),
        NewInbox(username="two..dots"),
        NewInbox(username=".dot"),
        NewInbox(username="x" * 65),
        NewInbox(username="a@b"),
        NewInbox(display_name="Bob <x>"),
        NewInbox(client_id="a@b"),
        NewInbox(metadata={"k": "v" * 257}),
    ],
)
async def test_names_that_cannot_be_are_invalid(house: House, new: NewInbox) -> None:
    with pytest.raises(Invalid):
        await house.mail.create_inbox(OWNER, new)


async def test_inbox_changes_merge_metadata_and_null_clears(house: House) -> None:
    await house.mail.create_inbox(OWNER, NewInbox(username="ada", metadata={"a": 1, "b": "x"}))
    changed = await house.mail.update_inbox(OWNER, ADA, {"metadata": {"a": None, "c": True}, "display_name": "Ada"})
    assert (changed.metadata, changed.display_name) == ({"b": "x", "c": True}, "Ada")
    assert (await house.mail.update_inbox(OWNER, ADA, {"metadata": None})).metadata == {}
    with pytest.raises(Invalid):
        await house.mail.update_inbox(OWNER, ADA, {})


async def test_inboxes_are_found_by_the_start_of_a_word(house: House) -> None:
    await house.mail.create_inbox(OWNER, NewInbox(username="support-eu", display_name="Help Desk"))
    await house.inbox("ada")
    assert [row.inbox_id for row in (await house.mail.search_inboxes(OWNER, "des", FIRST)).items] == [
        "support-eu@postroom.localhost"
    ]
    assert (await house.mail.search_inboxes(OWNER, "esk", FIRST)).items == ()


async def test_system_labels_are_refused(house: House) -> None:
    await fill(house, 1)
    for add, remove in ((["sent"], []), ([], ["received"]), (["spam"], [])):
        with pytest.raises(Invalid, match="system label"):
            await house.mail.update_message(OWNER, ADA, "<m0@example.com>", add, remove)
    with pytest.raises(Invalid):
        await house.mail.update_message(OWNER, ADA, "<m0@example.com>", [], [])


async def test_a_batch_changes_all_or_none(house: House) -> None:
    await fill(house, 2)
    with pytest.raises(NotFound):
        await house.mail.batch_update_messages(OWNER, ADA, ["<m0@example.com>", "<none@example.com>"], ["x"], [])
    assert (await house.mail.get_message(OWNER, ADA, "<m0@example.com>")).labels == ("received", "unread")
    changed = await house.mail.batch_update_messages(OWNER, ADA, ["<m1@example.com>", "<m0@example.com>"], ["x"], ["unread"])
    assert changed == {"<m1@example.com>": ("received", "x"), "<m0@example.com>": ("received", "x")}
    got = await house.mail.batch_get_messages(OWNER, ADA, ["<m1@example.com>", "<none@example.com>", "<m0@example.com>"])
    assert [(row.message_id, row.text) for row in got] == [("<m1@example.com>", None), ("<m0@example.com>", None)]


async def test_attachments_are_read_out_of_the_raw_mail(house: House) -> None:
    await house.inbox()
    body = (
        '--x\nContent-Type: text/plain\n\nsee attached\n--x\nContent-Type: application/pdf; name="a.pdf"\n'
        "Content-Disposition: attachment\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n--x--"
    )
    await house.arrive(letter(text=body, extra=["MIME-Version: 1.0", "Content-Type: multipart/mixed; boundary=x"]))
    (row,) = (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items
    (entry,) = row.attachments
    assert (entry.filename, entry.size, entry.content_type) == ("a.pdf", 5, "application/pdf")
    _, blob = await house.mail.get_attachment(OWNER, ADA, row.message_id, entry.attachment_id)
    assert blob.content == b"hello"
    with pytest.raises(NotFound):
        await house.mail.get_attachment(OWNER, ADA, row.message_id, "00000000-0000-4000-8000-000000000000")
    (thread,) = (await house.mail.list_threads(OWNER, ADA, ALL, FIRST)).items
    assert [item.filename for item in thread.attachments] == ["a.pdf"]


async def test_search_finds_threads_once_newest_first_and_not_in_the_trash(house: House) -> None:
    await house.inbox()
    for number in range(5):
        await house.arrive(letter(f"Invoice {number}", "the quarterly numbers", message_id=f"<m{number}@example.com>"))
    await house.arrive(
        letter("Re: Invoice 1", "numbers again", message_id="<r@example.com>", extra=["In-Reply-To: <m1@example.com>"])
    )
    await house.mail.update_message(OWNER, ADA, "<m3@example.com>", ["trash"], [])
    token, found = None, []
    while True:
        page = await house.mail.search_threads(OWNER, ADA, "numbers", PageRequest(limit=2, page_token=token), ALL)
        found += [thread.subject for thread in page.items]
        if (token := page.next_page_token) is None:
            break
    assert found == ["Invoice 1", "Invoice 4", "Invoice 2", "Invoice 0"]
    (first, *_) = (await house.mail.search_messages(OWNER, ADA, "numbers", PageRequest(limit=1), ALL)).items
    assert (first.message_id, first.highlights) == ("<r@example.com>", {"text": ("**numbers** again",)})
    with pytest.raises(Invalid):
        await house.mail.search_threads(OWNER, ADA, "  ", FIRST, ALL)


async def test_many_labels_at_once_find_what_carries_them_all(house: House) -> None:
    await house.inbox()
    asked = tuple(f"l{number}" for number in range(18))
    for name in ("one", "two"):
        await house.arrive(letter(message_id=f"<{name}@example.com>"))
    await house.mail.update_message(OWNER, ADA, "<one@example.com>", asked, [])
    await house.mail.update_message(OWNER, ADA, "<two@example.com>", asked[1:], [])
    draft = await house.mail.create_draft(OWNER, ADA, DraftFields(text="a", labels=asked))
    await house.mail.create_draft(OWNER, ADA, DraftFields(text="b", labels=asked[:-1]))
    for labels in (asked, (*asked, "L3 ", "l3")):  # the same label twice is one
        wanted = MailFilter(labels=labels)
        rows = (await house.mail.list_messages(OWNER, ADA, wanted, FIRST)).items
        assert [row.message_id for row in rows] == ["<one@example.com>"]
        threads = (await house.mail.list_threads(OWNER, None, wanted, FIRST)).items
        assert [row.last_message_id for row in threads] == ["<one@example.com>"]
        drafts = (await house.mail.list_drafts(OWNER, None, wanted, FIRST)).items
        assert [row.draft_id for row in drafts] == [draft.draft_id]
