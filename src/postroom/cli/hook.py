"""`postroom hook`: what a coding agent's hook says to its model about waiting mail. Standard library only.

It reads the client's JSON on stdin and answers in the client's own form: ids, senders and counts, never a
word of a mail and nothing to obey. With nothing new it says nothing, and whatever goes wrong, the client's
turn goes on: exit 0. `--wake` (Claude Code) and `--queue CODEX` (Codex) are for the Stop hook of those who
want to be woken: see `watch`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from postroom import errors
from postroom.client import Client, connect

_USAGE: Final = "usage: postroom hook [--wake | --queue CODEX]    (reads a hook's JSON on stdin)"
_INPUT_BYTES: Final = 8 * 1024 * 1024
_MOST_CHARS: Final = 4_000  # clients show this much whole (Codex about 5,000 characters, Claude Code 10,000)
_TIMEOUT_S: Final = 5.0
# Events at which a model reads what a hook adds; at the first kind what was said before may be said again.
_TURN: Final = frozenset({"SessionStart", "UserPromptSubmit", "BeforeAgent"})
_DURING: Final = frozenset({"PostToolUse", "AfterTool"})
_LEAD: Final = "postroom: "
# How a prompt begins that a waking made: by Claude Code in two versions, and by `codex queue`.
_WAKES: Final = ("<task-notification>", "[SYSTEM NOTIFICATION - NOT USER INPUT]", _LEAD)
SAID: Final = {"message.received": "new mail", "followup.due": "follow-up due", "mailbox.message": "message"}
_SHOWN: Final = (("thread_id", "thread_id"), ("message_id", "message_id"), ("from", "from"))


def main(arguments: Sequence[str]) -> int:
    """Answer one hook; the exit status."""
    wakes = list(arguments) == ["--wake"]
    queues = len(arguments) == 2 and arguments[0] == "--queue"
    if arguments and not (wakes or queues):
        print(_USAGE, file=sys.stderr)
        return 0 if not sys.stdin.isatty() else 2
    try:
        asked = json.loads(sys.stdin.buffer.read(_INPUT_BYTES) or b"{}")
        if not isinstance(asked, dict):
            return 0
        if not (wakes or queues):
            return _tell(asked, os.environ)
        from postroom.cli import watch  # a hook that merely tells starts sooner without it

        return watch.wake(asked, os.environ) if wakes else watch.queue(asked, os.environ, arguments[1])
    except (errors.PostroomError, ValueError, OSError) as problem:
        print(f"postroom hook: {getattr(problem, 'message', type(problem).__name__)}", file=sys.stderr)
        return 0


def told(waiting: Sequence[Mapping[str, Any]]) -> str:
    """The lines a model sees, as many as fit."""
    count = f"{len(waiting)} notice{'s' if len(waiting) != 1 else ''}"
    text = f"{_LEAD}{count} waiting in your mail. agentmail_get_thread reads a thread, mailbox_read the mailbox."
    for number, one in enumerate(waiting):
        parts = [f"{SAID.get(one['kind'], one['kind'])} in {one['inbox_id']}"]
        parts += [f"{name} {one[key]}" for name, key in _SHOWN if one.get(key)]
        line = "\n- " + ", ".join(parts)
        if len(text) + len(line) > _MOST_CHARS:
            return f"{text}\n- and {len(waiting) - number} more"
        text += line
    return text


def ask(daemon: Client, asked: Mapping[str, Any], *, again: bool, wait_s: int | None = None) -> Sequence[Mapping[str, Any]]:
    """What waits and the client's session was not told of yet; `again`, if not too often."""
    client = str(asked.get("session_id") or "")
    found: Sequence[Mapping[str, Any]] = daemon.get("/api/waiting", client=client, again=int(again), wait=wait_s)["waiting"]
    return found


def _tell(asked: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    event = str(asked.get("hook_event_name") or "")
    if event not in _TURN | _DURING or str(asked.get("prompt") or "").startswith(_WAKES):
        return 0  # a turn that the waking itself began has been told
    waiting = ask(connect(environ=environ, timeout_s=_TIMEOUT_S), asked, again=event in _TURN)
    if waiting:
        print(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": told(waiting)}}))
    return 0
