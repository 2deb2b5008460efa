"""How far an attachment's address may reach, for each kind of caller."""

import pytest

from postroom.policy.fetching import reach


@pytest.mark.parametrize(
    ("given", "reaches"),
    [
        ({"is_owner": True}, "public"),
        ({"is_owner": True, "read_outside": 3}, "public"),
        ({"is_owner": True, "profile": "observer"}, "public"),
        ({"is_owner": True, "read_only": True}, "none"),
        ({}, "public"),
        ({"read_outside": 1}, "listed"),
        ({"profile": "clerk"}, "listed"),
        ({"profile": "observer"}, "none"),
        ({"profile": "observer", "read_outside": 1}, "none"),
        ({"read_only": True}, "none"),
    ],
)
def test_a_callers_address_reaches_as_far_as_it_might_send_unprompted(given: dict[str, object], reaches: str) -> None:
    facts = {"is_owner": False, "profile": "correspondent", "read_only": False, "read_outside": 0} | given
    assert reach(**facts) == reaches  # type: ignore[arg-type]  # a table's keywords
