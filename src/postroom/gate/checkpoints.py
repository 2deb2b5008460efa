"""Signs the head of the audit at intervals, into a file beside the database: a cut or rolled-back end shows.

A line is appended and synced before it counts. A last line that a crash tore is no claim of anybody's
and is taken away; any other line that is no checkpoint stays, for `verify` to name.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postroom.clock import MICROS, Clock
from postroom.gate.audit import LOG_ID, head
from postroom.store.engine import Store

if TYPE_CHECKING:
    from postroom.ledger.checkpoint import Checkpoint

FILE: Final = "gate-audit.checkpoints"


class Checkpoints:
    """The signed heads of one audit, in `path`, under the key made of `seed` (32 bytes)."""

    def __init__(self, store: Store, clock: Clock, path: Path, seed: bytes) -> None:
        self._store = store
        self._clock = clock
        self._path = path
        self._seed = seed
        self._last: Checkpoint | None = None
        self._looked = False
        self._signed_at = clock.now_us()
        self._turn = asyncio.Lock()

    async def write_when_due(self) -> None:
        """Sign if there is much news, or some that is old enough."""
        from postroom.ledger.checkpoint import EVERY_ENTRIES, EVERY_S

        async with self._turn:
            news = await self._news()
            late = self._clock.now_us() - self._signed_at >= EVERY_S * MICROS
            if news >= EVERY_ENTRIES or (news and late):
                await self._write()

    async def write(self) -> None:
        """Sign the present head, if it is not signed already."""
        async with self._turn:
            if await self._news():
                await self._write()

    async def _news(self) -> int:
        """How many entries there are since the last checkpoint."""
        now = self._store.read_now(head)
        if now is not None and not self._looked:
            self._last = await asyncio.to_thread(_last_of, self._path)
            self._looked = True
        return 0 if now is None else now.seq - (self._last.size if self._last else 0)

    async def _write(self) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        from postroom.ledger.checkpoint import sign

        now = self._store.read_now(head)
        if now is not None:
            key = Ed25519PrivateKey.from_private_bytes(self._seed)
            signed = sign(key, log_id=LOG_ID, head=now, time=self._clock.now_us(), previous=self._last)
            await asyncio.to_thread(_append, self._path, signed.to_line())
            self._last, self._signed_at = signed, signed.time


def read_checkpoints(path: Path) -> list[Checkpoint]:
    """Every checkpoint in the file. Raises ValueError with the number of a line that is none."""
    from postroom.ledger.checkpoint import from_line

    found = []
    for number, line in enumerate(_whole_lines(path), start=1):
        try:
            found.append(from_line(line))
        except ValueError as problem:
            raise ValueError(f"line {number} of {path.name} is not a checkpoint") from problem
    return found


def _whole_lines(path: Path) -> list[str]:
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return whole.decode("utf-8", "replace").splitlines()


def _last_of(path: Path) -> Checkpoint | None:
    from postroom.ledger.checkpoint import from_line

    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    for line in reversed(_whole_lines(path)):
        try:
            return from_line(line)
        except ValueError:
            continue
    return None


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line.encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
