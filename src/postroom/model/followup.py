"""Follow-ups are labels on a thread: `dsh-followup`, by which they are found, and `dsh-followup-YYYY-MM-DD`, when.

Pure functions on labels and dates. Who writes them and who is told is others' business.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Final

FOLLOWUP: Final = "dsh-followup"
_DATED: Final = FOLLOWUP + "-"


def label_of(due: date) -> str:
    """The label that asks for a reminder on this day."""
    return _DATED + due.isoformat()


def due_date(label: str) -> date | None:
    """The day a label names; None for any other label, and for a day no calendar has."""
    if not label.startswith(_DATED):
        return None
    return calendar_date(label.removeprefix(_DATED))


def calendar_date(text: str) -> date | None:
    """The date written YYYY-MM-DD, and no other way."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a calendar date has no zone
    except ValueError:
        return None
    return day if day.isoformat() == text else None


def due_labels(labels: Iterable[str], today: date) -> list[str]:
    """The labels whose day has come, earliest first."""
    return sorted(label for label in labels if (day := due_date(label)) is not None and day <= today)


def today_utc(now_s: float) -> date:
    """The day it is, in UTC."""
    return datetime.fromtimestamp(now_s, UTC).date()
