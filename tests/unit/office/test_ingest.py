from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Sequence

import pytest
from sqlalchemy import func, select

from pace import PATIENCE_S
from postroom.config import Config
from postroom.errors import Invalid, Refused
from postroom.office import tables as t
from postroom.office.content import Content, read_content
from postroom.office.ingest import Ingest, rest
from postroom.office.intake import Envelope, Intake
from postroom.office.parsing import ParseFailure, SplitReader
from postroom.store.statement import sql
from slowreader import SLOW, never, never_the_slow_one

from .conftest import ALL, FIRST, OWNER, House, letter, lose


async def test_an_accepted_mail_becomes_a_message_its_inbox_lists(house: House) -> None:
    await house.inbox()
    raw = letter()
    await house.arrive(raw)

    (row,) = (await house.mail.list_messages(OWNER, "ada@postroom.localhost", ALL, FIRST)).items
    assert row.message_id == "<one@example.com>"
    assert (row.from_, row.to, row.subject) == ("Bob <bob@example.com>", ("ada@postroom.localhost",), "Hello")
    assert row.labels == ("received", "unread")
    assert (row.preview, row.text, row.size) == ("Hi Ada, how are you?", None, len(raw))

    message = await house.mail.get_message(OWNER, "ada@postroom.localhost", row.message_id)
    assert message.text == "Hi Ada,\nhow are you?"
    assert message.text_source == "plain"
    assert (await house.mail.get_raw(OWNER, "ada@postroom.localhost", row.message_id)).content == raw


async def test_the_event_of_an_arrival_carries_ids_and_no_body(house: House) -> None:
    await house.inbox()
    raw = letter()
    await house.arrive(raw)

    (event,) = await house.store.events.after(0, kinds=["message.received"])
    assert (event.ref, event.inbox_id, event.agent_id) == ("<one@example.com>", "ada@postroom.localhost", "agt_1")
    assert event.snapshot == {
        "from": "Bob <bob@example.com>",
        "labels": ["received", "unread"],
        "size": len(raw),
        "new_participant": False,
        "findings": ["first_contact"],
    }


async def test_html_only_mail_has_the_visible_text(house: House) -> None:
    await house.inbox()
    raw = letter(extra=["Content-Type: text/html; charset=utf-8", "MIME-Version: 1.0"], text="<p>Hello <b>you</b></p>")
    await house.arrive(raw)
    message = await house.mail.get_message(OWNER, "ada@postroom.localhost", "<one@example.com>")
    assert message.text_source == "html"
    assert "you" in (message.text or "")
    assert message.html == "<p>Hello <b>you</b></p>"


async def test_two_local_recipients_get_a_message_each_in_threads_of_their_own(house: House) -> None:
    await house.inbox("ada")
    await house.inbox("eve")
    await house.arrive(letter(), "ada@postroom.localhost", "EVE@postroom.localhost")
    ada = await house.mail.get_message(OWNER, "ada@postroom.localhost", "<one@example.com>")
    eve = await house.mail.get_message(OWNER, "eve@postroom.localhost", "<one@example.com>")
    assert ada.thread_id != eve.thread_id


async def test_only_existing_active_inboxes_are_known(house: House) -> None:
    await house.inbox()
    assert house.intake.knows("Ada@Postroom.localhost")
    assert not house.intake.knows("ada+tag@postroom.localhost")
    assert not house.intake.knows("nobody@postroom.localhost")
    await house.mail.update_inbox(OWNER, "ada@postroom.localhost", {"status": "paused"})
    assert not house.intake.knows("ada@postroom.localhost")


@pytest.mark.parametrize(
    ("mail_from", "sender"),
    [
        ("eve@postroom.localhost", "Eve <eve@example.com>"),
        ("eve@example.com", "Eve <eve@POSTROOM.localhost>"),
        ("", "eve@postroom.localhost"),
    ],
)
async def test_mail_from_outside_may_not_use_a_local_domain(house: House, mail_from: str, sender: str) -> None:
    await house.inbox()
    envelope = Envelope(mail_from=mail_from, rcpt_to=("ada@postroom.localhost",))
    with pytest.raises(Refused, match=r"postroom\.localhost"):
        await house.intake.accept(envelope, letter(sender=sender))
    assert await house.ingest.step() == 0


@pytest.mark.parametrize(
    "header",
    [
        b"Sender: eve@postroom.localhost",
        b"From:\r\neve@postroom.localhost",
        b"From: Eve\r\n<eve@postroom.localhost>",
        b"From: =?utf-8?q?eve=40postroom=2Elocalhost?=",
        "From: eve@postroom\u3002localhost".encode(),
        b"From: " + "eve@postroom.localhost".encode("cp037") + b"\r\nContent-Type: text/plain; charset=cp037",
    ],
)
async def test_a_local_domain_is_refused_however_it_would_be_read_as_the_authors(house: House, header: bytes) -> None:
    await house.inbox()
    envelope = Envelope(mail_from="eve@example.com", rcpt_to=("ada@postroom.localhost",))
    with pytest.raises(Refused, match=r"postroom\.localhost"):
        await house.intake.accept(envelope, header + b"\r\nSubject: x\r\n\r\nHello\r\n")


async def test_a_local_domain_in_another_script_of_dots_is_refused_in_the_envelope(house: House) -> None:
    await house.inbox()
    envelope = Envelope(mail_from="eve@postroom\u3002localhost", rcpt_to=("ada@postroom.localhost",))
    with pytest.raises(Refused, match=r"postroom\.localhost"):
        await house.intake.accept(envelope, letter(sender="eve@example.com"))


async def test_the_null_sender_is_allowed(house: House) -> None:
    await house.inbox()
    await house.arrive(letter(sender="MAILER-DAEMON@example.com"), mail_from="")
    page = await house.mail.list_messages(OWNER, "ada@postroom.localhost", ALL, FIRST)
    assert len(page.items) == 1


async def test_a_mail_without_recipients_is_invalid(house: House) -> None:
    with pytest.raises(Invalid):
        await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=()), letter())


class FailingReader:
    """Fails on mails that hold a word."""

    def __init__(self, word: bytes) -> None:
        self.word = word
        self.attempts = 0

    async def read(self, raw: bytes) -> Content:
        from postroom.office.content import read_content

        if self.word in raw:
            self.attempts += 1
            raise RuntimeError("cannot")
        return read_content(raw)

    def close(self) -> None:
        pass


async def test_the_third_failure_is_delivered_as_unparseable_with_the_raw_bytes_kept(house: House) -> None:
    await house.inbox()
    reader = FailingReader(b"poison")
    house.ingest = Ingest(house.store, reader)
    bad = letter("Bad one", "poison", message_id="<bad@example.com>")
    await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=("ada@postroom.localhost",)), bad)
    await house.arrive(letter(message_id="<good@example.com>"))

    assert reader.attempts == 3
    message = await house.mail.get_message(OWNER, "ada@postroom.localhost", "<bad@example.com>")
    assert [finding.code for finding in message.findings] == ["unparseable"]
    assert (message.subject, message.from_, message.text) == ("Bad one", "bob@example.com", None)
    assert (await house.mail.get_raw(OWNER, "ada@postroom.localhost", "<bad@example.com>")).content == bad
    assert (await house.mail.get_message(OWNER, "ada@postroom.localhost", "<good@example.com>")).text is not None


async def test_attempts_are_counted_before_reading_so_a_crash_is_one(house: House) -> None:
    class Crash(BaseException):
        pass

    class CrashingReader(FailingReader):
        async def read(self, raw: bytes) -> Content:
            raise Crash

    await house.inbox()
    await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=("ada@postroom.localhost",)), letter())
    for _ in range(3):
        with pytest.raises(Crash):
            await Ingest(house.store, CrashingReader(b"")).step()
    await house.settle()
    message = await house.mail.get_message(OWNER, "ada@postroom.localhost", "<one@example.com>")
    assert [finding.code for finding in message.findings] == ["first_contact", "unparseable"]


async def test_a_mail_that_failed_waits_behind_fresh_ones_and_goes_alone(house: House) -> None:
    await house.inbox()
    reader = FailingReader(b"poison")
    ingest = Ingest(house.store, reader)
    for number, text in enumerate(["poison", "a", "b"]):
        raw = letter(text=text, message_id=f"<m{number}@example.com>")
        await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=("ada@postroom.localhost",)), raw)
    assert await ingest.step() == 3
    assert [ref for _, ref in await house.events("message.received")] == ["<m1@example.com>", "<m2@example.com>"]
    assert await ingest.step() == 1


async def test_mail_for_an_inbox_deleted_meanwhile_leaves_the_queue(house: House, config: Config) -> None:
    await Intake(house.store, config).accept(Envelope(mail_from="b@example.com", rcpt_to=("gone@postroom.localhost",)), letter())
    assert await house.ingest.step() == 1
    assert await house.ingest.step() == 0


async def test_a_large_mail_is_read_in_a_worker(house: House) -> None:
    await house.inbox()
    text = "\n".join(["word " * 12] * 6000)
    await house.arrive(letter(text=text))
    message = await house.mail.get_message(OWNER, "ada@postroom.localhost", "<one@example.com>")
    assert message.text is not None
    assert len(message.text) > 300_000


async def test_no_mail_waits_for_a_large_ones_reading_in_its_batch(house: House) -> None:
    await house.inbox()
    large = "\n".join(["word " * 12] * 6000)
    for number, text in enumerate(["a", "b", large, large, "c"]):
        raw = letter(text=text, message_id=f"<m{number}@example.com>")
        await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=("ada@postroom.localhost",)), raw)
    assert [await house.ingest.step() for _ in range(5)] == [2, 1, 1, 1, 0]
    arrived = [ref for _, ref in await house.events("message.received")]
    assert arrived == [f"<m{number}@example.com>" for number in range(5)]


async def test_a_mail_whose_bytes_are_lost_stays_in_the_queue_and_stops_no_other(house: House) -> None:
    await house.inbox()
    lost = letter(text="lost", message_id="<lost@example.com>")
    await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=("ada@postroom.localhost",)), lost)
    sha = hashlib.sha256(lost).hexdigest()
    await lose(house, sha)
    await house.arrive(letter())
    rows = (await house.mail.list_messages(OWNER, "ada@postroom.localhost", ALL, FIRST)).items
    assert [row.message_id for row in rows] == ["<one@example.com>"]
    assert house.store.read_now(lambda reader: reader.scalar(sql(select(func.count()).select_from(t.intake)))) == 1


async def test_a_large_mail_whose_reading_is_cancelled_does_not_answer_for_the_next() -> None:
    reader = SplitReader(limit=0, timeout_s=600, work=never_the_slow_one)
    try:
        first = asyncio.create_task(reader.read(letter("First", extra=[SLOW.decode()])))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await reader.read(letter("Second"))).subject == "Second"
    finally:
        reader.close()


async def test_a_worker_that_does_not_answer_in_time_is_replaced() -> None:
    reader = SplitReader(limit=0, timeout_s=0.05, work=never)
    for _ in range(2):
        with pytest.raises(ParseFailure, match=r"no answer within 0\.05 s"):
            await reader.read(letter())
    reader.close()


async def test_closing_while_a_mail_is_read_ends_that_reading_and_no_other() -> None:
    reader = SplitReader(limit=0, timeout_s=600, work=never_the_slow_one)
    first = asyncio.create_task(reader.read(letter("First", extra=[SLOW.decode()])))
    await asyncio.sleep(0)
    reader.close()
    with pytest.raises(ParseFailure, match="the worker died"):
        await first
    assert (await reader.read(letter("Second"))).subject == "Second"
    reader.close()


class HeldReader:
    """Reads every mail but those marked slow, which wait to be let go."""

    def __init__(self) -> None:
        self.entered, self.go = asyncio.Event(), asyncio.Event()
        self.closed = 0

    async def read(self, raw: bytes) -> Content:
        if SLOW in raw:
            self.entered.set()
            await self.go.wait()
        return read_content(raw)

    def close(self) -> None:
        self.closed += 1


LARGE = "\n".join(["word " * 12] * 6000)


async def send_in(house: House, number: int, text: str = "hi", extra: Sequence[str] = ()) -> None:
    raw = letter(text=text, message_id=f"<m{number}@example.com>", extra=extra)
    await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=("ada@postroom.localhost",)), raw)


async def arrivals(house: House, count: int) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        while len(found := [ref for _, ref in await house.events("message.received")]) < count:
            await house.store.events.wait(house.store.events.last_seq(), timeout_s=1)
    return found


@contextlib.asynccontextmanager
async def running(ingest: Ingest) -> AsyncIterator[None]:
    task = asyncio.create_task(ingest.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_one_slow_mail_delays_no_small_one(house: House) -> None:
    await house.inbox()
    reader = HeldReader()
    ingest = Ingest(house.store, reader, patience_s=0)
    house.intake.on_mail(ingest.wake)
    await send_in(house, 0, LARGE, [SLOW.decode()])
    async with running(ingest):
        await asyncio.wait_for(reader.entered.wait(), PATIENCE_S)
        for number in (1, 2, 3):
            await send_in(house, number)
        assert await arrivals(house, 3) == ["<m1@example.com>", "<m2@example.com>", "<m3@example.com>"]
        await send_in(house, 4, LARGE)
        await send_in(house, 5)
        assert (await arrivals(house, 4))[3:] == ["<m5@example.com>"]
        reader.go.set()
        assert (await arrivals(house, 6))[4:] == ["<m0@example.com>", "<m4@example.com>"]


async def test_a_large_mail_that_is_soon_read_keeps_its_place(house: House) -> None:
    await house.inbox()
    for number, text in enumerate(["a", LARGE, "b", LARGE, "c"]):
        await send_in(house, number, text)
    async with running(Ingest(house.store, HeldReader(), patience_s=600)):
        assert await arrivals(house, 5) == [f"<m{number}@example.com>" for number in range(5)]


async def test_a_slow_mail_that_failed_delays_no_other_while_it_is_tried_again(house: House) -> None:
    class FailsFirst(HeldReader):
        tries = 0

        async def read(self, raw: bytes) -> Content:
            if SLOW not in raw:
                return read_content(raw)
            self.tries += 1
            if self.tries == 1:
                raise ParseFailure("no answer")
            return await super().read(raw)

    await house.inbox()
    reader = FailsFirst()
    ingest = Ingest(house.store, reader, patience_s=0)
    house.intake.on_mail(ingest.wake)
    await send_in(house, 0, extra=[SLOW.decode()])
    async with running(ingest):
        await asyncio.wait_for(reader.entered.wait(), PATIENCE_S)
        await send_in(house, 1)
        assert await arrivals(house, 1) == ["<m1@example.com>"]
        reader.go.set()
        assert await arrivals(house, 2) == ["<m1@example.com>", "<m0@example.com>"]
    assert reader.tries == 2


async def test_a_slow_mail_cut_short_by_the_end_stays_in_the_queue(house: House) -> None:
    await house.inbox()
    reader = HeldReader()
    await send_in(house, 0, LARGE, [SLOW.decode()])
    async with running(Ingest(house.store, reader, patience_s=0)):
        await asyncio.wait_for(reader.entered.wait(), PATIENCE_S)
    assert await house.events("message.received") == []
    await house.settle()
    assert [ref for _, ref in await house.events("message.received")] == ["<m0@example.com>"]


async def test_a_fault_of_ours_beside_the_others_ends_the_room(house: House) -> None:
    class Fault(BaseException):
        pass

    class Breaks(HeldReader):
        async def read(self, raw: bytes) -> Content:
            raise Fault

    await house.inbox()
    await send_in(house, 0, LARGE)
    with pytest.raises(Fault):
        await asyncio.wait_for(Ingest(house.store, Breaks(), patience_s=600).run(), PATIENCE_S)


def test_mail_at_the_door_goes_first_until_mail_in_the_queue_has_waited_for_long() -> None:
    assert rest(0.02, waited_us=0) == 0.1
    assert rest(0.02, waited_us=10_000_001) == 0.02
    assert rest(5.0, waited_us=0) == 0.2  # such a batch waited for a name server
