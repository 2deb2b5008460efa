"""The policy as a page: every cell is an answer of `decide` or a move of `states`, asked for here.

`python -m postroom.policy.table > docs/reference/policy.md` writes it; a test fails when the page is
not what this module says.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from postroom.policy import decision
from postroom.policy.decision import Decision, Facts, RecipientFacts, decide
from postroom.policy.states import MOVES

_SOMEONE: Final = RecipientFacts(address="someone@example.com")
RECIPIENTS: Final[Mapping[str, RecipientFacts]] = {
    "blocked": replace(_SOMEONE, blocked=True, trusted=True, authenticated=True),
    "suppressed (bounced or complained)": replace(_SOMEONE, suppressed=True, trusted=True, authenticated=True),
    "outside the limit": replace(_SOMEONE, limit_set=True, trusted=True, authenticated=True),
    "trusted and authenticated": replace(_SOMEONE, trusted=True, authenticated=True),
    "trusted, not authenticated": replace(_SOMEONE, trusted=True),
    "in the limit, not trusted": replace(_SOMEONE, limit_set=True, in_limit=True, authenticated=True),
    "an inbox of the house, not trusted": replace(_SOMEONE, is_local=True, authenticated=True),
    "anyone else": _SOMEONE,
}
_AGENT: Final = Facts(principal_is_owner=False, recipients=(_SOMEONE,))
SITUATIONS: Final[Mapping[str, Facts]] = {
    'approval = "always"': _AGENT,
    'approval = "risk"': replace(_AGENT, approval="risk"),
    '"risk", has read mail from outside': replace(_AGENT, approval="risk", read_outside=1),
    "sent with the owner's key": replace(_AGENT, principal_is_owner=True),
}
_TRUSTED: Final = replace(_AGENT, approval="risk", recipients=(RECIPIENTS["trusted and authenticated"],))
WHOLE_MAIL: Final[Mapping[str, Facts]] = {
    "read_only is on": replace(_TRUSTED, read_only=True),
    "profile observer": replace(_TRUSTED, profile="observer"),
    "profile clerk, a recipient outside the house": replace(_TRUSTED, profile="clerk"),
    "a recipient no relay can reach": replace(_TRUSTED, unreachable={_SOMEONE.address: "no relay is configured"}),
    "it has Bcc, and the owner did not switch that on": replace(_TRUSTED, hidden=(_SOMEONE.address,)),
    "it holds a secret": replace(_TRUSTED, secrets_found=("aws-key-id",)),
    "a cap of the day is used up": replace(_TRUSTED, over_cap="20 mails a day"),
}


def markdown() -> str:
    """The whole page."""
    essay = (decision.__doc__ or "").split("\n\n", 1)[1].strip()
    parts = [
        "# May it go out?",
        "<!-- made by `python -m postroom.policy.table`; do not edit -->",
        essay,
        "## One recipient",
        _grid("recipient", RECIPIENTS, SITUATIONS),
        "With several recipients the strictest answer holds for the whole mail.",
        "## Whatever the recipient",
        "Here the recipient is trusted and authenticated, and `approval` is `risk`.",
        _rows(("the mail or its sender", "answer"), ((name, _cell(decide(facts))) for name, facts in WHOLE_MAIL.items())),
        "## Where an outgoing mail can stand",
        _rows(
            ("state", "can become"),
            ((state.value, ", ".join(sorted(following)) or "final") for state, following in MOVES.items()),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _grid(corner: str, recipients: Mapping[str, RecipientFacts], situations: Mapping[str, Facts]) -> str:
    lines = [
        (name, *(_cell(decide(replace(facts, recipients=(recipient,)))) for facts in situations.values()))
        for name, recipient in recipients.items()
    ]
    return _rows((corner, *situations), lines)


def _cell(answer: Decision) -> str:
    word = {"send": "**send**", "hold": "ask", "refuse": "refuse"}[answer.outcome]
    return f"{word} (`{answer.code}`)" if answer.outcome == "refuse" else word


def _rows(head: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    table = [head, tuple("---" for _ in head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


if __name__ == "__main__":
    sys.stdout.write(markdown())
