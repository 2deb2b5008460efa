"""Taking turns by name: two callers of one name run one after the other, others at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Locks made when needed and forgotten when nobody waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Hold the turn of `name`."""
        lock, count = self._waiting.get(name, (asyncio.Lock(), 0))
        self._waiting[name] = (lock, count + 1)
        try:
            async with lock:
                yield
        finally:
            lock, count = self._waiting[name]
            if count == 1:
                del self._waiting[name]
            else:
                self._waiting[name] = (lock, count - 1)
