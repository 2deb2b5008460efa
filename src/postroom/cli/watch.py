"""Waking an idle session of a client that a person drives, from its Stop hook. Standard library only.

A watcher stays when a turn has ended until something waits that the session was not told of. There is one
per session, it is gone with the client that started it, and what it said is not said again in the turn it
began. Claude Code keeps the hook itself running (`asyncRewake`) and wakes on exit status 2; a run that
nobody sits at (`-p`) would not end before its hook, so there it leaves at once. Codex waits for its hooks:
there the watcher goes on as a process of its own, and says it through `codex queue`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from postroom import errors
from postroom.cli.hook import ask, told
from postroom.client import connect

_POLL_S, _RETRY_S = 5, 2.0
_QUEUED_S: Final = 60
_WOKEN: Final = 2  # Claude Code wakes the session on this status


def wake(asked: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Claude Code: status 2 and the notice on stderr once there is one, else 0."""
    if environ.get("CLAUDE_CODE_ENTRYPOINT") != "cli":
        return 0
    client = _client()
    notice = _notice(asked, environ, lambda: os.getppid() == client)
    if notice is None:
        return 0
    print(notice, file=sys.stderr)
    return _WOKEN


def queue(asked: Mapping[str, Any], environ: Mapping[str, str], codex: str) -> int:
    """Codex: leave a watcher behind that puts the notice into the thread's queue."""
    client = _client()
    if client is None or os.fork():
        return 0
    try:
        _detach()
        notice = _notice(asked, environ, lambda: _lives(client))
        if notice is not None:
            command = [codex, "queue", "--thread", str(asked.get("session_id") or ""), "--message", notice]
            subprocess.run(command, check=False, timeout=_QUEUED_S, stdin=subprocess.DEVNULL)  # noqa: S603 - the person's own codex
    finally:
        os._exit(0)  # the hook was answered by the parent


def _notice(asked: Mapping[str, Any], environ: Mapping[str, str], goes_on: Callable[[], bool]) -> str | None:
    """What waits, as soon as something does; None when the client is gone or another watcher has the session."""
    with _alone(str(asked.get("session_id") or "")) as alone:
        while alone and goes_on():
            try:
                daemon = connect(environ=environ, timeout_s=_POLL_S + 10)
                waiting = ask(daemon, asked, again=False, wait_s=_POLL_S)
            except (errors.TransportFailure, errors.StorageFailure):
                time.sleep(_RETRY_S)  # the daemon is away; it is found anew
                continue
            if waiting and goes_on():
                return told(waiting)
    return None


def _client() -> int | None:
    """The process that started this hook; None when it is gone already and another has become the parent."""
    parent, reader = os.getppid(), select.poll()
    reader.register(sys.stdout.fileno(), 0)  # asks for nothing but what is always told: that nobody reads any more
    return None if reader.poll(0) else parent


def _detach() -> None:
    """Away from the client's terminal and pipes, which it reads to their end."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _alone(session: str) -> Iterator[bool]:
    """Whether this is the session's only watcher; held until the block ends, also by a crash."""
    folder = Path(tempfile.gettempdir()) / f"postroom-hook-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise errors.Forbidden(f"{folder} belongs to somebody else")
    name = hashlib.sha256(session.encode()).hexdigest()[:32]
    handle = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)
