"""Figures over time: how much of what happened when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postroom.clock import MICROS
from postroom.errors import Invalid

BUCKETS: Final = 1000
REACH_S: Final = 90 * 86400
DAY_S: Final = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time in steps of `period_us`; moments in microseconds, `start` inclusive, `end` exclusive."""

    start: int
    end: int
    period_us: int

    @classmethod
    def of(cls, *, now: int, start: int | None, end: int | None, period_s: int, before_s: int = 0) -> Span:
        """The last day unless said otherwise; an end to come is now. `before_s` counts towards the range.

        Raises `Invalid` for what is turned round, too far back, or would be too many steps.
        """
        last = min(now, now if end is None else end)
        first = last - DAY_S * MICROS if start is None else start
        if first >= last:
            raise _invalid("start", "start must be before end")
        if first < now - REACH_S * MICROS - MICROS:
            raise _invalid("start", f"start must be within the last {REACH_S // DAY_S} days", "query_range_too_wide")
        if (last - first + before_s * MICROS) // (period_s * MICROS) > BUCKETS:
            raise _invalid("period", f"the range must not exceed {BUCKETS} periods", "query_range_too_wide")
        return cls(start=first, end=last, period_us=period_s * MICROS)

    def grid(self) -> range:
        """The multiples of the period within it."""
        return range(self.start + -self.start % self.period_us, self.end + 1, self.period_us)


def _invalid(field: str, message: str, code: str = "validation_error") -> Invalid:
    return Invalid(message, code=code, errors=[{"path": [field], "message": message, "code": code}])
