"""A clock that obeys, and a folder that goes away."""

from __future__ import annotations

from postroom.clock import to_iso
from postroom.testing import FakeClock, temp_data_folder


def test_the_clock_moves_only_when_told() -> None:
    clock = FakeClock()
    assert to_iso(clock.now_us()) == "2026-01-01T00:00:00.000Z"
    clock.advance(1.5)
    assert to_iso(clock.now_us()) == "2026-01-01T00:00:01.500Z"


def test_a_data_folder_is_private_and_temporary() -> None:
    with temp_data_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "owner.key").write_text("x")
    assert not folder.exists()
