"""Time, as an argument. Inside postroom a moment is an integer count of microseconds since the Unix epoch, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

MICROS = 1_000_000


class Clock(Protocol):
    """Where the current time comes from; tests inject their own."""

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


def to_iso(at_us: int) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`, as the AgentMail API writes it."""
    seconds, micros = divmod(at_us, MICROS)
    return f"{_whole(seconds)}.{micros // 1000:03d}Z"


@lru_cache(maxsize=1024)
def _whole(seconds: int) -> str:
    """What many moments of one page or one second share, and costs most of the formatting."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def from_iso(text: str) -> int:
    """An RFC 3339 moment with an offset, in microseconds. Raises ValueError on anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment needs an offset, for example 2026-01-31T08:00:00Z")
    whole = moment.astimezone(UTC)
    return int(whole.replace(microsecond=0).timestamp()) * MICROS + whole.microsecond
