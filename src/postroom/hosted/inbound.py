"""How mail of a hosted office is heard of: over its WebSocket, by polling, or not at all.

The socket's life is one loop, and every end of a connection is the same: it is over, a new one is opened and
subscribes anew, and what was missed is listed before the first frame is read. So it makes no difference whether it
was closed with 1000, broke off with 1006, fell silent (pings find out), was open before anybody looked, or was never
open at all. Attempts are counted only while none holds: a connection that lived a minute clears the count, and when
the count is used up polling takes over, with one more attempt every so often. The state is there to be looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Literal, TypeAlias

import structlog

from postroom import config
from postroom.clock import MICROS
from postroom.errors import PostroomError, StorageFailure
from postroom.hosted.api import PAUSE_MAX_S, PAUSE_S, Pause, Unexpected
from postroom.hosted.arrivals import Arrivals, of_event
from postroom.hosted.catchup import CatchUp
from postroom.hosted.inboxes import Inboxes
from postroom.model.event import heard
from postroom.store.engine import Store
from postroom.wires.socket import Socket, SocketFailure

ATTEMPTS: Final = 10  # connections that did not hold, one after the other, before polling takes over
HEALTHY_S: Final = 60
POLLS: Final = 10  # between two attempts to get back to the socket
NAMED: Final = 100  # inboxes in one subscription

State: TypeAlias = Literal["off", "idle", "connecting", "open", "waiting", "polling"]
Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Socket]]
log = structlog.get_logger("postroom.hosted")


class Inbound:
    """`connect` opens one connection, `pause` waits between two attempts or polls."""

    def __init__(
        self,
        store: Store,
        inboxes: Inboxes,
        arrivals: Arrivals,
        catch_up: CatchUp,
        settings: config.Inbound,
        *,
        connect: Connect,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._store = store
        self._inboxes = inboxes
        self._arrivals = arrivals
        self._catch_up = catch_up
        self._settings = settings
        self._wanted = heard(settings.event_types)
        self._connect = connect
        self._pause = pause
        self._subscribed: list[str] = []
        self._changed = asyncio.Event()
        self._opened_at: int | None = None
        self.state: State = "off" if settings.mode == "off" else "idle"

    def look(self) -> None:
        """Agents may have got or lost inboxes."""
        if self._followed() != self._subscribed:
            self._changed.set()

    async def run(self) -> None:
        """Until cancelled; at once with mode off."""
        if self._settings.mode == "off":
            return
        attempts = 0
        while True:
            await self._somebody()
            if self._settings.mode == "poll":
                await self._poll()
            elif attempts < ATTEMPTS:
                attempts = await self._attempt(attempts)
            else:
                log.warning("hosted_polls_instead", attempts=attempts)
                for _ in range(POLLS):
                    await self._poll()
                attempts = ATTEMPTS - 1

    async def _somebody(self) -> None:
        """Wait until an agent has an inbox."""
        while not self._followed():
            self.state = "idle"
            self._changed.clear()
            await self._changed.wait()

    async def _poll(self) -> None:
        self.state = "polling"
        try:
            await self._catch_up.all()
        except StorageFailure:
            await self._store.until_accepting()
        except PostroomError as problem:
            log.warning("hosted_not_polled", code=problem.code, problem=problem.message)
        await self._pause(self._settings.poll_interval_s)

    async def _attempt(self, attempts: int) -> int:
        """One connection, for as long as it holds, and the pause after it; the attempts counted by now."""
        self.state, self._opened_at = "connecting", None
        try:
            async with self._connect() as socket:
                if await self._hold(socket):
                    return 0
            ended = "closed"
        except SocketFailure as problem:
            ended = str(problem)
        except StorageFailure:
            ended = "nothing can be stored"
            await self._store.until_accepting()
        except PostroomError as problem:
            ended = problem.message
        attempts = 1 if self._was_healthy() else attempts + 1
        self.state = "waiting"
        log.info("hosted_socket_ended", why=ended, attempts=attempts)
        if attempts < ATTEMPTS:
            await self._pause(min(PAUSE_MAX_S, PAUSE_S * 2 ** (attempts - 1)))
        return attempts

    async def _hold(self, socket: Socket) -> bool:
        """Subscribe, make up for what was missed, and listen. True when other inboxes are to be heard of."""
        await self._subscribe(socket)
        await self._catch_up.all()
        self.state, self._opened_at = "open", self._store.clock.now_us()
        listening = asyncio.create_task(self._listen(socket))
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([listening, changed], return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
            return not listening.done()
        finally:
            for task in (listening, changed):
                task.cancel()
            await asyncio.gather(listening, changed, return_exceptions=True)

    def _was_healthy(self) -> bool:
        """Whether the connection that just ended had lived for a while."""
        return self._opened_at is not None and self._store.clock.now_us() - self._opened_at >= HEALTHY_S * MICROS

    async def _subscribe(self, socket: Socket) -> None:
        self._changed.clear()
        self._subscribed = self._followed()
        for start in range(0, len(self._subscribed), NAMED):
            named = self._subscribed[start : start + NAMED]
            await socket.send(json.dumps({"type": "subscribe", "inbox_ids": named, "event_types": list(self._wanted)}))

    async def _listen(self, socket: Socket) -> None:
        async with contextlib.aclosing(socket.frames()) as frames:
            async for text in frames:
                try:
                    await self._take(text)
                except Unexpected as problem:  # one broken frame; the message itself is listed by the next catching up
                    log.warning("hosted_frame_skipped", problem=problem.message)

    async def _take(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            raise Unexpected("a frame is no JSON") from None
        if not isinstance(frame, dict):
            raise Unexpected("a frame is no JSON object")
        if frame.get("type") == "error":
            raise SocketFailure("the subscription was refused")
        arrival = of_event(frame, self._wanted)
        place = None if arrival is None else self._inboxes.find(arrival.inbox)
        if arrival is not None and place is not None and place.owner_agent is not None:
            await self._arrivals.take(place, [arrival])

    def _followed(self) -> list[str]:
        return [place.address for place in self._inboxes.followed()]
