"""A clock that stands still until it is told to move."""

from __future__ import annotations

from postroom.clock import MICROS


class FakeClock:
    """Starts at `now_us` (2026-01-01T00:00:00Z unless given) and moves only by `advance`."""

    def __init__(self, now_us: int = 1_767_225_600 * MICROS) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self._now_us += round(seconds * MICROS)
