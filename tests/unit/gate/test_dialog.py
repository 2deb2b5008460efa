"""A click in the harness's dialog: what it is worth, and that it is about what was frozen."""

import asyncio
import dataclasses

import pytest

from postroom.errors import Conflict, Forbidden, NotFound
from postroom.gate.dialog import ANSWERER, Dialog
from postroom.model.outgoing import State

RULE, WALL = ("rule", "same user"), ("wall", "another user")


@pytest.fixture
def bridge(agent):
    return dataclasses.replace(agent, bridge=True)


def dialog(house, mode="auto", boundary=RULE) -> Dialog:
    return Dialog(house.store, house.open, mode=mode, boundary=lambda principal: boundary)


@pytest.mark.parametrize(
    ("mode", "boundary", "counts"),
    [("auto", RULE, True), ("auto", WALL, False), ("on", WALL, True), ("on", RULE, True), ("off", RULE, False)],
)
def test_a_yes_counts_where_the_gate_is_a_rule_or_the_owner_says_so(house, bridge, mode, boundary, counts):
    assert dialog(house, mode, boundary).counts(bridge) is counts


def test_no_other_credential_reports_clicks(house, agent, owner):
    assert (dialog(house, "on").counts(agent), dialog(house, "on").counts(owner)) == (False, False)


async def test_an_allowed_mail_leaves_and_the_record_says_who_allowed_it(house, bridge):
    held = await house.submit()
    await dialog(house).answer(bridge, held.outgoing_id, held.digest, allowed=True)
    shown = await dialog(house).shown(bridge, held.outgoing_id)
    assert (shown.state, shown.decided_by) == (State.SENDING, ANSWERER)
    assert dialog(house).outcome(bridge, held.outgoing_id).message_id == shown.message_id


@pytest.mark.parametrize(("mode", "boundary"), [("auto", WALL), ("off", RULE)])
async def test_behind_a_wall_a_yes_is_refused_and_the_mail_stays_held_but_a_no_counts(house, bridge, mode, boundary):
    held = await house.submit()
    asked = dialog(house, mode, boundary)
    with pytest.raises(Forbidden):
        await asked.answer(bridge, held.outgoing_id, held.digest, allowed=True)
    assert (await asked.shown(bridge, held.outgoing_id)).state is State.HELD
    assert house.sender.taken == {}
    await asked.answer(bridge, held.outgoing_id, held.digest, allowed=False)
    assert (await asked.shown(bridge, held.outgoing_id)).state is State.REFUSED


async def test_a_yes_to_another_digest_lets_nothing_go(house, bridge):
    held = await house.submit()
    with pytest.raises(Conflict):
        await dialog(house).answer(bridge, held.outgoing_id, "0" * 64, allowed=True)
    assert (await dialog(house).shown(bridge, held.outgoing_id)).state is State.HELD


async def test_what_the_owner_decided_before_stands(house, bridge, owner):
    held = await house.submit()
    await house.open.refuse(owner, held.outgoing_id, "no")
    await dialog(house).answer(bridge, held.outgoing_id, held.digest, allowed=True)
    assert (await dialog(house).shown(bridge, held.outgoing_id)).decided_by == "owner"
    assert house.sender.taken == {}


async def test_another_agents_mail_is_not_there(house, bridge, rival):
    held = await house.submit()
    foreign = dataclasses.replace(rival, bridge=True)
    with pytest.raises(NotFound):
        await dialog(house).answer(foreign, held.outgoing_id, held.digest, allowed=True)
    with pytest.raises(NotFound):
        await dialog(house).decided(foreign, held.outgoing_id, 0)


async def test_who_waits_hears_of_a_decision_made_at_another_door(house, bridge, owner):
    held = await house.submit()
    asked = dialog(house)
    assert await asked.decided(bridge, held.outgoing_id, 0.01) is False
    waiting = asyncio.create_task(asked.decided(bridge, held.outgoing_id, 30))
    await asyncio.sleep(0)
    await house.open.refuse(owner, held.outgoing_id)
    assert await waiting is True
