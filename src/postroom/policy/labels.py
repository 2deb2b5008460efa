"""Which labels a caller may set, and how labels are written.

Labels are trimmed and lower-cased. System labels say what the server saw happen to a message, so
nobody else may set them; `unread` and `trash` are the server's words that callers do edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from postroom.errors import Invalid
from postroom.limits import LABEL_CHARS, LABELS

SYSTEM_LABELS: Final = frozenset(
    {"received", "sent", "bounced", "complained", "delayed", "delivered", "rejected", "opened", "scheduled"}
    | {"spam", "blocked", "unauthenticated", "draft"}
)
HIDDEN_LABELS: Final = frozenset({"spam", "blocked", "unauthenticated", "trash"})


def check_labels(add: Iterable[str], remove: Iterable[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The edit in canonical form, without repeats; a label in both is only removed.

    Raises `Invalid` for a system label, an empty or over-long label, or too many.
    """
    removed = _canonical("remove_labels", remove)
    added = tuple(label for label in _canonical("add_labels", add) if label not in removed)
    return added, removed


def _canonical(field: str, labels: Iterable[str]) -> tuple[str, ...]:
    seen = dict.fromkeys(label.strip().lower() for label in labels)
    if len(seen) > LABELS:
        raise _invalid(field, f"at most {LABELS} labels", "too_many")
    for label in seen:
        if label in SYSTEM_LABELS:
            raise _invalid(field, f"Cannot use system label: {label}", "system_label")
        if not label:
            raise _invalid(field, "a label cannot be empty", "too_small")
        if len(label) > LABEL_CHARS:
            raise _invalid(field, f"a label has at most {LABEL_CHARS} characters", "too_big")
    return tuple(seen)


def _invalid(field: str, message: str, code: str) -> Invalid:
    return Invalid(message, errors=[{"path": [field], "message": message, "code": code}])
