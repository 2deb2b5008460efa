from __future__ import annotations

import pytest

from postroom.errors import Invalid, NotFound, StorageFailure
from postroom.model.paging import MailFilter, PageRequest

from .conftest import ALL, FIRST, OWNER, House, agent, cut_short, letter

ADA = "ada@postroom.localhost"


async def thread_of(house: House, message_id: str) -> str:
    return (await house.mail.get_message(OWNER, ADA, message_id)).thread_id


async def codes(house: House, message_id: str) -> list[str]:
    return [finding.code for finding in (await house.mail.get_message(OWNER, ADA, message_id)).findings]


async def test_a_reply_lands_in_the_thread_of_what_it_answers(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    await house.arrive(letter("Something else", message_id="<two@example.com>", extra=["In-Reply-To: <one@example.com>"]))
    assert await thread_of(house, "<two@example.com>") == await thread_of(house, "<one@example.com>")

    (thread,) = (await house.mail.list_threads(OWNER, ADA, ALL, FIRST)).items
    assert (thread.message_count, thread.last_message_id, thread.subject) == (2, "<two@example.com>", "Hello")
    full = await house.mail.get_thread(OWNER, None, thread.thread_id)
    assert [message.message_id for message in full.messages or ()] == ["<one@example.com>", "<two@example.com>"]


async def test_references_are_followed_from_the_end(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(message_id="<a@example.com>"))
    await house.arrive(letter(message_id="<b@example.com>"))
    references = "References: <a@example.com> <b@example.com> <unknown@example.com>"
    await house.arrive(letter(message_id="<c@example.com>", extra=["In-Reply-To: <lost@example.com>", references]))
    assert await thread_of(house, "<c@example.com>") == await thread_of(house, "<b@example.com>")
    assert await thread_of(house, "<a@example.com>") != await thread_of(house, "<b@example.com>")


async def test_equal_subjects_do_not_join_threads(house: House) -> None:
    await house.inbox()
    await house.arrive(letter("Re: Hello", message_id="<a@example.com>"))
    await house.arrive(letter("Re: Hello", message_id="<b@example.com>"))
    assert await thread_of(house, "<a@example.com>") != await thread_of(house, "<b@example.com>")


async def test_a_thread_is_chosen_at_arrival_and_does_not_merge_later(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(message_id="<child@example.com>", extra=["In-Reply-To: <parent@example.com>"]))
    await house.arrive(letter(message_id="<parent@example.com>"))
    before = await thread_of(house, "<child@example.com>"), await thread_of(house, "<parent@example.com>")
    await house.arrive(letter(message_id="<late@example.com>", extra=["References: <parent@example.com> <child@example.com>"]))
    assert (await thread_of(house, "<child@example.com>"), await thread_of(house, "<parent@example.com>")) == before
    assert before[0] != before[1]


async def test_a_stranger_in_a_thread_is_a_finding_shown_first(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    answer = ["In-Reply-To: <one@example.com>"]
    await house.arrive(letter(message_id="<two@example.com>", extra=answer))
    await house.arrive(letter(message_id="<three@example.com>", sender="Eve <eve@evil.example>", extra=answer))
    await house.arrive(letter(message_id="<four@example.com>", sender="Eve <EVE@evil.example>", extra=answer))
    assert await codes(house, "<two@example.com>") == []
    assert await codes(house, "<three@example.com>") == ["new_participant", "first_contact"]
    assert await codes(house, "<four@example.com>") == []


async def test_threads_of_two_inboxes_never_meet(house: House) -> None:
    await house.inbox("ada")
    await house.inbox("eve")
    await house.arrive(letter(), ADA)
    reply = letter(message_id="<two@example.com>", extra=["In-Reply-To: <one@example.com>"])
    await house.arrive(reply, "eve@postroom.localhost")
    eve = await house.mail.get_message(OWNER, "eve@postroom.localhost", "<two@example.com>")
    assert eve.thread_id != await thread_of(house, "<one@example.com>")


async def test_the_same_bytes_twice_are_two_messages_the_second_marked(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    await house.arrive(letter())
    rows = (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items
    assert [[finding.code for finding in row.findings] for row in rows] == [["duplicate"], ["first_contact"]]
    assert len({row.message_id for row in rows}) == 2


async def test_one_message_id_on_two_mails_keeps_both(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(text="first"))
    await house.arrive(letter(text="second"))
    second, first = (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items
    assert first.message_id == "<one@example.com>"
    assert [finding.code for finding in second.findings] == ["duplicate_message_id"]
    assert (await house.mail.get_message(OWNER, ADA, second.message_id)).text == "second"
    assert (await house.mail.get_message(OWNER, ADA, "<one@example.com>")).text == "first"


@pytest.mark.parametrize("message_id", [None, "<a/b?c#d@example.com>", "<a%2Fb@example.com>"])
async def test_a_missing_or_unsafe_message_id_gets_a_stand_in_and_the_raw_mail_stays(
    house: House, message_id: str | None
) -> None:
    await house.inbox()
    raw = letter(message_id=message_id)
    await house.arrive(raw)
    (row,) = (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items
    assert row.message_id.endswith("@postroom.invalid>")
    assert (await house.mail.get_raw(OWNER, ADA, row.message_id)).content == raw
    if message_id is not None:
        assert (await house.mail.get_message(OWNER, ADA, message_id)).message_id == row.message_id
    await house.arrive(letter(message_id="<two@example.com>", extra=[f"In-Reply-To: {message_id or row.message_id}"]))
    assert await thread_of(house, "<two@example.com>") == row.thread_id


async def test_a_thread_without_an_id_that_is_a_uuid_is_invalid_and_an_unknown_one_not_found(house: House) -> None:
    with pytest.raises(Invalid):
        await house.mail.get_thread(OWNER, None, "nonsense")
    with pytest.raises(NotFound):
        await house.mail.get_thread(OWNER, None, "00000000-0000-4000-8000-000000000000")


async def test_labels_of_a_thread_are_the_union_and_change_on_every_message(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    await house.arrive(letter(message_id="<two@example.com>", extra=["In-Reply-To: <one@example.com>"]))
    thread_id = await thread_of(house, "<one@example.com>")
    await house.mail.update_message(OWNER, ADA, "<one@example.com>", ["Important "], ["unread"])
    (thread,) = (await house.mail.list_threads(OWNER, ADA, ALL, FIRST)).items
    assert thread.labels == ("important", "received", "unread")

    assert await house.mail.update_thread(OWNER, None, thread_id, ["todo"], ["unread", "important"]) == ("received", "todo")
    assert (await house.mail.get_message(OWNER, ADA, "<one@example.com>")).labels == ("received", "todo")
    assert await house.events("label.added", "label.removed") == [
        ("label.added", "<one@example.com>"),
        ("label.removed", "<one@example.com>"),
        ("label.added", "<one@example.com>"),
        ("label.removed", "<one@example.com>"),
        ("label.added", "<two@example.com>"),
        ("label.removed", "<two@example.com>"),
    ]


async def test_a_thread_in_the_trash_is_hidden_until_included(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    await house.mail.update_thread(OWNER, ADA, await thread_of(house, "<one@example.com>"), ["trash"], [])
    trash = MailFilter(include=frozenset({"trash"}))
    assert (await house.mail.list_threads(OWNER, ADA, ALL, FIRST)).items == ()
    assert (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items == ()
    assert len((await house.mail.list_threads(OWNER, ADA, trash, FIRST)).items) == 1
    assert len((await house.mail.list_messages(OWNER, ADA, trash, FIRST)).items) == 1


async def test_pages_of_a_long_thread_lead_from_the_newest_to_the_oldest(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(message_id="<m0@example.com>"))
    for number in range(1, 7):
        await house.arrive(letter(message_id=f"<m{number}@example.com>", extra=["In-Reply-To: <m0@example.com>"]))
    thread_id, token, pages = await thread_of(house, "<m0@example.com>"), None, []
    while True:
        thread = await house.mail.get_thread(agent(1), None, thread_id, PageRequest(limit=3, page_token=token))
        pages.append([message.message_id[2] for message in thread.messages or ()])
        token = thread.next_page_token
        if token is None:
            break
    assert pages == [["4", "5", "6"], ["1", "2", "3"], ["0"]]


async def long_thread(house: House, count: int = 5) -> str:
    for number in range(count):
        extra = ["In-Reply-To: <m0@example.com>"] if number else []
        await house.arrive(letter(message_id=f"<m{number}@example.com>", extra=extra))
    return await thread_of(house, "<m0@example.com>")


async def test_a_long_thread_is_labelled_oldest_first_in_several_commits(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postroom.office.threads._AT_ONCE", 2)
    await house.inbox()
    thread_id = await long_thread(house)
    assert await house.mail.update_thread(OWNER, None, thread_id, ["todo"], ["unread"]) == ("received", "todo")
    told = [f"<m{number}@example.com>" for number in range(5)]
    assert await house.events("label.added") == [("label.added", ref) for ref in told]
    assert await house.events("label.removed") == [("label.removed", ref) for ref in told]


async def test_labelling_that_was_cut_short_is_completed_by_asking_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postroom.office.threads._AT_ONCE", 2)
    await house.inbox()
    thread_id = await long_thread(house)
    cut_short(house, monkeypatch)
    with pytest.raises(StorageFailure):
        await house.mail.update_thread(OWNER, None, thread_id, ["todo"], [])
    assert len(await house.events("label.added")) == 2
    assert await house.mail.update_thread(OWNER, None, thread_id, ["todo"], []) == ("received", "todo", "unread")
    assert [ref for _, ref in await house.events("label.added")] == [f"<m{number}@example.com>" for number in range(5)]


async def test_a_message_without_room_for_a_label_leaves_its_whole_thread_as_it_was(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.office.threads._AT_ONCE", 2)
    await house.inbox()
    thread_id = await long_thread(house)
    full = [f"label{number}" for number in range(254)]
    await house.mail.update_message(OWNER, ADA, "<m4@example.com>", full, [])
    before = len(await house.events("label.added"))
    with pytest.raises(Invalid, match="at most 256 labels"):
        await house.mail.update_thread(OWNER, None, thread_id, ["one more"], [])
    assert len(await house.events("label.added")) == before
    assert "todo" in await house.mail.update_thread(OWNER, None, thread_id, ["todo"], ["unread"])
    assert "label0" in await house.mail.update_thread(OWNER, None, thread_id, ["label0"], [])
