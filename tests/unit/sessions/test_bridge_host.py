"""The host for harnesses people run: one delivery at a time, idempotent at the other end, closed when idle."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pace import PATIENCE_S
from postroom import config
from postroom.errors import TransportFailure
from postroom.model.session import Delivery, Liveness, Notice
from postroom.sessions.hosts.bridge import BridgeHost, Link

SETTINGS = config.Sessions(max_live=2, idle_dispose_s=600)


def delivery(session_id: str = "agentmail-1", *seqs: int, wake: bool = True, seed: str | None = None) -> Delivery:
    notices = tuple(Notice(seq=seq, event_id=f"evt_{seq}", kind="message.received", text=f"mail {seq}") for seq in seqs or (1,))

    async def rebuild() -> str | None:
        return "what was said before"

    return Delivery(
        session_id=session_id,
        thread_id="1",
        inbox_id="a@postroom.localhost",
        agent="scout",
        agent_id="agt_1",
        notices=notices,
        wake=wake,
        seed=seed,
        rebuild=rebuild,
        title="Offer (Ada)",
    )


class Harness:
    """The other end: answers as told, and remembers what it was asked."""

    def __init__(self, host: BridgeHost, profile: str = "web", agent_id: str = "agt_1") -> None:
        self.host, self.link = host, host.attach(agent_id, profile)
        self.asked: list[dict[str, Any]] = []
        self.changed = asyncio.Event()
        self.answers: dict[str, dict[str, Any]] = {
            "open": {"branch": "live"},
            "deliver": {"read": False},
            "dispose": {"disposed": True},
        }
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        async for command in self.link.commands(60):
            if command is not None:
                self.asked.append(dict(command))
                self.link.answered(command["id"], self.answers[command["op"]])
                self.changed.set()

    async def until(self, op: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while not [one for one in self.asked if one["op"] == op]:
                self.changed.clear()
                await self.changed.wait()
        return [one for one in self.asked if one["op"] == op][-1]

    async def end(self) -> None:
        if self.link in self.host.links(self.link.agent_id):
            self.host.detach(self.link)
        await self.task


@pytest.fixture
async def host() -> AsyncIterator[BridgeHost]:
    made = BridgeHost(SETTINGS)
    yield made
    await made.close()


@contextlib.asynccontextmanager
async def connected(host: BridgeHost, profile: str = "web") -> AsyncIterator[Harness]:
    harness = Harness(host, profile)
    try:
        yield harness
    finally:
        await harness.end()


async def test_it_serves_an_agent_while_a_harness_that_stays_is_there(host):
    assert host.serves("agt_1") is False
    async with connected(host, "headless"):
        assert host.serves("agt_1") is False
        assert await host.deliver(delivery()) is False
        async with connected(host):
            assert (host.serves("agt_1"), host.serves("agt_2")) == (True, False)
    assert host.serves("agt_1") is False


async def test_a_delivery_is_taken_when_the_turn_that_holds_it_has_ended(host):
    async with connected(host) as harness:
        task = asyncio.create_task(host.deliver(delivery("agentmail-1", 3, 5)))
        asked = await harness.until("deliver")
        assert asked["notices"] == [
            {"id": "evt_3", "seq": 3, "text": "mail 3"},
            {"id": "evt_5", "seq": 5, "text": "mail 5"},
        ]
        assert asked["wake"] is True
        harness.link.ended("agentmail-1", 3, read=True)  # a turn that held only the first
        harness.link.ended("agentmail-2", 9, read=True)
        await asyncio.sleep(0)
        assert not task.done()
        harness.link.ended("agentmail-1", 5, read=True)
        assert await task is True
        assert await host.liveness("agentmail-1") is Liveness.LIVE
    assert await host.liveness("agentmail-1") is Liveness.UNKNOWN


async def test_a_turn_that_failed_took_nothing(host):
    async with connected(host) as harness:
        task = asyncio.create_task(host.deliver(delivery()))
        await harness.until("deliver")
        harness.link.ended("agentmail-1", 1, read=False)
        assert await task is False


async def test_what_the_sessions_log_has_already_is_taken_at_once(host):
    async with connected(host) as harness:
        harness.answers["deliver"] = {"read": True}
        assert await host.deliver(delivery()) is True


async def test_a_session_made_now_is_first_told_what_was_said_before(host):
    async with connected(host) as harness:
        harness.answers |= {"open": {"branch": "created"}, "deliver": {"read": True}}
        assert await host.deliver(delivery()) is True
        assert (await harness.until("open"))["title"] == "Offer (Ada)"
        told = (await harness.until("deliver"))["notices"]
        assert told[0] == {"id": "seed-agentmail-1", "seq": 0, "text": "what was said before"}


async def test_told_without_a_wake_it_is_not_taken_yet_and_nobody_waits(host):
    async with connected(host) as harness:
        assert await host.deliver(delivery(wake=False)) is False
        assert (await harness.until("deliver"))["wake"] is False


async def test_when_the_harness_goes_whoever_waits_hears_of_it(host):
    harness = Harness(host)
    task = asyncio.create_task(host.deliver(delivery()))
    await harness.until("deliver")
    await harness.end()
    assert await task is False


async def test_a_session_another_process_has_is_tried_in_the_next_harness_and_any_other_failure_is_not(host):
    async with connected(host) as older, connected(host) as newer:
        older.answers["deliver"] = {"read": True}
        newer.answers["open"] = {"error": "SessionAlreadyOwnedError"}
        assert await host.deliver(delivery()) is True
        newer.answers["open"] = {"error": "TypeError"}
        assert await host.deliver(delivery("agentmail-2")) is False
        assert await host.deliver(delivery()) is True  # it has that one live


async def test_of_too_many_live_sessions_the_longest_quiet_one_is_closed_and_none_is_opened_just_to_be_told(host):
    async with connected(host) as harness:
        harness.answers["deliver"] = {"read": True}
        for number in (1, 2, 3):
            await host.deliver(delivery(f"agentmail-{number}"))
        assert (await harness.until("dispose"))["sessionId"] == "agentmail-1"
        assert list(harness.link.live) == ["agentmail-2", "agentmail-3"]
        assert await host.deliver(delivery("agentmail-4", wake=False)) is False
        assert [one["sessionId"] for one in harness.asked if one["op"] == "open"][-1] == "agentmail-3"


async def test_an_idle_session_is_closed_and_one_that_is_busy_is_looked_at_again():
    host = BridgeHost(config.Sessions(max_live=2, idle_dispose_s=0))
    async with connected(host) as harness:
        harness.answers |= {"deliver": {"read": True}, "dispose": {"disposed": False}}
        await host.deliver(delivery())
        async with asyncio.timeout(PATIENCE_S):
            while len([one for one in harness.asked if one["op"] == "dispose"]) < 2:
                await asyncio.sleep(0)
        harness.answers["dispose"] = {"disposed": True}
        async with asyncio.timeout(PATIENCE_S):
            while harness.link.live or host._disposing:
                await asyncio.sleep(0)
    await host.close()


async def test_the_stream_beats_when_there_is_nothing_to_say():
    link = Link("agt_1", "web", iter([1]))
    stream = link.commands(0)
    assert await anext(stream) is None
    link.close()
    assert [command async for command in stream if command is not None] == []


async def test_a_session_that_is_being_told_is_never_the_one_to_be_closed():
    host = BridgeHost(config.Sessions(max_live=1, idle_dispose_s=600))
    async with connected(host) as harness:
        first = asyncio.create_task(host.deliver(delivery("agentmail-1")))
        await harness.until("deliver")
        harness.answers["deliver"] = {"read": True}
        assert await host.deliver(delivery("agentmail-2")) is True
        assert [one for one in harness.asked if one["op"] == "dispose"] == []
        harness.link.ended("agentmail-1", 1, read=True)
        assert await first is True
        await host.deliver(delivery("agentmail-3"))
        assert (await harness.until("dispose"))["sessionId"] == "agentmail-2"
    await host.close()


async def test_a_harness_that_is_gone_is_asked_nothing_more(host):
    harness = Harness(host)
    link = harness.link
    await harness.end()
    with pytest.raises(TransportFailure):
        await link.call("open", "agentmail-1")
