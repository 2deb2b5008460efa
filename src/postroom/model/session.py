"""What a session is told, and how a session host is spoken to.

A session is a function of a thread: its id is prefix + thread id. What it has not yet taken is
*pending*; a host is handed notices and says when a turn took them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Liveness(StrEnum):
    """What a host knows of a session."""

    LIVE = "live"
    PERSISTED = "persisted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell a session. `seq` is the event's place in the log; `text` is the fenced rendering.

    `repeated` is true when it was offered before and nobody confirmed that a turn took it.
    """

    seq: int
    event_id: str
    kind: str
    text: str
    message_id: str | None = None
    thread_id: str | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session as listed. `pending` counts notices after the cursor; `waiting` says why they wait, if they do."""

    session_id: str
    thread_id: str | None
    inbox_id: str
    agent_id: str
    host: str
    pending: int
    offered: int
    taken: int
    waiting: str = ""
    updated_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """That something waits: ids and a plain address, nothing a sender could word. None where there is none to show."""

    session_id: str
    thread_id: str | None
    inbox_id: str
    seq: int
    kind: str
    message_id: str | None = None
    sender: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Everything a host needs to hand notices to one session. `seed` is set when the session is fresh.

    `rebuild` makes a seed anew, for a host that finds the session's own memory gone. `title` names the thread
    for a person, cleaned.
    """

    session_id: str
    thread_id: str | None
    inbox_id: str
    agent: str
    agent_id: str
    notices: tuple[Notice, ...]
    wake: bool
    seed: str | None = None
    rebuild: Callable[[], Awaitable[str | None]] | None = None
    title: str = ""


class SessionHost(Protocol):
    """What runs an agent's sessions."""

    async def deliver(self, delivery: Delivery) -> bool:
        """Hand over, waking the session or not. True when a turn took the notices."""
        ...

    async def liveness(self, session_id: str) -> Liveness: ...

    async def close(self) -> None: ...


class Visitor(SessionHost, Protocol):
    """A host that comes by itself: a harness a person runs. It can be told without being woken (`Delivery.wake` false)."""

    def serves(self, agent_id: str) -> bool:
        """Whether a harness is there for this agent now."""
        ...
