"""How much one sender may write: a bucket of messages per agent that fills evenly over a minute."""

from __future__ import annotations

from postroom.clock import MICROS, Clock
from postroom.errors import Busy

_MINUTE_US = 60 * MICROS


class Rates:
    """`per_minute` 0: no bound. The owner's key is not counted."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._most = per_minute
        self._clock = clock
        self._left: dict[str, tuple[float, int]] = {}

    def take(self, sender: str) -> None:
        """One message of this sender. Raises `Busy` with the wait until the next may go."""
        if not self._most:
            return
        now = self._clock.now_us()
        left, at = self._left.get(sender, (float(self._most), now))
        left = min(float(self._most), left + (now - at) * self._most / _MINUTE_US)
        if left < 1:
            self._left[sender] = left, now
            raise Busy(f"more than {self._most} messages a minute", retry_after_s=(1 - left) * 60 / self._most)
        self._left[sender] = left - 1, now
