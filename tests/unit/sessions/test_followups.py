"""A follow-up is a label: found by it, told once to the thread's session, and cleared when the session took it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import pytest

from pace import PATIENCE_S
from postroom import config
from postroom.errors import NotFound, PostroomError
from postroom.model import event as kinds
from postroom.model.followup import FOLLOWUP, due_date, due_labels, label_of
from postroom.model.mail import Inbox, Message, Thread
from postroom.model.paging import MailFilter, Page, PageRequest
from postroom.model.principal import DEFAULT_POD, SYSTEM, Kind, Principal
from postroom.model.session import Delivery, Liveness
from postroom.safety.redact import Redactor
from postroom.sessions.followups import Followups
from postroom.sessions.room import Sessions
from postroom.store.engine import Store
from postroom.testing import FakeClock

INBOX = "scout@postroom.localhost"
SCOUT = Principal(kind=Kind.AGENT, agent_id="agt_1", name="scout")
TODAY = date(2026, 3, 10)
NOON_US = 1_773_144_000_000_000  # 2026-03-10T12:00:00Z
PULLED = config.Config(agents={"scout": config.Agent()})
DRIVEN = config.Config(agents={"scout": config.Agent(host="command", wake=False)})


@dataclass
class Letters:
    """Threads and their labels, as much of `Mail` as follow-ups need. Label changes are events, as in the office."""

    store: Store
    labels: dict[str, list[str]] = field(default_factory=dict)
    listed: int = 0
    broken: set[str] = field(default_factory=set)
    removing: bool = True

    async def get_inbox(self, principal: Principal, inbox_id: str) -> Inbox:
        if inbox_id != INBOX:
            raise RuntimeError("this inbox cannot be read")
        return Inbox(inbox_id=inbox_id, pod_id=DEFAULT_POD, owner_agent="agt_1")

    async def get_message(self, principal: Principal, inbox_id: str, message_id: str) -> Message:
        raise NotFound("Message not found")

    async def get_thread(self, principal: Principal, inbox_id: str, thread_id: str, page: object = None) -> Thread:
        return self._thread(thread_id)

    async def list_threads(
        self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest
    ) -> Page[Thread]:
        self.listed += 1
        if "listing" in self.broken:
            raise PostroomError("the list cannot be had")
        found = [name for name, labels in self.labels.items() if set(filter.labels) <= set(labels)]
        start = int(page.page_token or 0)
        shown = found[start : start + page.size(filtered=True)]
        token = str(start + len(shown)) if start + len(shown) < len(found) else None
        return Page(items=tuple(self._thread(name) for name in shown), next_page_token=token)

    async def update_thread(
        self, principal: Principal, inbox_id: str, thread_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        if remove and not self.removing:
            raise PostroomError("labels cannot be changed now")
        kept = [label for label in self.labels.get(thread_id, []) if label not in remove]
        self.labels[thread_id] = list(dict.fromkeys([*kept, *add]))
        for label in add:
            await self.store.write(
                lambda tx, label=label: tx.emit(
                    kinds.LABEL_ADDED, "<m@x>", at=1, inbox_id=INBOX, thread_id=thread_id, snapshot={"label": label}
                )
            )
        return tuple(self.labels[thread_id])

    def _thread(self, thread_id: str) -> Thread:
        if thread_id not in self.labels:
            raise NotFound("Thread not found")
        inbox = INBOX if thread_id != "odd" else "odd@postroom.localhost"
        return Thread(
            inbox_id=inbox, thread_id=thread_id, labels=tuple(self.labels[thread_id]), timestamp=1, senders=(), recipients=(),
            last_message_id="<m@x>", message_count=1, size=1, messages=(),
        )  # fmt: skip


@dataclass
class Host:
    """A session host that records, and takes or not as told."""

    takes: bool = True
    delivered: list[Delivery] = field(default_factory=list)

    async def deliver(self, delivery: Delivery) -> bool:
        self.delivered.append(delivery)
        return self.takes

    async def liveness(self, session_id: str) -> Liveness:
        return Liveness.UNKNOWN

    async def close(self) -> None:
        return None


class Room:
    def __init__(self, store: Store, clock: FakeClock, settings: config.Config) -> None:
        self.store, self.clock, self.letters, self.host = store, clock, Letters(store), Host()

        async def directory(agent_id: str) -> Principal | None:
            return SCOUT

        self.sessions = Sessions(
            store, self.letters, settings, redactor=Redactor(), directory=directory, hosts={"command": self.host}
        )  # type: ignore[arg-type]  # Letters is a part of Mail
        self.task: asyncio.Task[None] | None = None

    @property
    def followups(self) -> Followups:
        return self.sessions._followups

    def start(self) -> None:
        self.task = asyncio.create_task(self.sessions.run())

    async def asks(self, thread_id: str, due: date, *more: str) -> None:
        self.letters.labels.setdefault(thread_id, ["sent"])
        await self.letters.update_thread(SCOUT, INBOX, thread_id, [FOLLOWUP, label_of(due), *more], [])

    async def pulled(self, session_id: str = "agentmail-t-1", ack: int | None = None):
        async with asyncio.timeout(PATIENCE_S):
            while not await self.sessions.list(SYSTEM):
                await asyncio.sleep(0)
        return await self.sessions.pending(SCOUT, session_id, ack)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0)


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Room]]:
    clock = FakeClock()
    clock.advance(NOON_US / 1e6 - clock.now_us() / 1e6)
    store = await Store.open(":memory:", clock=clock)
    rooms: list[Room] = []

    def build(settings: config.Config = PULLED) -> Room:
        rooms.append(Room(store, clock, settings))
        return rooms[-1]

    yield build
    for room in rooms:
        if room.task is not None:
            room.task.cancel()
            await asyncio.gather(room.task, return_exceptions=True)
    await store.close()


def test_a63_due_is_a_calendar_day_up_to_today_and_anything_else_is_no_followup():
    labels = [
        "dsh-followup-2026-03-09", "dsh-followup-2026-03-10", "dsh-followup-2026-03-11", "dsh-followup-soon",
        "dsh-followup-2026-99-99", "dsh-followup-2026-3-1", "dsh-followup", "other-2026-03-09",
    ]  # fmt: skip
    assert due_labels(reversed(labels), TODAY) == ["dsh-followup-2026-03-09", "dsh-followup-2026-03-10"]
    assert due_date("dsh-followup-2026-02-30") is None


async def test_a64_a_followup_wakes_a_cold_session_with_wake_off_and_its_labels_go_once_it_took_the_notice(make):
    room = make(DRIVEN)
    await room.asks("t-1", TODAY)
    room.start()
    await room.until(lambda: room.host.delivered)
    (delivery,) = room.host.delivered
    assert (delivery.session_id, delivery.wake) == ("agentmail-t-1", True)
    assert delivery.notices[0].text == (
        f"Follow-up due 2026-03-10: you asked to be reminded of thread_id t-1 in {INBOX}. "
        "No mail has come into the thread since you asked."
    )
    await room.until(lambda: room.letters.labels["t-1"] == ["sent"])


async def test_a64_while_nobody_took_it_the_labels_stay_and_later_sweeps_do_not_announce_it_again(make):
    room = make(DRIVEN)
    room.host.takes = False
    await room.asks("t-1", TODAY)
    room.start()
    await room.until(lambda: room.host.delivered)
    assert await room.followups.sweep() == 0
    assert room.letters.labels["t-1"] == ["sent", "dsh-followup", "dsh-followup-2026-03-10"]
    await room.until(lambda: not room.sessions._dispatcher._running)
    room.host.takes = True
    room.clock.advance(6)
    room.sessions._dispatcher.poke()
    await room.until(lambda: room.letters.labels["t-1"] == ["sent"])
    assert [one.notices[0].repeated for one in room.host.delivered] == [False, True]


async def test_a64_a_thread_that_fails_stops_no_other_and_a_list_that_fails_throws_nothing(make):
    room = make()
    await room.asks("odd", TODAY)
    await room.asks("t-1", TODAY)
    assert await room.followups.sweep() == 1
    room.letters.broken = {"listing"}
    assert await room.followups.sweep() == 0


async def test_a65_a_due_label_on_an_old_thread_fires_whatever_lies_before_it(make):
    room = make()
    for number in range(300):
        await room.asks(f"t-{number}", date(2026, 4, 1))
    await room.asks("t-250", TODAY)
    assert await room.followups.sweep() == 1
    assert room.letters.listed == 3


async def test_a65_overlapping_sweeps_announce_once(make):
    room = make()
    await room.asks("t-1", TODAY)
    assert sorted(await asyncio.gather(*(room.followups.sweep() for _ in range(5)))) == [0, 0, 0, 0, 1]


async def test_a65_two_processes_of_one_house_announce_once(make):
    one, two = make(), make()
    two.letters = one.letters
    two.followups._mail = one.letters
    await one.asks("t-1", TODAY)
    assert sorted(await asyncio.gather(one.followups.sweep(), two.followups.sweep())) == [0, 1]


async def test_a65_a_reply_after_the_label_is_said_and_forces_no_wake(make):
    room = make(DRIVEN)
    await room.asks("t-1", TODAY)
    await room.store.write(lambda tx: tx.emit(kinds.RECEIVED, "<a@x>", at=1, inbox_id=INBOX, thread_id="t-1"))
    room.start()
    notices = ()
    async with asyncio.timeout(PATIENCE_S):
        while len(notices) < 2:
            await asyncio.sleep(0)
            if await room.sessions.list(SYSTEM):
                notices = await room.sessions.pending(SYSTEM, "agentmail-t-1")
    assert notices[1].text.endswith("Mail has come into the thread since you asked; read it first.")
    assert room.host.delivered == []


async def test_a65_a_label_that_cannot_be_removed_wakes_once_and_goes_later(make):
    room = make(DRIVEN)
    room.letters.removing = False
    await room.asks("t-1", TODAY)
    room.start()
    await room.until(lambda: room.host.delivered)
    await room.until(lambda: not room.sessions._dispatcher._running)
    room.letters.removing = True
    await room.until(lambda: "dsh-followup" in room.letters.labels["t-1"])
    assert len(room.host.delivered) == 1


async def test_only_the_dated_label_is_enough_and_a_later_day_stays(make):
    room = make()
    room.letters.labels["t-1"] = ["sent"]
    await room.letters.update_thread(SYSTEM, INBOX, "t-1", ["dsh-followup-2026-03-10", "dsh-followup-2026-12-01"], [])
    room.start()
    (notice,) = await room.pulled()
    assert (notice.kind, notice.thread_id) == ("followup.due", "t-1")
    assert await room.pulled(ack=notice.seq) == ()
    await room.until(lambda: room.letters.labels["t-1"] == ["sent", "dsh-followup-2026-12-01", "dsh-followup"])


async def test_the_same_day_can_be_asked_for_again_after_it_was_taken(make):
    room = make()
    await room.asks("t-1", TODAY)
    room.start()
    (notice,) = await room.pulled()
    await room.pulled(ack=notice.seq)
    await room.until(lambda: room.letters.labels["t-1"] == ["sent"])
    await room.asks("t-1", TODAY)
    assert await room.followups.sweep() == 1


async def test_a43_mail_that_arrives_by_no_means_leaves_followups_working(make):
    room = make(replace(DRIVEN, inbound=config.Inbound(mode="off")))
    await room.asks("t-1", TODAY)
    room.start()
    await room.until(lambda: room.host.delivered)


async def test_a53_a_failure_wakes_nobody_even_with_wake_on_and_waits_for_the_next_turn(make):
    room = make(config.Config(agents={"scout": config.Agent(host="command", wake=True)}))
    room.start()
    await room.store.write(lambda tx: tx.emit(kinds.BOUNCED, "<a@x>", at=1, inbox_id=INBOX, thread_id="t-1"))
    waiting = ""
    async with asyncio.timeout(PATIENCE_S):
        while not waiting:
            await asyncio.sleep(0)
            waiting = "".join(row.waiting for row in await room.sessions.list(SYSTEM))
    assert (waiting, room.host.delivered) == ("a report of a failure waits for the next turn", [])
    await room.store.write(lambda tx: tx.emit(kinds.RECEIVED, "<b@x>", at=1, inbox_id=INBOX, thread_id="t-1"))
    await room.until(lambda: room.host.delivered)
    assert [one.kind for one in room.host.delivered[0].notices] == ["message.bounced", "message.received"]


@pytest.mark.parametrize(
    ("decided_by", "who"),
    [("owner", "the owner"), ("policy", "the owner's rules"), ("system", "postroom"), ("mira", "mira"), (None, "the owner")],
)
async def test_a_decision_says_who_refused(make, decided_by, who):
    room = make()
    room.start()
    snapshot = {"decided_by": decided_by, "recipients": ["ada@customer.example"]}
    await room.store.write(
        lambda tx: tx.emit(kinds.OUTGOING_REFUSED, "out_1", at=1, inbox_id=INBOX, thread_id="t-1", snapshot=snapshot)
    )
    (notice,) = await room.pulled()
    assert notice.text.startswith(f"Your message out_1 in thread_id t-1 was refused by {who} and will not be sent.")
