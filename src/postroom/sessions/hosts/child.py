"""What every program that a host starts has in common: a diet of environment, and an end that takes along what it started.

The daemon's environment may hold the owner's secrets, so a child gets a short list of names, and those its agent's
config adds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable
from typing import Final

from postroom import config, limits

PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")
_END_S: Final = 1.0


def environment(names: Iterable[str] = ()) -> dict[str, str]:
    """What a child gets of our own environment."""
    return {name: os.environ[name] for name in (*PASSED_ON, *names) if name in os.environ}


def turn_s(settings: config.Agent | None) -> float:
    """How long one turn of this agent may take."""
    given = settings.turn_s if settings is not None else None
    return limits.SESSION_TURN_S if given is None else given


async def end(child: asyncio.subprocess.Process) -> None:
    """Stop a child that is still running, and what it started. It leads a process group of its own.

    Each wait is bounded, for `wait` ends only when nobody holds the child's pipes any more.
    """
    for how in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, how)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await child.wait()
