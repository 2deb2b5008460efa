"""The `bridge` host: sessions inside harnesses that people run, reached over a stream each opened to us.

The plugin at the other end keeps nothing either: it looks into the session's own log for the notices that
are in it already. So whatever is lost with a connection or a process is delivered again, and lands once. A
session counts as told when the turn that took the notices has ended.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import structlog

from postroom import config, limits
from postroom.errors import PostroomError, TransportFailure
from postroom.model.session import Delivery, Liveness

NAME: Final = "bridge"
ONE_SHOT: Final = frozenset({"headless"})  # profiles that end with their turn: asked, never sent anything
_COMMAND_S: Final = 30.0
_OWNED_ELSEWHERE: Final = "SessionAlreadyOwnedError"
log = structlog.get_logger("postroom.sessions.bridge")


class Link:
    """One harness that is there: commands to it, and the turns it is expected to end."""

    def __init__(self, agent_id: str, profile: str, numbers: Iterator[int]) -> None:
        self.agent_id = agent_id
        self.profile = profile
        self.closed = False
        self.live: dict[str, asyncio.TimerHandle | None] = {}
        self._numbers = numbers
        self._commands: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._calls: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._turns: dict[str, tuple[int, asyncio.Future[bool]]] = {}

    async def commands(self, beat_s: float) -> AsyncIterator[Mapping[str, Any] | None]:
        """What to write to the harness, as it comes; None when nothing did for `beat_s`."""
        while True:
            try:
                async with asyncio.timeout(beat_s):
                    command = await self._commands.get()
            except TimeoutError:
                yield None
                continue
            if command is None:
                return
            yield command

    async def call(self, op: str, session_id: str, **fields: Any) -> Mapping[str, Any]:
        """One command and its answer. Raises `TransportFailure` when the harness is gone, silent or cannot."""
        if self.closed:
            raise _gone()
        number = next(self._numbers)
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        self._commands.put_nowait({"id": number, "op": op, "sessionId": session_id, **fields})
        try:
            async with asyncio.timeout(_COMMAND_S):
                done = await answer
        except TimeoutError:
            raise TransportFailure(f"the harness did not answer {op}", kind="temporary") from None
        finally:
            del self._calls[number]
        if "error" in done:
            raise TransportFailure(f"the harness cannot {op}: {done['error']}", kind="temporary", code=str(done["error"]))
        return done

    def expect(self, session_id: str, seq: int) -> asyncio.Future[bool]:
        """The end of the turn that takes the session's notices up to `seq`: true when it read them."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._turns[session_id] = (seq, turn)
        return turn

    def forget(self, session_id: str) -> None:
        """Expect no turn of this session any more."""
        self._turns.pop(session_id, None)

    def answered(self, number: int, answer: Mapping[str, Any]) -> None:
        """The harness answered a command."""
        if (call := self._calls.get(number)) is not None and not call.done():
            call.set_result(answer)

    def ended(self, session_id: str, seq: int, *, read: bool) -> None:
        """A turn that held notices up to `seq` has ended."""
        wanted, turn = self._turns.get(session_id, (0, None))
        if turn is not None and seq >= wanted and not turn.done():
            turn.set_result(read)

    def close(self) -> None:
        """The harness is gone: nobody waits for it any longer."""
        self.closed = True
        self._commands.put_nowait(None)
        for call in self._calls.values():
            if not call.done():
                call.set_exception(_gone())
        for _, turn in self._turns.values():
            if not turn.done():
                turn.set_result(False)
        for timer in self.live.values():
            if timer is not None:
                timer.cancel()


class BridgeHost:
    """Every harness that is connected, by agent; the newest first."""

    def __init__(self, sessions: config.Sessions) -> None:
        self._sessions = sessions
        self._numbers = itertools.count(1)  # of commands to any harness: an answer names one only
        self._links: defaultdict[str, list[Link]] = defaultdict(list)
        self._disposing: set[asyncio.Task[None]] = set()

    def attach(self, agent_id: str, profile: str) -> Link:
        """A harness has come."""
        link = Link(agent_id, profile, self._numbers)
        self._links[agent_id].insert(0, link)
        return link

    def detach(self, link: Link) -> None:
        """It has gone."""
        self._links[link.agent_id].remove(link)
        link.close()

    def links(self, agent_id: str) -> list[Link]:
        """The harnesses that are there for an agent."""
        return list(self._links.get(agent_id, ()))

    def serves(self, agent_id: str) -> bool:
        """Whether one is there that can be sent something."""
        return any(link.profile not in ONE_SHOT for link in self._links.get(agent_id, ()))

    async def deliver(self, delivery: Delivery) -> bool:
        """To the harness that has the session live, else to the newest that can open it. True when a turn took the notices."""
        links = [link for link in self.links(delivery.agent_id) if link.profile not in ONE_SHOT]
        for link in sorted(links, key=lambda one: delivery.session_id not in one.live):
            if not delivery.wake and delivery.session_id not in link.live and len(link.live) >= self._sessions.max_live:
                return False  # it is told when somebody opens it
            try:
                return await self._hand_over(link, delivery)
            except TransportFailure as problem:
                log.warning("bridge_not_delivered", session_id=delivery.session_id, reason=problem.message)
                if problem.code != _OWNED_ELSEWHERE:
                    return False
        return False

    async def liveness(self, session_id: str) -> Liveness:
        """Live in a harness that is there; of others nothing is known here."""
        known = any(session_id in link.live for links in self._links.values() for link in links)
        return Liveness.LIVE if known else Liveness.UNKNOWN

    async def close(self) -> None:
        """End the streams; the harnesses come back to the next daemon."""
        for links in self._links.values():
            for link in links:
                link.close()
        await asyncio.gather(*self._disposing, return_exceptions=True)

    async def _hand_over(self, link: Link, delivery: Delivery) -> bool:
        session_id, seq = delivery.session_id, delivery.notices[-1].seq
        opened = await link.call("open", session_id, title=delivery.title)
        seed = delivery.seed
        if opened["branch"] == "created" and seed is None and delivery.rebuild is not None:
            seed = await delivery.rebuild()
        told = [{"id": f"seed-{session_id}", "seq": 0, "text": seed}] if seed else []
        told += [{"id": notice.event_id, "seq": notice.seq, "text": notice.text} for notice in delivery.notices]
        turn = link.expect(session_id, seq)
        self._busy(link, session_id)
        try:
            if (await link.call("deliver", session_id, notices=told, wake=delivery.wake))["read"]:
                return True
            if not delivery.wake:
                return False
            async with asyncio.timeout(limits.SESSION_TURN_S):
                return await turn
        except TimeoutError:
            return False
        finally:
            link.forget(session_id)
            self._idle(link, session_id)

    def _busy(self, link: Link, session_id: str) -> None:
        """It is being told something: not closed now. Where too many are live, the one that was quiet longest is closed at once."""
        if (timer := link.live.pop(session_id, None)) is not None:
            timer.cancel()
        link.live[session_id] = None
        quiet = next((one for one, timer in link.live.items() if timer is not None), None)
        if len(link.live) > self._sessions.max_live and quiet is not None:
            self._dispose(link, quiet)

    def _idle(self, link: Link, session_id: str) -> None:
        """Close it when nothing is delivered to it for long."""
        if link.closed:
            return
        link.live.pop(session_id, None)  # the last in order is the one that was told last
        loop = asyncio.get_running_loop()
        link.live[session_id] = loop.call_later(self._sessions.idle_dispose_s, self._dispose, link, session_id)

    def _dispose(self, link: Link, session_id: str) -> None:
        if (timer := link.live.pop(session_id, None)) is not None:
            timer.cancel()
        task = asyncio.create_task(self._close_session(link, session_id))
        self._disposing.add(task)
        task.add_done_callback(self._disposing.discard)

    async def _close_session(self, link: Link, session_id: str) -> None:
        try:
            done = await link.call("dispose", session_id)
        except PostroomError:
            return
        if not done["disposed"] and session_id not in link.live:
            self._idle(link, session_id)  # in a turn, or the person's own by now: look again


def _gone() -> TransportFailure:
    return TransportFailure("the harness is gone", kind="temporary")
