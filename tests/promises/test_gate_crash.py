"""An approved mail leaves exactly once, wherever between two steps the process dies.

Each step of submit, approve and delivery is killed in turn by an exception no code of ours catches;
then new rooms are opened on the same store, as after a restart, and left to finish.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from inprocess import ADA, AGENT, OTHER, OWNER, NotingRelay, Rooms, rooms_in, wish
from postroom.gate.dispatch import Dispatch
from postroom.model.outgoing import State, Submission
from postroom.model.paging import MailFilter, PageRequest
from postroom.office.sender import OfficeSender
from postroom.store.blobs import Blobs
from postroom.store.engine import Store


class Killed(BaseException):
    """The process ends here."""


Method = Callable[..., Awaitable[object]]


def before(method: Method) -> Method:
    """Dies instead of doing it."""

    async def die(self: object, *args: object, **more: object) -> object:
        raise Killed

    return die


def after(method: Method) -> Method:
    """Does it, and dies before anybody hears of it."""

    async def die(self: object, *args: object, **more: object) -> object:
        await method(self, *args, **more)
        raise Killed

    return die


STEPS = [
    (Dispatch, "hand_over"),
    (Dispatch, "_start"),
    (Dispatch, "frozen"),
    (OfficeSender, "send"),
    (Dispatch, "_confirm"),
]
MOMENTS = [(owner, name, when) for owner, name in STEPS for when in (before, after)]


async def restarted(rooms: Rooms, folder: Path) -> Rooms:
    """Other rooms on the same folder; what the old ones had in memory is gone."""
    await rooms.store.close()
    again = Rooms(await Store.open(folder, clock=rooms.clock), rooms.clock, rooms.config, NotingRelay(taken=rooms.relay.taken))
    await again.gate.sweep()
    await again.settle()
    return again


@contextmanager
def dying_at(monkeypatch: pytest.MonkeyPatch, moment: tuple[type, str, Callable[[Method], Method]]) -> Iterator[None]:
    owner, step, when = moment
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, when(getattr(owner, step)))
        yield


async def approve_or_sweep(rooms: Rooms, held: Submission) -> None:
    """What is still held is approved; what was approved is handed over."""
    if (await rooms.gate.show(OWNER, held.outgoing_id)).state is State.HELD:
        await rooms.gate.approve(OWNER, held.outgoing_id, held.digest)
    else:
        await rooms.gate.sweep()


async def sent_rows(rooms: Rooms) -> list[tuple[State, str]]:
    page = await rooms.gate.list(OWNER, page=PageRequest())
    return [(row.state, row.message_id) for row in page.items]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{moment[2].__name__} {moment[1]}")
@pytest.mark.parametrize("recipient", [ADA, OTHER])
async def test_killed_during_approve(tmp_path: Path, monkeypatch, moment, recipient):
    rooms = await rooms_in(tmp_path)
    held = await rooms.gate.submit(AGENT, wish(to=(recipient,)), "key")
    with dying_at(monkeypatch, moment), pytest.raises(Killed):
        await rooms.gate.approve(OWNER, held.outgoing_id, held.digest)
    again = await restarted(rooms, tmp_path)
    await approve_or_sweep(again, held)  # the approval itself may have died unanswered: then the owner asks again
    await again.settle()
    await left_exactly_once(again, held.outgoing_id, recipient)
    repeated = await again.gate.submit(AGENT, wish(to=(recipient,)), "key")
    assert (repeated.outgoing_id, repeated.state, repeated.repeated) == (held.outgoing_id, State.SENT, True)
    await again.store.close()


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{moment[2].__name__} {moment[1]}")
async def test_killed_during_a_send_that_needs_no_question(tmp_path: Path, monkeypatch, moment):
    rooms = await rooms_in(tmp_path)
    with dying_at(monkeypatch, moment), pytest.raises(Killed):
        await rooms.gate.submit(OWNER, wish(), "key")
    again = await restarted(rooms, tmp_path)
    repeated = await again.gate.submit(OWNER, wish(), "key")
    assert repeated.repeated
    await left_exactly_once(again, repeated.outgoing_id, ADA)
    await again.store.close()


async def test_killed_before_the_submit_was_stored_leaves_nothing_and_the_retry_is_the_first(tmp_path: Path, monkeypatch):
    rooms = await rooms_in(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Blobs, "put", before(Blobs.put))
        with pytest.raises(Killed):
            await rooms.gate.submit(AGENT, wish(), "key")
    again = await restarted(rooms, tmp_path)
    assert await sent_rows(again) == []
    assert not (await again.gate.submit(AGENT, wish(), "key")).repeated
    await again.store.close()


async def test_killed_again_and_again_while_recovering(tmp_path: Path, monkeypatch):
    rooms = await rooms_in(tmp_path)
    held = await rooms.gate.submit(AGENT, wish(), "key")
    for moment in MOMENTS:
        with dying_at(monkeypatch, moment), suppress(Killed):  # late moments find nothing left to do
            await approve_or_sweep(rooms, held)
        await rooms.store.close()
        rooms = Rooms(await Store.open(tmp_path, clock=rooms.clock), rooms.clock, rooms.config, rooms.relay)
    await approve_or_sweep(rooms, held)
    await rooms.settle()
    await left_exactly_once(rooms, held.outgoing_id, ADA)
    await rooms.store.close()


async def test_the_outcome_is_not_lost_when_killed_between_delivery_and_the_gate_hearing_of_it(tmp_path: Path):
    rooms = await rooms_in(tmp_path)
    sent = await rooms.gate.submit(OWNER, wish())
    await rooms.office.outbox.step()
    assert (await rooms.gate.show(OWNER, sent.outgoing_id)).state is State.SENDING
    again = await restarted(rooms, tmp_path)
    await left_exactly_once(again, sent.outgoing_id, ADA)
    await again.store.close()


async def left_exactly_once(rooms: Rooms, outgoing_id: str, recipient: str) -> None:
    row = await rooms.gate.show(OWNER, outgoing_id)
    assert row.state is State.SENT
    raw = await rooms.gate.raw(OWNER, outgoing_id)
    relayed = [taken for _, rcpt_to, taken in rooms.relay.taken if rcpt_to == (recipient,)]
    assert relayed == ([raw] if recipient == ADA else [])
    inbox = await rooms.office.mail.list_messages(OWNER, OTHER, MailFilter(), PageRequest())
    delivered = [message.message_id for message in inbox.items]
    assert delivered == ([row.message_id] if recipient == OTHER else [])
