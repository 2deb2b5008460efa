"""The event log: in the order of commits, followed from anywhere, and cursors that never go back."""

import asyncio
from typing import Any

import pytest

from pace import PATIENCE_S
from postroom.model.principal import DEFAULT_POD
from postroom.store import events as events_module
from postroom.store.engine import Store


async def emit(store: Store, kind: str, ref: str, **more: Any) -> int:
    return (await store.write(lambda tx: tx.emit(kind, ref, at=7, **more))).seq


async def test_an_event_comes_back_as_it_was_emitted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    emitted = await store.write(
        lambda tx: tx.emit(
            "message.received",
            "<m@x>",
            at=7,
            agent_id="agt_1",
            inbox_id="a@x",
            thread_id="t",
            snapshot={"labels": ["é", "\ud800"]},
        )
    )
    monkeypatch.setattr(store.events, "_since", 10)  # as after a restart: from the table

    assert await store.events.after(0) == [emitted]
    assert emitted.event_id.startswith("evt_")
    assert emitted.pod_id == DEFAULT_POD
    assert emitted.snapshot == {"labels": ["é", "\ud800"]}


@pytest.mark.parametrize("from_memory", [True, False])
async def test_a_follower_sees_what_its_filters_let_through(
    store: Store, from_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await emit(store, "a", "1", inbox_id="x", thread_id="t1", agent_id="p")
    await emit(store, "b", "2", inbox_id="x", thread_id="t2")
    await emit(store, "a", "3", inbox_id="y", agent_id="p")
    if not from_memory:
        monkeypatch.setattr(store.events, "_since", 100)

    async def refs(seq: int, **filters: Any) -> list[str]:
        return [event.ref for event in await store.events.after(seq, **filters)]

    assert await refs(0) == ["1", "2", "3"]
    assert await refs(1) == ["2", "3"]
    assert await refs(3) == []
    assert await refs(0, limit=2) == ["1", "2"]
    assert await refs(0, kinds=["a"]) == ["1", "3"]
    assert await refs(0, kinds=[]) == []
    assert await refs(0, inbox_ids=["x", "z"]) == ["1", "2"]
    assert await refs(0, thread_id="t2") == ["2"]
    assert await refs(0, agent_id="p", kinds=["a"], inbox_ids=["y"]) == ["3"]


async def test_what_has_left_memory_is_read_from_the_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "RECENT", 10)
    store.events._recent = events_module.deque(maxlen=10)
    for _ in range(5):
        await store.write(lambda tx: [tx.emit("k", str(at), at=1) for at in range(7)])

    everything = await store.events.after(0)
    assert [event.seq for event in everything] == list(range(1, 36))
    for seq in range(36):
        assert [event.seq for event in await store.events.after(seq)] == list(range(seq + 1, 36))


async def test_waiting_ends_with_the_commit_or_with_the_time(store: Store) -> None:
    waiters = [asyncio.create_task(store.events.wait(0, PATIENCE_S)) for _ in range(1000)]
    patient = asyncio.create_task(store.events.wait(1, PATIENCE_S))
    await asyncio.sleep(0)
    assert await store.events.wait(0, 0) is False

    await emit(store, "k", "r")
    assert await asyncio.gather(*waiters) == [True] * 1000
    assert await store.events.wait(0) is True
    assert patient.done() is False

    await emit(store, "k", "r")
    assert await patient is True


async def test_an_abandoned_wait_leaves_nothing_behind(store: Store) -> None:
    task = asyncio.create_task(store.events.wait(0))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert store.events._waiting == set()


async def test_a_cursor_is_durable_and_never_goes_back(store: Store) -> None:
    assert await store.events.cursor("gate") == 0
    for seq in (5, 3, 5, 9, 8):
        await store.write(lambda tx, seq=seq: store.events.set_cursor(tx, "gate", seq))

    assert await store.events.cursor("gate") == 9
    assert store.read_now(lambda reader: store.events.cursor_in(reader, "gate")) == 9
    assert await store.events.cursor("other") == 0
