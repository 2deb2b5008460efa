"""What a WebSocket client asks for, and whether an event is part of it. Pure: no socket, no store.

A subscription names inboxes, pods and event types; what it does not name it does not narrow.
Several add up. Event types that carry unwanted mail come only to who names them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from postroom.errors import Invalid
from postroom.limits import SOCKET_SCOPE_IDS
from postroom.model.event import EVENT_TYPES, RESTRICTED, Event


class Command(msgspec.Struct, kw_only=True):
    """A frame from the client. `cursor` is ours: the last event it has seen."""

    type: str
    inbox_ids: list[str] | None = None
    pod_ids: list[str] | None = None
    event_types: list[str] | None = None
    cursor: str | None = None

    def echo(self) -> dict[str, Any]:
        """The scope as it was asked for."""
        named = {"inbox_ids": self.inbox_ids, "pod_ids": self.pod_ids, "event_types": self.event_types}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One scope. It begins after the event at `since`; None in a field means all of them."""

    inbox_ids: frozenset[str] | None
    event_types: frozenset[str] | None
    since: int

    def matches(self, event: Event) -> bool:
        """Is this event part of it?"""
        if event.seq <= self.since:
            return False
        if self.inbox_ids is not None and event.inbox_id not in self.inbox_ids:
            return False
        if self.event_types is None:
            return event.kind not in RESTRICTED
        return event.kind in self.event_types

    def without(self, inbox_ids: frozenset[str] | None, event_types: frozenset[str] | None) -> Subscription | None:
        """What is left of it after an unsubscribe of this scope; None when nothing is."""
        if inbox_ids is None and event_types is None:
            return None
        inboxes, types = self.inbox_ids, self.event_types
        covers_inboxes = inbox_ids is None or (inboxes is not None and inboxes <= inbox_ids)
        covers_types = event_types is None or (types is not None and types <= event_types)
        if covers_inboxes and covers_types:
            return None
        if covers_types and inboxes is not None and inbox_ids is not None:
            return replace(self, inbox_ids=inboxes - inbox_ids)
        if covers_inboxes and types is not None and event_types is not None:
            return replace(self, event_types=types - event_types)
        return self


def read_command(text: str | None) -> Command:
    """The client's frame. Raises `Invalid` for anything but a subscribe or unsubscribe."""
    if text is None:
        raise Invalid("frames are text, one JSON object each")
    try:
        command = msgspec.json.decode(text, type=Command)
    except (msgspec.DecodeError, RecursionError):
        raise Invalid("the frame is not a JSON object of the expected form", fix=_FORM) from None
    if command.type not in ("subscribe", "unsubscribe"):
        raise Invalid("a frame's type is subscribe or unsubscribe", fix=_FORM)
    for name, values in command.echo().items():
        if not 1 <= len(values) <= SOCKET_SCOPE_IDS:
            raise Invalid(f"{name} has 1 to {SOCKET_SCOPE_IDS} entries", fix="leave it out to mean all of them")
    return command


def check_types(names: list[str] | None) -> frozenset[str] | None:
    """The event types asked for. Raises `Invalid` for a name that is none."""
    if names is None:
        return None
    if not EVENT_TYPES.issuperset(names):
        message = "event_types names something that is no event type"
        raise Invalid(
            message,
            fix=f"use some of {', '.join(sorted(EVENT_TYPES))}",
            errors=[{"path": ["event_types"], "message": message, "code": "invalid_value"}],
        )
    return frozenset(names)


_FORM = 'send {"type": "subscribe"}, with inbox_ids, pod_ids, event_types and cursor as you need them'
