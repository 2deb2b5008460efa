"""Figures over a real store: what is counted, in which steps, for whom."""

from __future__ import annotations

import pytest

from postroom.clock import MICROS
from postroom.errors import Invalid, NotFound
from postroom.model.event import BOUNCED, RECEIVED, SENT
from postroom.model.metrics import Span
from postroom.store.transaction import Tx

from .conftest import OWNER, START, House, agent, letter

HOUR = 3600
BEGIN = START - START % (HOUR * MICROS)


def span(hours: int, period_s: int = HOUR) -> Span:
    return Span(start=BEGIN, end=BEGIN + hours * HOUR * MICROS, period_us=period_s * MICROS)


async def emit(house: House, kind: str, hour: float, recipients: list[object], inbox: str = "ada") -> None:
    at = BEGIN + int(hour * HOUR * MICROS)

    def write(tx: Tx) -> None:
        where = {"inbox_id": f"{inbox}@postroom.localhost", "agent_id": "agt_1" if inbox == "ada" else "agt_2"}
        tx.emit(kind, "<x@y>", at=at, thread_id="t", snapshot={"recipients": recipients}, **where)

    await house.store.write(write)


async def test_events_are_counted_in_steps_and_per_scope(house: House) -> None:
    await house.inbox()
    await house.inbox("eve", "agt_2")
    for hour, inbox in ((0.1, "ada"), (0.2, "eve"), (2.5, "ada"), (9.0, "ada")):
        await emit(house, SENT, hour, ["a@b.example"], inbox)
    kinds = (SENT, BOUNCED)
    everything = await house.mail.count_events(OWNER, None, kinds, span(4))
    assert everything == {SENT: [(BEGIN, 2), (BEGIN + 2 * HOUR * MICROS, 1)], BOUNCED: []}
    assert sum(count for _, count in (await house.mail.count_events(agent(2), None, kinds, span(4)))[SENT]) == 1
    ada = await house.mail.count_events(OWNER, "ada@postroom.localhost", kinds, span(4))
    assert [count for _, count in ada[SENT]] == [1, 1]
    with pytest.raises(NotFound):
        await house.mail.count_events(agent(2), "ada@postroom.localhost", kinds, span(4))


async def test_rates_are_recipients_returned_over_recipients_sent(house: House) -> None:
    await house.inbox()
    await emit(house, SENT, 0.5, ["a@b.example", "c@d.example"])
    await emit(house, SENT, 1.5, ["a@b.example", "c@d.example"])
    await emit(house, BOUNCED, 1.6, [{"address": "a@b.example", "status": "5.1.1"}])
    points = await house.mail.sent_and_returned(OWNER, None, ["bounce"], span(4), 2 * HOUR * MICROS)
    hours = [(at - BEGIN) // (HOUR * MICROS) for at, _, _ in points["bounce"]]
    assert list(zip(hours, [point[1:] for point in points["bounce"]], strict=True)) == [
        (0, (0, 0)),
        (1, (2, 0)),
        (2, (4, 1)),
        (3, (2, 1)),
        (4, (0, 0)),
    ]


async def test_usage_is_a_running_total_of_what_is_kept(house: House) -> None:
    await house.inbox()
    names = ("message_count", "storage_bytes", "thread_count", "inbox_count", "pod_count", "domain_count")
    await house.arrive(letter())
    house.clock.forward(HOUR)
    await house.arrive(letter(message_id="<two@example.com>"))
    end = house.clock.now + 2 * HOUR * MICROS
    found = await house.mail.usage(OWNER, None, names, Span(start=BEGIN, end=end, period_us=HOUR * MICROS))
    figures = {name: [value for _, value in points] for name, points in found.items()}
    assert (figures["message_count"][0], figures["message_count"][-1]) == (0, 2)
    assert (figures["thread_count"][-1], figures["inbox_count"][-1], figures["pod_count"][-1]) == (2, 1, 1)
    assert figures["storage_bytes"][-1] == len(letter()) + len(letter(message_id="<two@example.com>"))
    assert figures["message_count"] == sorted(figures["message_count"])
    assert (await house.mail.usage(agent(2), None, ("message_count",), span(1)))["message_count"] == [
        (BEGIN, 0),
        (BEGIN + HOUR * MICROS, 0),
    ]


async def test_received_mail_is_counted(house: House) -> None:
    await house.inbox()
    await house.arrive(letter())
    found = await house.mail.count_events(OWNER, None, (RECEIVED,), span(24))
    assert [count for _, count in found[RECEIVED]] == [1]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"start": START, "end": START - 1}, "validation_error"),
        ({"start": START + MICROS, "end": START + 2 * MICROS}, "validation_error"),
        ({"start": START - 91 * 86400 * MICROS}, "query_range_too_wide"),
        ({"start": START - 86400 * MICROS, "period_s": 60}, "query_range_too_wide"),
    ],
)
def test_a_range_that_cannot_be_is_refused(asked: dict[str, int], code: str) -> None:
    given = {"start": None, "end": None, "period_s": HOUR} | asked
    with pytest.raises(Invalid) as caught:
        Span.of(now=START, **given)  # type: ignore[arg-type]  # None where nothing was asked
    assert caught.value.code == code


def test_a_range_is_the_last_day_and_ends_now_at_the_latest() -> None:
    found = Span.of(now=START, start=None, end=START + MICROS, period_s=HOUR)
    assert (found.start, found.end, len(found.grid())) == (START - 86400 * MICROS, START, 25)
