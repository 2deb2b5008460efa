"""Hands pending notices to the hosts postroom drives, one delivery per session at a time.

Waking is off by default; then pending waits and says so, unless the agent asked to be reminded. A
delivery nobody took is offered again after 5 s, 30 s and 5 min, then it waits for new mail or a
person. Wakes are capped per inbox and hour. A harness that came by itself is told without a wake, too.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import structlog

from postroom import limits
from postroom.clock import MICROS
from postroom.config import Config
from postroom.errors import StorageFailure
from postroom.model import event as kinds
from postroom.model.principal import Principal
from postroom.model.session import Delivery, Notice, SessionHost, Visitor
from postroom.sessions.notices import FAILURES
from postroom.sessions.pending import Pending
from postroom.sessions.rows import Row, Rows
from postroom.sessions.tables import NEVER
from postroom.sessions.waking import Waking
from postroom.store.engine import Store

RETRIES_S = (5, 30, 300)
HOUR_US = 3600 * MICROS
log = structlog.get_logger("postroom.sessions")

VISITOR = "bridge"  # the name sessions in a person's own harness go by
Directory: TypeAlias = Callable[[str], Awaitable[Principal | None]]


class Dispatcher:
    """Owns the running deliveries."""

    def __init__(
        self,
        store: Store,
        rows: Rows,
        pending: Pending,
        config: Config,
        *,
        waking: Waking,
        hosts: Mapping[str, SessionHost],
        visitor: Visitor | None,
        directory: Directory,
        taken: Callable[[Sequence[Notice]], None],
    ) -> None:
        """`taken` is told which notices a turn took."""
        self._store = store
        self._rows = rows
        self._pending = pending
        self._config = config
        self._waking = waking
        self._hosts = hosts
        self._visitor = visitor
        self._directory = directory
        self._taken = taken
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._woken: dict[str, deque[int]] = defaultdict(deque)
        self._changed = asyncio.Event()

    def poke(self) -> None:
        """Something may be due."""
        self._changed.set()

    def host_of(self, agent: Principal) -> str:
        """The configured host of an agent, else the harness that is there for it; "" when the agent pulls."""
        settings = self._config.agents.get(agent.name or "")
        if settings is not None and settings.host:
            return settings.host
        visited = self._visitor is not None and agent.agent_id is not None and self._visitor.serves(agent.agent_id)
        return VISITOR if visited else ""

    async def drives(self, agent_id: str) -> bool:
        """Whether postroom runs this agent's sessions; else they are pulled."""
        agent = await self._directory(agent_id)
        return agent is not None and self.host_of(agent) != ""

    async def run(self) -> None:
        """Start what is due until cancelled; then stop the running deliveries."""
        try:
            await self.reconsider()
            while True:
                self._changed.clear()
                wait_s = await self._start_due()
                try:
                    async with asyncio.timeout(wait_s):  # wait_for may swallow a cancel that comes with the event
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def reconsider(self) -> None:
        """The config may say otherwise than before: look again at everything that is pending."""
        await self._rows.reschedule({agent_id: await self.drives(agent_id) for agent_id in self._rows.agents()})
        self.poke()

    async def visited(self, agent_id: str) -> None:
        """A harness came for this agent, or went: look again at what is pending."""
        await self._rows.reschedule({agent_id: await self.drives(agent_id)})
        self.poke()

    async def wake(self, row: Row) -> bool:
        """A person wakes this session now, whatever the settings. False when its agent has no host to drive."""
        agent = await self._directory(row.agent_id)
        if agent is None or self.host_of(agent) not in self._hosts:
            return False
        self._start(row, agent)
        return True

    async def _start_due(self) -> float | None:
        now = self._store.clock.now_us()
        due, next_at = self._rows.due(now, len(self._running) + self._config.sessions.max_live)
        for row in due:
            if row.key in self._running or len(self._running) >= self._config.sessions.max_live:
                continue
            agent = await self._directory(row.agent_id)
            if agent is None or not self.host_of(agent):
                continue
            reason, again_at = await self._obstacle(agent, row, now)
            if not reason:
                self._woken[row.inbox_id].append(now)
                self._start(row, agent)
            elif self.host_of(agent) == VISITOR:
                self._start(row, agent, asleep=(reason, again_at))
            elif row.waiting != reason:
                await self._rows.waits(row, attempts=row.attempts, next_at=again_at, reason=reason)
        return None if next_at is None or next_at >= NEVER else max(0.01, (next_at - now) / MICROS)

    async def _obstacle(self, agent: Principal, row: Row, now: int) -> tuple[str, int]:
        """Why this session is not woken now ("" when it is), and when to look again."""
        host = self.host_of(agent)
        if host not in self._hosts:
            return f"no session host named {host} is installed", NEVER
        if reason := await self._asleep(agent, row):
            return reason, NEVER
        woken = self._woken[row.inbox_id]
        while woken and woken[0] <= now - HOUR_US:
            woken.popleft()
        if len(woken) >= limits.WAKES_PER_HOUR:
            return f"{limits.WAKES_PER_HOUR} wakes in the last hour", woken[0] + HOUR_US
        return "", 0

    async def _asleep(self, agent: Principal, row: Row) -> str:
        """Why what is pending starts no turn; "" when it does. A reminder the agent asked for always does, a failure never."""
        events = await self._pending.events(row)
        if any(event.kind == kinds.FOLLOWUP_DUE and not event.snapshot.get("answered") for event in events):
            return ""
        if not self._waking.may(agent.name or ""):
            return "wake is off"
        if events and all(event.kind in FAILURES for event in events):
            return "a report of a failure waits for the next turn"
        return ""

    def _start(self, row: Row, agent: Principal, asleep: tuple[str, int] | None = None) -> None:
        """`asleep`: it is told without a turn; why, and when to look again."""
        if row.key in self._running:
            return
        task = asyncio.create_task(self._attempt(row, agent, asleep))
        self._running[row.key] = task
        task.add_done_callback(lambda _: self._finished(row))

    def _finished(self, row: Row) -> None:
        del self._running[row.key]
        self.poke()

    async def _attempt(self, row: Row, agent: Principal, asleep: tuple[str, int] | None) -> None:
        """One delivery. What goes wrong in a host counts as not taken; a failing disk is waited for."""
        try:
            await self._deliver(row, agent, asleep)
        except StorageFailure:
            await self._store.until_accepting()
        except Exception:  # a host is foreign code: whatever it raises, nothing was taken and the notices are offered again
            log.exception("delivery_failed", session_id=row.session_id)
            await self._try_later(row)

    async def _deliver(self, row: Row, agent: Principal, asleep: tuple[str, int] | None) -> None:
        notices, seed = await self._pending.collect(row, agent)
        if not notices:
            await self._rows.taken(row, row.newest)
            return
        await self._rows.offered(row, notices[-1].seq)
        delivery = Delivery(
            session_id=row.session_id,
            thread_id=row.thread_id,
            inbox_id=row.inbox_id,
            agent=agent.name or "",
            agent_id=row.agent_id,
            notices=notices,
            wake=asleep is None,
            seed=seed,
            rebuild=lambda: self._pending.seed(row, agent, notices),
            title=await self._pending.title(row, agent, notices),
        )
        if await self._hosts[self.host_of(agent)].deliver(delivery):
            await self._rows.taken(row, notices[-1].seq)
            self._taken(notices)
        elif asleep is not None:
            reason, again_at = asleep
            await self._rows.waits(row, attempts=row.attempts, next_at=again_at, reason=reason)
        else:
            await self._try_later(row)

    async def _try_later(self, row: Row) -> None:
        now = self._store.clock.now_us()
        attempts = row.attempts + 1
        if attempts > len(RETRIES_S):
            reason, next_at = f"the session's host failed {attempts} times", NEVER
        else:
            reason, next_at = "the session's host failed, trying again", now + RETRIES_S[attempts - 1] * MICROS
        log.warning("delivery_not_taken", session_id=row.session_id, attempts=attempts)
        await self._rows.waits(row, attempts=attempts, next_at=next_at, reason=reason)
