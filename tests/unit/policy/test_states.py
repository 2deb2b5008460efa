"""The moves of an outgoing mail."""

from itertools import product

import pytest

from postroom.errors import Conflict
from postroom.model.outgoing import State
from postroom.policy.states import FINAL, MOVES, check_move


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(State)
    assert {State.SENT, State.FAILED, State.REFUSED, State.EXPIRED} == FINAL


@pytest.mark.parametrize(("current", "following"), list(product(State, State)))
def test_only_moves_of_the_table_are_allowed(current: State, following: State) -> None:
    if following in MOVES[current]:
        check_move(current, following)
        return
    with pytest.raises(Conflict) as refused:
        check_move(current, following)
    assert refused.value.code == "wrong_state"


def test_only_an_approval_leads_to_sending_and_no_state_leads_back_to_a_question() -> None:
    assert [state for state, following in MOVES.items() if State.SENDING in following] == [State.APPROVED]
    assert [state for state, following in MOVES.items() if State.HELD in following] == [State.SUBMITTED]


def test_every_state_can_be_reached() -> None:
    reached, waiting = {State.SUBMITTED}, [State.SUBMITTED]
    while waiting:
        new = MOVES[waiting.pop()] - reached
        reached |= new
        waiting += new
    assert reached == set(State)
