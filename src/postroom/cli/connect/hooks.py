"""The groups of hooks that Claude Code, Codex and Gemini CLI run: one shape, other names of events and units of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from postroom.cli.connect.agent import Link

TELL_S: Final = 10
WATCH_S: Final = 86_400


def telling(to: Link, events: Iterable[str], timeout: int = TELL_S) -> dict[str, Any]:
    """At each of these events the model is told what waits."""
    return {event: _group(to.shell("hook"), timeout) for event in events}


def waking(to: Link) -> dict[str, Any]:
    """Claude Code: a watcher that stays when a turn has ended, and wakes the idle session."""
    return {"Stop": _group(to.shell("hook", "--wake"), WATCH_S, asyncRewake=True)}


def queueing(to: Link, codex: str) -> dict[str, Any]:
    """Codex: the same, through its own queue."""
    return {"Stop": _group(to.shell("hook", "--queue", codex), TELL_S)}


def _group(command: str, timeout: int, **more: Any) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": timeout, **more}]}
