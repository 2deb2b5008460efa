"""Several nodes over one PostgreSQL: events in the order of commits for everybody, and a server that goes away and comes back."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engines import run, server, url_of
from pace import PATIENCE_S
from postroom.errors import StorageFailure
from postroom.store.engine import Store


async def test_followers_of_any_node_see_every_event_once_and_in_order(shared: tuple[Store, Store]) -> None:
    """Each node's follower keeps its own position while all nodes write at once."""
    wanted = 300

    async def follow(node: Store) -> list[int]:
        seqs: list[int] = []
        while len(seqs) < wanted:
            batch = await node.events.after(seqs[-1] if seqs else 0, limit=7)
            seqs += [event.seq for event in batch]
            if not batch:
                assert await node.events.wait(seqs[-1] if seqs else 0, timeout_s=PATIENCE_S)
        return seqs

    async def write(node: Store, name: str) -> None:
        for number in range(wanted // 2):
            await node.write(lambda tx, number=number: tx.emit("noted", f"{name}{number}", at=1))

    async with asyncio.timeout(PATIENCE_S):
        seen = await asyncio.gather(*map(follow, shared), write(shared[0], "a"), write(shared[1], "b"))

    assert seen[0] == seen[1]
    assert seen[0] == sorted(set(seen[0]))
    assert len(seen[0]) == wanted
    rows = await shared[0].read(lambda reader: reader.connection.execute("SELECT seq FROM event ORDER BY seq").fetchall())
    assert [row[0] for row in rows] == seen[0]


async def test_a_node_hears_of_another_nodes_commit_without_an_event(shared: tuple[Store, Store], notes: Any) -> None:
    heard = asyncio.Event()
    await shared[1].write(lambda tx: tx.emit("settled", "x", at=1))
    async with asyncio.timeout(PATIENCE_S):
        while shared[0].events.last_seq() == 0:
            await shared[0].events.wait(0)
    shared[0].on_others(heard.set)
    await shared[0].write(lambda tx: tx.insert(notes.ADD, name="own"))
    assert not heard.is_set()

    await shared[1].write(lambda tx: tx.insert(notes.ADD, name="other"))
    async with asyncio.timeout(PATIENCE_S):
        await heard.wait()
    assert notes.names(shared[0]) == ["own", "other"]


async def test_only_one_node_holds_a_lease(shared: tuple[Store, Store]) -> None:
    def take(node: Store, holder: str) -> Any:
        return node.write(lambda tx: node.leases.take(tx, "work", holder, 60))

    assert await asyncio.gather(take(shared[0], "a"), take(shared[1], "b")) in ([True, False], [False, True])


async def test_a_lost_connection_is_a_storage_failure_and_writing_goes_on_after_it(
    tmp_path: Path, notes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.store.writer.RETRY_S", 0.01)
    monkeypatch.setattr("postroom.store.postgresql.RETRY_S", 0.01)
    with url_of("postgresql") as url:
        store = await Store.open(tmp_path, url=url)
        notes.make(store)
        await store.write(lambda tx: tx.insert(notes.ADD, name="kept"))
        with psycopg.connect(server().get_uri()) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'postroom' AND datname = %s",
                [psycopg.conninfo.conninfo_to_dict(url)["dbname"]],
            )
        assert notes.names(store) == ["kept"]  # a reader looks again by itself
        with pytest.raises(StorageFailure, match="whether this was stored is not known"):
            await store.write(lambda tx: tx.insert(notes.ADD, name="lost"))
        async with asyncio.timeout(PATIENCE_S):
            await store.until_accepting()
        event = await store.write(lambda tx: tx.emit("after", "x", at=1))
        assert (notes.names(store), store.events.last_seq()) == (["kept"], event.seq)
        await store.close()


async def test_a_new_database_is_made_once_by_whoever_comes_first(tmp_path: Path) -> None:
    found = server()
    name = "fresh_for_two"
    run(found.get_uri(), f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        url = found.get_uri(name)
        nodes = await asyncio.gather(*(Store.open(tmp_path / str(at), url=url) for at in range(2)))
        for node in nodes:
            await node.write(lambda tx: tx.emit("x", "y", at=1))
            await node.close()
    finally:
        run(found.get_uri(), f"DROP DATABASE {name} WITH (FORCE)")
