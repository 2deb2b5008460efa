"""What secrets look like: the formats, as data for `safety.redact`.

A format is a fact its issuer published or shows in every token; each rule here is written for
postroom. `anchor` is the short piece a text must hold for the rule to be worth running; group 1 of
`pattern`, if there is one, is the secret itself, so that labels around it stay. `compact` is the
pattern for text without white space, only where the token's end can be told without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One format. `entropy`: the least bits per character. `refuse`: values that are no secret after all."""

    kind: str
    anchor: str
    pattern: str
    compact: str = ""
    entropy: float = 0.0
    refuse: re.Pattern[str] | None = None


def _token(kind: str, prefix: str, body: str, *, entropy: float = 0.0) -> Rule:
    """A token with a telling prefix. A `body` of fixed length is also found when split by white space."""
    fixed = re.search(r"\{\d+\}$", body) is not None
    return Rule(
        kind=kind,
        anchor=prefix,
        pattern=rf"\b{prefix}{body}",
        compact=f"{prefix}{body}" if fixed else "",
        entropy=entropy,
    )


RULES: Final[tuple[Rule, ...]] = (
    _token("postroom-key", "am_", r"[A-Za-z0-9]{6,40}_[A-Za-z0-9]{16,}"),
    _token("aws-key", "(?:AKIA|ASIA|ABIA|ACCA)", "[A-Z2-7]{16}"),
    _token("github-token", "gh[pousr]_", "[A-Za-z0-9]{36}"),
)
