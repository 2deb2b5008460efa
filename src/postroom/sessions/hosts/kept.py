"""Processes that outlive a turn: one for each agent, started when it is needed, closed when it is idle, worn out or gone.

What a turn does with a process is its host's business. A process in a turn is never closed here, unless it is gone
already or the daemon stops; what no turn took is offered again anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from postroom import config, limits
from postroom.model.session import Delivery

_ENOUGH_S: Final = (
    limits.SESSION_TOKEN_S * 0.8
)  # a process's first token ends with the time it was made for; it is renewed before


class Process(Protocol):
    """What is kept. `turns` counts what it was asked, `opened` are the sessions it has live."""

    turns: int

    @property
    def alive(self) -> bool: ...

    @property
    def opened(self) -> Collection[str]: ...


P = TypeVar("P", bound=Process)
Ends: TypeAlias = contextlib.AsyncExitStack


@dataclass(slots=True, kw_only=True)
class Kept(Generic[P]):
    """A running process, what there is to do at its end, and how busy it is."""

    process: P
    ends: Ends
    started: float
    busy: int = 0


class KeptProcesses(Generic[P]):
    """One process for each agent. `start` makes one and says on `Ends` what ends it, also when it fails half way."""

    def __init__(self, start: Callable[[Delivery, Ends], Awaitable[P]], sessions: config.Sessions) -> None:
        self._start = start
        self._sessions = sessions
        self._kept: dict[str, Kept[P]] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def busy(self, delivery: Delivery) -> AsyncIterator[Kept[P]]:
        """The agent's process, started if it does not run, and not closed for the length of the block."""
        kept = await self._running(delivery)
        try:
            yield kept
        finally:
            kept.busy -= 1
            self._let_go(delivery.agent_id, kept)

    def live(self, session_id: str) -> bool:
        """Whether a process that runs has this session open."""
        return any(session_id in kept.process.opened and kept.process.alive for kept in self._kept.values())

    async def close(self) -> None:
        """Close every process, whatever it does."""
        await asyncio.gather(*(self._end(agent_id, kept) for agent_id, kept in list(self._kept.items())))
        await asyncio.gather(*self._closing)

    async def _running(self, delivery: Delivery) -> Kept[P]:
        async with self._locks[delivery.agent_id]:
            kept = self._kept.get(delivery.agent_id)
            if kept is None or not kept.process.alive:
                if kept is not None:
                    await self._end(delivery.agent_id, kept)
                async with Ends() as ends:
                    process = await self._start(delivery, ends)
                    kept = Kept(process=process, ends=ends.pop_all(), started=time.monotonic())
                self._kept[delivery.agent_id] = kept
            kept.busy += 1
            return kept

    def _let_go(self, agent_id: str, kept: Kept[P]) -> None:
        """After a turn: close one that has too many sessions or is old; else look again when it has been idle."""
        if kept.busy:
            return
        worn = len(kept.process.opened) >= self._sessions.max_live or time.monotonic() - kept.started > _ENOUGH_S
        if worn or not kept.process.alive:
            self._retire(agent_id, kept)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self._sessions.idle_dispose_s, self._dispose, agent_id, kept, kept.process.turns)

    def _dispose(self, agent_id: str, kept: Kept[P], turns: int) -> None:
        if not kept.busy and turns == kept.process.turns:
            self._retire(agent_id, kept)

    def _retire(self, agent_id: str, kept: Kept[P]) -> None:
        if self._kept.get(agent_id) is kept:
            task = asyncio.create_task(self._close(agent_id, kept))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close(self, agent_id: str, kept: Kept[P]) -> None:
        async with self._locks[agent_id]:
            if not kept.busy:
                await self._end(agent_id, kept)

    async def _end(self, agent_id: str, kept: Kept[P]) -> None:
        """With the agent's lock held: two processes must not share a home."""
        if self._kept.get(agent_id) is kept:
            del self._kept[agent_id]
            await kept.ends.aclose()
