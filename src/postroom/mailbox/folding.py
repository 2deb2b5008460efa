"""What edits, reactions and a withdrawal make of a message: the fold from records to the present state.

Used when a change is written, and again when the log is verified, so that a state nobody wrote shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from postroom.mailbox.records import EDIT, REACTION, WITHDRAW

State = dict[str, Any]


def folded(state: Mapping[str, Any], change: Mapping[str, Any]) -> State:
    """The state after one more record."""
    kind = change["kind"]
    if kind == EDIT:
        return {**state, "text": change["text"], "mentions": list(change.get("mentions") or ()), "edited_at": change["at"]}
    if kind == WITHDRAW:
        return {**state, "withdrawn_at": change["at"]}
    if kind == REACTION:
        mark = [change["from"], change["emoji"]]
        others = [list(each) for each in state.get("reactions", ()) if list(each) != mark]
        return {**state, "reactions": others if change.get("removed") else [*others, mark]}
    return dict(state)


def target_of(change: Mapping[str, Any]) -> int | None:
    """The message a record is about, None of one that changes none."""
    about: int | None = change.get("edits") or change.get("withdraws") or change.get("reacts_to")
    return about


def may_change(author: str, change: Mapping[str, Any]) -> bool:
    """Only its author edits or withdraws a message."""
    return change["kind"] == REACTION or change.get("from") == author
