"""When the gate is a wall, and that every doubt makes it a rule with its reason."""

import pytest

from postroom.gate.boundary import judge


@pytest.mark.parametrize(
    ("peer", "own", "mode", "boundary", "why"),
    [
        (1001, 1000, 0o700, "wall", "OS user 1001"),
        (1000, 1000, 0o700, "rule", "own OS user"),
        (0, 1000, 0o700, "rule", "root"),
        (None, 1000, 0o700, "rule", "not known"),
        (1001, 1000, 0o755, "rule", "mode 0755"),
        (1001, 1000, 0o701, "rule", "mode 0701"),
        (1001, 0, 0o700, "wall", "OS user 1001"),
        (0, 0, 0o700, "rule", "root"),
    ],
)
def test_the_judgement_and_its_reason(peer, own, mode, boundary, why):
    judged, reason = judge(peer, own, mode)
    assert judged == boundary
    assert why in reason
