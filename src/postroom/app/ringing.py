"""Mailbox mail wakes the sessions postroom runs: one session per agent beside those of its mail threads.

The mailbox keeps its own numbers, so its mail needs no event beside the record: a named cursor in the event
log says how far a turn took it. What a host is handed is what `mailbox_read` shows, fenced. Waking, its cap
and the repeated offers follow the same rules as for mail; an agent whose wake is off is told by its hooks
and `postroom wait`, and a harness a person runs by its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from postroom import limits
from postroom.config import Config
from postroom.errors import StorageFailure
from postroom.mailbox.notices import KIND, SHOWN
from postroom.mailbox.reading import Query
from postroom.mailbox.records import Message
from postroom.mailbox.room import Mailbox
from postroom.model.session import Delivery, Notice, SessionHost
from postroom.safety.fence import Fence
from postroom.sessions.dispatch import HOUR_US, RETRIES_S
from postroom.sessions.notices import REMINDER
from postroom.sessions.waking import Waking
from postroom.store.engine import Store
from postroom.tools.mailbox_view import message_block

INBOX: Final = "mailbox"
_CURSOR: Final = "sessions.mailbox:"
Names = Callable[[], Awaitable[Mapping[str, str]]]  # agents by name, with their ids
log = structlog.get_logger("postroom.sessions")


class Ringing:
    """Follows the mailbox for every agent whose sessions a host of ours runs."""

    def __init__(
        self, store: Store, mailbox: Mailbox, config: Config, *, waking: Waking, hosts: Mapping[str, SessionHost], names: Names
    ) -> None:
        self._store = store
        self._mailbox = mailbox
        self._config = config
        self._waking = waking
        self._hosts = hosts
        self._names = names
        self._woken: dict[str, deque[int]] = {}
        self._handing: set[str] = set()

    async def run(self) -> None:
        """Follow until cancelled, whoever may be woken just now."""
        hosted = [name for name, agent in self._config.agents.items() if agent.host in self._hosts]
        following: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                for name in hosted:
                    task = following.get(name)
                    if self._waking.may(name) and (task is None or task.done()):
                        following[name] = tasks.create_task(self._steadily(name))
                    elif not self._waking.may(name) and task is not None and name not in self._handing:
                        following.pop(name).cancel()  # else it ends by itself once the turn has ended
                await self._waking.change()

    async def _steadily(self, name: str) -> None:
        while self._waking.may(name):
            try:
                await self._follow(name)
            except StorageFailure:
                await self._store.until_accepting()
                await asyncio.sleep(RETRIES_S[0])

    async def _follow(self, name: str) -> None:
        cursor, failures = await self._store.events.cursor(_CURSOR + name), 0
        with self._mailbox.bells.listening(name) as bell:
            while self._waking.may(name):
                bell.clear()
                query = Query(reader=name, since=max(cursor, self._acknowledged(name)), limit=SHOWN)
                found = self._mailbox.look(query)
                new = [message for message in found.messages if message.change is None]
                if not new:
                    cursor = max(cursor, found.cursor)
                    if not found.more:
                        await bell.wait()
                elif await self._handed(name, new, again=failures > 0):
                    cursor, failures = new[-1].seq, 0
                    await self._took(name, cursor)
                else:
                    await self._pause(bell, failures)
                    failures += 1

    def _acknowledged(self, name: str) -> int:
        """What the agent took itself it is not told of."""
        one = self._mailbox.roster.get(name)
        return one.acknowledged if one is not None else 0

    async def _handed(self, name: str, messages: Sequence[Message], *, again: bool) -> bool:
        """Offer the messages to the agent's host; False when no turn took them."""
        agent_id = (await self._names()).get(name)
        if agent_id is None or self._is_capped(name):
            return False
        delivery = Delivery(
            session_id=self._config.sessions.prefix + INBOX,
            thread_id=None,
            inbox_id=INBOX,
            agent=name,
            agent_id=agent_id,
            notices=tuple(_notice(message, again=again) for message in messages),
            wake=True,
        )
        self._handing.add(name)
        try:
            return await self._hosts[self._config.agents[name].host].deliver(delivery)
        except StorageFailure:
            raise
        except Exception:  # a host is foreign code: whatever it raises, nothing was taken and the messages are offered again
            log.exception("delivery_failed", session_id=delivery.session_id)
            return False
        finally:
            self._handing.discard(name)

    async def _took(self, name: str, seq: int) -> None:
        await self._store.write(lambda tx: self._store.events.set_cursor(tx, _CURSOR + name, seq))
        self._mailbox.roster.notified(name, seq)  # said once it will not be offered again

    async def _pause(self, bell: asyncio.Event, failures: int) -> None:
        """Until the next offer is due; after the last one until new mail comes."""
        left = RETRIES_S[failures] if failures < len(RETRIES_S) else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await bell.wait()

    def _is_capped(self, name: str) -> bool:
        now = self._store.clock.now_us()
        woken = self._woken.setdefault(name, deque())
        while woken and woken[0] <= now - HOUR_US:
            woken.popleft()
        if len(woken) >= limits.WAKES_PER_HOUR:
            return True
        woken.append(now)
        return False


def _notice(message: Message, *, again: bool) -> Notice:
    lead = ["(offered before; it may already have been handled)"] if again else []
    text = "\n".join([*lead, "Mail in your mailbox.", message_block(Fence(), message), REMINDER])
    return Notice(
        seq=message.seq, event_id=f"mailbox-{message.seq}", kind=KIND, text=text, message_id=str(message.seq), repeated=again
    )
