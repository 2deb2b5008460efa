from __future__ import annotations

import pytest

from postroom.errors import Forbidden, NotFound, StorageFailure
from postroom.model.mail import DraftFields
from postroom.office.office import Office

from .conftest import ALL, FIRST, OWNER, House, agent, cut_short, letter
from .outgoing import ADA, frozen

EVE = "eve@postroom.localhost"


async def test_a_deleted_message_is_gone_from_lists_search_and_disk_and_its_thread_fits_again(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(text="walrus"))
    await house.arrive(letter(text="second", message_id="<two@example.com>", extra=["In-Reply-To: <one@example.com>"]))
    thread_id = (await house.mail.get_message(OWNER, ADA, "<one@example.com>")).thread_id
    sha = await house.store.blobs.put(letter(text="walrus"))

    await house.mail.delete_message(OWNER, ADA, "<one@example.com>")
    for gone in (house.mail.get_message(OWNER, ADA, "<one@example.com>"), house.store.blobs.get(sha)):
        with pytest.raises(NotFound):
            await gone
    assert (await house.mail.search_messages(OWNER, ADA, "walrus", FIRST, ALL)).items == ()
    thread = await house.mail.get_thread(OWNER, None, thread_id)
    assert (thread.message_count, thread.last_message_id, thread.preview) == (1, "<two@example.com>", "second")

    await house.mail.delete_message(OWNER, ADA, "<two@example.com>")
    with pytest.raises(NotFound):
        await house.mail.get_thread(OWNER, None, thread_id)


async def test_bytes_that_another_inbox_holds_stay(house: House) -> None:
    await house.inbox("ada")
    await house.inbox("eve")
    await house.arrive(letter(), ADA, EVE)
    await house.mail.delete_message(OWNER, ADA, "<one@example.com>")
    assert (await house.mail.get_raw(OWNER, EVE, "<one@example.com>")).content == letter()


async def test_a_deleted_thread_takes_its_messages_along(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    await house.arrive(letter(message_id="<two@example.com>", extra=["In-Reply-To: <one@example.com>"]))
    await house.arrive(letter(message_id="<other@example.com>"))
    thread_id = (await house.mail.get_message(OWNER, ADA, "<one@example.com>")).thread_id
    await house.mail.delete_thread(OWNER, ADA, thread_id)
    rows = (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items
    assert [row.message_id for row in rows] == ["<other@example.com>"]


async def test_a_deleted_inbox_takes_everything_along_and_its_address_is_free(house: House) -> None:
    await house.inbox("ada")
    await house.inbox("eve")
    office = await Office.open(house.store, house.config)
    await office.sender.send(frozen(EVE))
    await house.arrive(letter(), ADA, EVE)
    await house.mail.create_draft(agent(1), ADA, DraftFields(text="x"))
    await house.mail.delete_inbox(OWNER, ADA)
    assert not house.intake.knows(ADA)
    with pytest.raises(NotFound):
        await house.mail.get_inbox(OWNER, ADA)
    assert len((await house.mail.list_messages(OWNER, EVE, ALL, FIRST)).items) == 2
    await house.inbox("ada")
    assert (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items == ()
    assert (await house.mail.list_drafts(OWNER, ADA, ALL, FIRST)).items == ()


async def test_an_agent_deletes_nothing(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    thread_id = (await house.mail.get_message(OWNER, ADA, "<one@example.com>")).thread_id
    for refused in (
        house.mail.delete_message(agent(1), ADA, "<one@example.com>"),
        house.mail.delete_thread(agent(1), ADA, thread_id),
        house.mail.delete_inbox(agent(1), ADA),
    ):
        with pytest.raises(Forbidden):
            await refused


async def test_a_long_thread_goes_in_several_commits_and_what_is_left_of_it_fits(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.office.deletion._CHUNK", 2)
    await house.inbox()
    for number in range(5):
        extra = ["In-Reply-To: <m0@example.com>"] if number else []
        await house.arrive(letter(message_id=f"<m{number}@example.com>", extra=extra))
    thread_id = (await house.mail.get_message(OWNER, ADA, "<m0@example.com>")).thread_id
    cut_short(house, monkeypatch)
    with pytest.raises(StorageFailure):
        await house.mail.delete_thread(OWNER, ADA, thread_id)
    left = await house.mail.get_thread(OWNER, None, thread_id)
    assert (left.message_count, left.last_message_id) == (3, "<m2@example.com>")
    await house.mail.delete_thread(OWNER, ADA, thread_id)
    with pytest.raises(NotFound):
        await house.mail.get_thread(OWNER, None, thread_id)
    assert (await house.mail.list_messages(OWNER, ADA, ALL, FIRST)).items == ()
