"""The failure classes that show only in a whole house: storing, threading, answering, showing. Each on both engines.

The other classes are in `test_failure_classes`, under the same numbers.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from engines import ENGINES, url_of
from inprocess import ADA, OWNER, SCOUT, Rooms, letter, wish
from postroom.model.mail import Message
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.request import SendKind
from postroom.store.engine import Store
from postroom.testing import FakeClock

LIST = "talk@lists.example"


@contextlib.asynccontextmanager
async def house(engine: str, folder: Path) -> AsyncIterator[Rooms]:
    clock = FakeClock()
    with url_of(engine) as url:
        rooms = Rooms(await Store.open(folder, clock=clock, url=url), clock)
        await rooms.inhabit()
        yield rooms
        await rooms.store.close()


@pytest.fixture(params=ENGINES)
async def rooms(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rooms]:
    async with house(request.param, tmp_path) as opened:
        yield opened


async def listed(rooms: Rooms) -> Sequence[Message]:
    page = await rooms.office.mail.list_messages(OWNER, SCOUT, MailFilter(), PageRequest(ascending=True))
    return [await rooms.office.mail.get_message(OWNER, SCOUT, row.message_id) for row in page.items]


async def answered(rooms: Rooms, message: Message, kind: SendKind) -> tuple[str, set[str], str]:
    """The sender and recipients of an answer, and its bytes."""
    before = len(rooms.relay.taken)
    await rooms.gate.submit(OWNER, wish(kind=kind, to=(), subject=None, message_id=message.message_id))
    await rooms.settle()
    mail_from, rcpt_to, raw = rooms.relay.taken[before]
    return mail_from, set(rcpt_to), raw.decode()


async def test_class_19_a_mail_without_message_id_is_stored_and_its_bytes_unchanged(rooms: Rooms) -> None:
    for text in ("one", "two"):
        mail = letter(text=text)
        del mail["Message-ID"]
        await rooms.arrive(mail)
    found = await listed(rooms)
    assert [row.text for row in found] == ["one", "two"]
    assert found[0].message_id != found[1].message_id
    raw = await rooms.office.mail.get_raw(OWNER, SCOUT, found[0].message_id)
    assert b"message-id" not in raw.content.lower()


async def test_class_20_two_mails_of_one_message_id_are_both_stored_and_the_second_is_marked(rooms: Rooms) -> None:
    await rooms.arrive(letter("<same@customer.example>", text="first"))
    await rooms.arrive(letter("<same@customer.example>", text="quite another"))
    first, second = await listed(rooms)
    assert (first.text, second.text) == ("first", "quite another")
    assert first.message_id == "<same@customer.example>"
    assert second.message_id != first.message_id
    assert "duplicate_message_id" in {finding.code for finding in second.findings}


async def test_class_23_a_mail_with_the_subject_of_another_begins_its_own_thread(rooms: Rooms) -> None:
    await rooms.arrive(letter("<one@customer.example>", subject="Invoice"))
    await rooms.arrive(letter("<two@customer.example>", subject="Re: Invoice"))
    await rooms.arrive(letter("<three@customer.example>", subject="Something else", In_Reply_To="<one@customer.example>"))
    one, two, three = await listed(rooms)
    assert two.thread_id != one.thread_id
    assert three.thread_id == one.thread_id


async def test_class_22_and_24_an_answer_to_all_leaves_oneself_out_and_keeps_the_chain(rooms: Rooms) -> None:
    await rooms.arrive(letter("<hi@customer.example>", To=f"{SCOUT}, Bob <bob@customer.example>", Cc=f"Scout <{SCOUT.upper()}>"))
    (message,) = await listed(rooms)
    mail_from, recipients, raw = await answered(rooms, message, SendKind.REPLY_ALL)
    assert (mail_from, recipients) == (SCOUT, {ADA, "bob@customer.example"})
    assert "In-Reply-To: <hi@customer.example>\r\n" in raw
    assert "References: <hi@customer.example>\r\n" in raw


async def test_class_25_an_answer_to_a_mail_that_came_by_a_list_goes_to_its_writer(rooms: Rooms) -> None:
    fields = {"To": LIST, "List_Id": "<talk.lists.example>", "List_Post": f"<mailto:{LIST}>"}
    await rooms.arrive(letter("<hi@customer.example>", **fields))
    (message,) = await listed(rooms)
    assert (await answered(rooms, message, SendKind.REPLY))[1] == {ADA}
    assert (await answered(rooms, message, SendKind.REPLY_ALL))[1] == {ADA, LIST}


async def test_class_28_a_mail_too_big_for_a_model_is_cut_and_says_so(rooms: Rooms) -> None:
    await rooms.arrive(letter("<big@customer.example>", text="\n".join(["many words " * 6] * 5000)))
    (message,) = await listed(rooms)
    shown = await rooms.call("get_thread", {"threadId": message.thread_id})
    assert len(shown.text) < 12_000
    assert "are not shown" in shown.text
