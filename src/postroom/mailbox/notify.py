"""The doorbell: a command of the owner's, run for stored messages so that a turn-based client wakes.

An argument list, never a shell: the message reaches it through the environment, as data. It runs
after the commit, one at a time, with a minimal environment and a time limit, so that one that fails,
hangs or is missing costs no delivery. While it is busy, messages to one name wait as one ring: the
newest, with how many it stands for. A deduplicated send does not ring.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

TEXT_CHARS: Final = 4000
LIMIT_S: Final = 30.0
WAITING: Final = 256  # names; beyond that a ring is left out, the message is stored all the same
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """What the command is told."""

    sender: str
    to: str
    seq: int
    thread: str
    priority: str
    text: str
    count: int = 1

    def environment(self) -> dict[str, str]:
        """As variables. A NUL cannot be in one."""
        values = {
            "MAILBOX_FROM": self.sender,
            "MAILBOX_TO": self.to,
            "MAILBOX_SEQ": str(self.seq),
            "MAILBOX_THREAD": self.thread,
            "MAILBOX_PRIORITY": self.priority,
            "MAILBOX_TEXT": self.text[:TEXT_CHARS],
            "MAILBOX_COUNT": str(self.count),
        }
        return {name: value.replace("\0", "\ufffd") for name, value in values.items()}


class Doorbell:
    """Rings `command` for each message; `notified` is told when it succeeded."""

    def __init__(
        self,
        command: Sequence[str],
        notified: Callable[[str, int], None],
        *,
        environ: Mapping[str, str] = os.environ,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._command = tuple(command)
        self._notified = notified
        self._environ = {name: environ[name] for name in _PASSED_ON if name in environ}
        self._limit_s = limit_s
        self._waiting: dict[str, Ring] = {}
        self._any = asyncio.Event()
        self._running = False

    @property
    def is_set(self) -> bool:
        """Is there a command at all?"""
        return bool(self._command)

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing runs."""
        return not self._waiting and not self._running

    def ring(self, ring: Ring) -> None:
        """Ask for a run; returns at once."""
        earlier = self._waiting.pop(ring.to, None)
        if earlier is None and len(self._waiting) >= WAITING:
            return
        count = ring.count + (earlier.count if earlier else 0)
        self._waiting[ring.to] = Ring(
            sender=ring.sender,
            to=ring.to,
            seq=ring.seq,
            thread=ring.thread,
            priority=ring.priority,
            text=ring.text,
            count=count,
        )
        self._any.set()

    async def run(self) -> None:
        """Run what is asked for, one at a time; until cancelled."""
        while True:
            await self._any.wait()
            if not self._waiting:
                self._any.clear()
                continue
            ring = self._waiting.pop(next(iter(self._waiting)))
            self._running = True
            try:
                if await self._run(ring):
                    self._notified(ring.to, ring.seq)
            finally:
                self._running = False

    async def _run(self, ring: Ring) -> bool:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**self._environ, **ring.environment()},
                start_new_session=True,
            )
        except (OSError, ValueError) as problem:
            log.warning("notify_failed", seq=ring.seq, problem=type(problem).__name__)
            return False
        try:
            async with asyncio.timeout(self._limit_s):
                status = await process.wait()
        except TimeoutError:
            status = None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                await process.wait()
        if status != 0:
            log.warning("notify_failed", seq=ring.seq, status=status)
        return status == 0
