"""`postroom hook`: what a coding agent's hook says to its model about waiting mail. Standard library only.

It reads the client's JSON on stdin and answers in the client's own form: ids, senders and counts, never a
word of a mail and nothing to obey. With nothing new it says nothing, and whatever goes wrong, the client's
turn goes on: exit 0. `--wake` (Claude Code's Stop hook with `asyncRewake`) stays until something waits and
then wakes the idle terminal with exit 2: one per session, gone with its parent, never in `-p`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from postroom import errors
from postroom.client import Client, connect

_USAGE: Final = "usage: postroom hook [--wake]    (reads a hook's JSON on stdin)"
_INPUT_BYTES: Final = 8 * 1024 * 1024
_TIMEOUT_S, _POLL_S, _RETRY_S = 2.0, 20, 2.0
_WOKEN: Final = 2  # Claude Code wakes the session on this status
# Events at which a model reads what a hook adds; at the first kind what was said before may be said again.
_TURN: Final = frozenset({"SessionStart", "UserPromptSubmit", "BeforeAgent"})
_DURING: Final = frozenset({"PostToolUse", "AfterTool"})
_WAKES: Final = ("<task-notification>", "[SYSTEM NOTIFICATION - NOT USER INPUT]")
_SAID: Final = {"message.received": "new mail", "followup.due": "follow-up due", "mailbox.message": "message"}


def main(arguments: Sequence[str]) -> int:
    """Answer one hook; the exit status."""
    if arguments and list(arguments) != ["--wake"]:
        print(_USAGE, file=sys.stderr)
        return 0 if not sys.stdin.isatty() else 2
    try:
        asked = json.loads(sys.stdin.buffer.read(_INPUT_BYTES) or b"{}")
        if not isinstance(asked, dict):
            return 0
        return _watch(asked, os.environ) if arguments else _tell(asked, os.environ)
    except (errors.PostroomError, ValueError, OSError) as problem:
        print(f"postroom hook: {getattr(problem, 'message', type(problem).__name__)}", file=sys.stderr)
        return 0


def told(waiting: Sequence[Mapping[str, Any]]) -> str:
    """The lines a model sees."""
    count = f"{len(waiting)} notice{'s' if len(waiting) != 1 else ''}"
    lines = [f"postroom: {count} waiting in your mail. agentmail_get_thread reads a thread, mailbox_read the mailbox."]
    for one in waiting:
        parts = [f"{_SAID.get(one['kind'], one['kind'])} in {one['inbox_id']}"]
        parts += [f"{name} {one[key]}" for name, key in _SHOWN if one.get(key)]
        lines.append("- " + ", ".join(parts))
    return "\n".join(lines)


_SHOWN: Final = (("thread_id", "thread_id"), ("message_id", "message_id"), ("from", "from"))


def _tell(asked: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    event = str(asked.get("hook_event_name") or "")
    if event not in _TURN | _DURING or str(asked.get("prompt") or "").startswith(_WAKES):
        return 0  # a turn that the waking itself began has been told
    daemon = connect(environ=environ, timeout_s=_TIMEOUT_S)
    waiting = _ask(daemon, asked, again=event in _TURN, wait_s=None)
    if waiting:
        print(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": told(waiting)}}))
    return 0


def _watch(asked: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Until something waits (2), the parent is gone, or another watcher has the session (0)."""
    if environ.get("CLAUDE_CODE_ENTRYPOINT") != "cli":
        return 0
    parent = os.getppid()
    with _alone(str(asked.get("session_id") or "")) as alone:
        while alone and os.getppid() == parent:
            try:
                daemon = connect(environ=environ, timeout_s=_POLL_S + 10)
                waiting = _ask(daemon, asked, again=False, wait_s=_POLL_S)
            except (errors.TransportFailure, errors.StorageFailure):
                time.sleep(_RETRY_S)  # the daemon is away; it is found anew
                continue
            if waiting and os.getppid() == parent:
                print(told(waiting), file=sys.stderr)
                return _WOKEN
    return 0


def _ask(daemon: Client, asked: Mapping[str, Any], *, again: bool, wait_s: int | None) -> Sequence[Mapping[str, Any]]:
    client = str(asked.get("session_id") or "")
    answer = daemon.get("/api/waiting", client=client, again=int(again), wait=wait_s)
    found: Sequence[Mapping[str, Any]] = answer["waiting"]
    return found


@contextlib.contextmanager
def _alone(session: str) -> Iterator[bool]:
    """Whether this is the session's only watcher; held until the block ends, also by a crash."""
    import fcntl  # with the two below only here: a hook that merely tells starts sooner without them
    import hashlib
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), f"postroom-hook-{os.getuid()}")  # noqa: PTH118 - pathlib costs start-up time
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 - as above
    if os.stat(folder).st_uid != os.getuid():  # noqa: PTH116 - as above
        raise errors.Forbidden(f"{folder} belongs to somebody else")
    name = hashlib.sha256(session.encode()).hexdigest()[:32]
    handle = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)  # noqa: PTH118 - as above
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)
