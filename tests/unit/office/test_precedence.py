"""Threads come out the same, whatever order mail is read to its end in."""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from sqlalchemy import select

from pace import PATIENCE_S
from postroom.model.paging import PageRequest
from postroom.office import tables as t
from postroom.office.content import Content, read_content
from postroom.office.ingest import Ingest
from postroom.office.intake import Envelope
from postroom.store.statement import sql
from slowreader import SLOW

from .conftest import ALL, OWNER, House, letter, lose
from .test_ingest import LARGE, HeldReader, arrivals, running

ADA, EVE = "ada@postroom.localhost", "eve@postroom.localhost"
WIDE = 100
_ATTEMPTS = sql(select(t.intake.c.attempts).order_by(t.intake.c.id))


class StumblingReader:
    """Fails at a mail as often as its header says, before it reads it."""

    def __init__(self) -> None:
        self.failed: Counter[bytes] = Counter()

    async def read(self, raw: bytes) -> Content:
        stumbles = int(raw.partition(b"X-Stumbles: ")[2][:1] or b"0")
        if self.failed[raw] < stumbles:
            self.failed[raw] += 1
            raise RuntimeError("not yet")
        return read_content(raw)

    def close(self) -> None:
        pass


async def accept(house: House, raw: bytes, *to: str) -> None:
    await house.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=to or (ADA,)), raw)


async def threads(house: House, inbox: str) -> list[list[str]]:
    """The subjects of each thread's mails, as groups."""
    groups: dict[str, list[str]] = {}
    for message in (await house.mail.list_messages(OWNER, inbox, ALL, PageRequest(limit=WIDE))).items:
        groups.setdefault(message.thread_id, []).append(message.subject or "")
    return sorted(sorted(group) for group in groups.values())


def mail(
    subject: str, message_id: str, answers: Sequence[str] = (), *, stumbles: int = 0, text: str = "hi", slow: bool = False
) -> bytes:
    extra = [f"X-Stumbles: {stumbles}"]
    extra += [f"References: {' '.join(answers)}"] if answers else []
    extra += [SLOW.decode()] if slow else []
    return letter(subject, text, message_id=message_id, extra=extra)


async def test_an_answer_waits_for_the_large_mail_it_answers_and_joins_its_thread(house: House) -> None:
    await house.inbox()
    reader = HeldReader()
    ingest = Ingest(house.store, reader, patience_s=0)
    house.intake.on_mail(ingest.wake)
    await accept(house, mail("large", "<large@example.com>", text=LARGE, slow=True))
    async with running(ingest):
        await asyncio.wait_for(reader.entered.wait(), PATIENCE_S)
        await accept(house, mail("answer", "<answer@example.com>", ["<large@example.com>"]))
        await accept(house, mail("answer to that", "<second@example.com>", ["<answer@example.com>"]))
        await accept(house, mail("other", "<other@example.com>"))
        assert await arrivals(house, 1) == ["<other@example.com>"]
        reader.go.set()
        assert (await arrivals(house, 4))[1:] == ["<large@example.com>", "<answer@example.com>", "<second@example.com>"]
    assert await threads(house, ADA) == [["answer", "answer to that", "large"], ["other"]]


async def test_read_at_once_the_threads_are_the_same(house: House) -> None:
    await house.inbox()
    await accept(house, mail("large", "<large@example.com>", text=LARGE))
    await accept(house, mail("answer", "<answer@example.com>", ["<large@example.com>"]))
    await accept(house, mail("answer to that", "<second@example.com>", ["<answer@example.com>"]))
    await accept(house, mail("other", "<other@example.com>"))
    async with running(Ingest(house.store, HeldReader(), patience_s=600)):
        await arrivals(house, 4)
    assert await threads(house, ADA) == [["answer", "answer to that", "large"], ["other"]]


@pytest.mark.parametrize("seed", range(8))
async def test_whichever_mail_stumbles_the_threads_are_those_of_the_order_of_arrival(house: House, seed: int) -> None:
    chance = random.Random(seed)
    await house.inbox("ada")
    await house.inbox("eve")
    count = 14
    ids = [f"<m{chance.randrange(count)}@example.com>" for _ in range(count)]  # some twice
    made = []
    for number in range(count):
        answers = [chance.choice(ids) for _ in range(chance.choice((0, 1, 1, 2)))]
        made.append((f"{number:02}", ids[number], answers))
    for subject, name, answers in made:
        await accept(house, mail(subject, name, answers, stumbles=chance.choice((0, 0, 1, 2))), ADA)
    ingest = Ingest(house.store, StumblingReader())
    while await ingest.step():
        pass
    for subject, name, answers in made:
        await house.arrive(mail(subject, name, answers), EVE)
    found = await threads(house, ADA)
    assert sum(map(len, found)) == count
    assert found == await threads(house, EVE)


async def test_mail_that_never_can_be_read_holds_its_answer_up_for_its_attempts_only(house: House) -> None:
    await house.inbox()
    ingest = Ingest(house.store, StumblingReader())
    await accept(house, mail("poison", "<poison@example.com>", stumbles=9))
    await accept(house, mail("answer", "<answer@example.com>", ["<poison@example.com>"]))
    while await ingest.step():
        pass
    assert await threads(house, ADA) == [["answer", "poison"]]


async def test_mail_whose_bytes_are_lost_holds_up_nobody_for_good(house: House) -> None:
    await house.inbox()
    lost = mail("lost", "<lost@example.com>")
    await accept(house, lost)
    await accept(house, mail("answer", "<answer@example.com>", ["<lost@example.com>"]))
    sha = hashlib.sha256(lost).hexdigest()
    await lose(house, sha)
    await house.settle()
    assert await threads(house, ADA) == [["answer"]]


async def test_an_id_the_inbox_knows_already_is_not_waited_for(house: House) -> None:
    """Else a stranger could hold up a conversation by sending one of its ids with a mail that is hard to read."""
    await house.inbox()
    await house.arrive(mail("first", "<first@example.com>"))
    ingest = Ingest(house.store, StumblingReader())
    await accept(house, mail("forged", "<first@example.com>", stumbles=1))
    await accept(house, mail("answer", "<answer@example.com>", ["<first@example.com>"]))
    assert await ingest.step() == 2
    assert await threads(house, ADA) == [["answer", "first"]]


async def test_mail_of_another_inbox_is_not_waited_for(house: House) -> None:
    await house.inbox("ada")
    await house.inbox("eve")
    ingest = Ingest(house.store, StumblingReader())
    await accept(house, mail("other", "<other@example.com>", stumbles=1), EVE)
    await accept(house, mail("answer", "<answer@example.com>", ["<other@example.com>"]), ADA)
    assert await ingest.step() == 2
    assert await threads(house, ADA) == [["answer"]]


async def test_waiting_is_no_attempt_and_survives_the_process(house: House) -> None:
    await house.inbox()
    await accept(house, mail("first", "<first@example.com>", stumbles=2))
    await accept(house, mail("answer", "<answer@example.com>", ["<first@example.com>"]))
    reader = StumblingReader()
    for _ in range(2):
        await Ingest(house.store, reader).step()  # each a new process, that knows nothing of the one before
    attempts = house.store.read_now(lambda reader: reader.all(_ATTEMPTS))
    assert attempts == [(1,), (0,)]
    ingest = Ingest(house.store, reader)
    while await ingest.step():
        pass
    assert await threads(house, ADA) == [["answer", "first"]]
