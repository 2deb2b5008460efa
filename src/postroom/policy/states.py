"""The life of an outgoing mail, as one table.

A mail is *submitted* once and frozen. The policy then lets it go (*approved*), asks a person (*held*)
or says no (*refused*). A held mail waits for one answer: approve, refuse, or none in time (*expired*,
which counts as a no). An approved mail is *sending* from the moment the sender may have it; only from
there can it become *sent*, *failed*, or, where a remote service went silent and cannot be asked again,
*uncertain*, which only a person resolves. What was approved may still be refused at dispatch, because
a recipient was blocked meanwhile, and may expire while no relay can be reached; it never goes back to
a question. A row in *sending* found at start is sent again with the same id, which is not a move.

Nothing leaves a final state. That is the promise the approver relies on: a no stays a no, and one
approval sends one mail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postroom.errors import Conflict
from postroom.model.outgoing import State

MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.SUBMITTED: frozenset({State.HELD, State.APPROVED, State.REFUSED}),
    State.HELD: frozenset({State.APPROVED, State.REFUSED, State.EXPIRED}),
    State.APPROVED: frozenset({State.SENDING, State.REFUSED, State.EXPIRED, State.FAILED}),
    State.SENDING: frozenset({State.SENT, State.UNCERTAIN, State.FAILED}),
    State.UNCERTAIN: frozenset({State.SENT, State.FAILED}),
    State.SENT: frozenset(),
    State.FAILED: frozenset(),
    State.REFUSED: frozenset(),
    State.EXPIRED: frozenset(),
}
FINAL: Final = frozenset(state for state, following in MOVES.items() if not following)


def check_move(current: State, following: State) -> None:
    """Raises `Conflict` (code `wrong_state`) if an outgoing mail cannot go from one state to the other."""
    if following not in MOVES[current]:
        raise Conflict(
            f"an outgoing mail that is {current} cannot become {following}",
            code="wrong_state",
            fix="look at its present state first",
        )
