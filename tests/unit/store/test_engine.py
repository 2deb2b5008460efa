"""Writing and reading: each function is stored whole or not at all, and heard of after COMMIT only."""

import asyncio
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from pace import PATIENCE_S
from postroom.errors import Conflict, InUse, StorageFailure
from postroom.store.engine import Store


async def test_a_write_answers_what_its_function_answered(store: Store, notes: Any) -> None:
    first = await store.write(lambda tx: tx.insert(notes.ADD, name="a"))

    assert first == 1
    assert notes.names(store) == ["a"]
    assert await store.read(lambda reader: reader.scalar(notes.ID, name="a")) == 1
    assert await store.read(lambda reader: reader.one(notes.ID, name="nobody")) is None
    assert await store.read(lambda reader: reader.scalar(notes.ID, name="nobody")) is None


async def test_run_answers_how_many_rows_and_many_runs_once_per_row(store: Store, notes: Any) -> None:
    await store.write(lambda tx: tx.many(notes.ADD, [{"name": "a"}, {"name": "b"}]))

    assert await store.write(lambda tx: tx.run(notes.ADD, name="c")) == 1
    assert notes.names(store) == ["a", "b", "c"]


async def together(store: Store, *functions: Any) -> list[Any]:
    """Run the functions in one batch: the writer is held until all of them are queued."""
    holding, held = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(_tx: Any) -> None:
        loop.call_soon_threadsafe(held.set)
        assert holding.wait(PATIENCE_S)

    blocker = asyncio.create_task(store.write(hold))
    await held.wait()
    tasks = [asyncio.create_task(store.write(fn)) for fn in functions]
    await asyncio.sleep(0)
    holding.set()
    await blocker
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_failing_function_takes_back_its_own_part_of_a_shared_commit_only(store: Store, notes: Any) -> None:
    def fails(tx: Any) -> None:
        tx.insert(notes.ADD, name="lost")
        tx.emit("lost", "x", at=1)
        tx.after_commit(lambda: pytest.fail("a function that failed was called back"))
        raise ValueError("mine")

    results = await together(
        store,
        lambda tx: tx.insert(notes.ADD, name="before"),
        fails,
        lambda tx: tx.insert(notes.ADD, name="before"),
        lambda tx: tx.insert(notes.ADD, name="after"),
    )

    assert results[0] == await store.read(lambda reader: reader.scalar(notes.ID, name="before"))
    assert isinstance(results[1], ValueError)
    assert isinstance(results[2], Conflict)
    assert results[3] > results[0]
    assert notes.names(store) == ["before", "after"]
    assert store.events.last_seq() == 0


async def test_what_functions_of_a_commit_share_is_forgotten_when_one_of_them_fails(store: Store, notes: Any) -> None:
    seen: list[dict[str, Any]] = []

    def shares(name: str) -> Any:
        def fn(tx: Any) -> int:
            shared: dict[str, int] = tx.shared
            seen.append(dict(shared))
            shared[name] = tx.insert(notes.ADD, name=name)
            return len(shared)

        return fn

    def fails(tx: Any) -> None:
        shares("lost")(tx)
        raise ValueError("mine")

    assert await together(store, shares("a"), shares("b"), shares("c")) == [1, 2, 3]
    assert [sorted(each) for each in seen] == [[], ["a"], ["a", "b"]]

    seen.clear()
    results = await together(store, shares("d"), fails, shares("e"))

    assert [results[0], results[2]] == [1, 1]  # run again, each apart
    assert [sorted(each) for each in seen] == [[], ["d"], [], [], []]
    assert notes.names(store) == ["a", "b", "c", "d", "e"]


async def test_whatever_a_function_raises_its_neighbours_are_answered(store: Store, notes: Any) -> None:
    def stops(tx: Any) -> None:
        next(iter(()))

    results = await together(store, stops, lambda tx: {}["none"], lambda tx: tx.insert(notes.ADD, name="b"))

    assert [type(result) for result in results] == [RuntimeError, KeyError, int]
    assert notes.names(store) == ["b"]


async def test_results_events_and_callbacks_come_after_commit_and_in_that_order(on_disk: Store, notes: Any) -> None:
    seen: list[Any] = []

    def visible() -> list[str]:
        return notes.names(on_disk)

    def stores(tx: Any) -> str:
        tx.insert(notes.ADD, name="a")
        event = tx.emit("stored", "a", at=1)
        tx.after_commit(lambda: seen.append(("callback", visible(), on_disk.events.last_seq() == event.seq)))
        return "result"

    seen.append(await on_disk.write(stores))

    assert seen == [("callback", ["a"], True), "result"]


async def test_nothing_is_visible_or_heard_of_before_the_commit(on_disk: Store, notes: Any) -> None:
    inserted, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stores(tx: Any) -> None:
        tx.insert(notes.ADD, name="a")
        tx.emit("stored", "a", at=1)
        loop.call_soon_threadsafe(inserted.set)
        assert go_on.wait(PATIENCE_S)

    task = asyncio.create_task(on_disk.write(stores))
    await inserted.wait()
    seen = (notes.names(on_disk), on_disk.events.last_seq(), task.done())
    go_on.set()
    await task

    assert seen == ([], 0, False)
    assert (notes.names(on_disk), on_disk.events.last_seq()) == (["a"], 1)


async def test_a_transaction_the_engine_threw_away_is_run_again_one_function_at_a_time(store: Store, notes: Any) -> None:
    runs: list[str] = []

    def adds(name: str) -> Any:
        def fn(tx: Any) -> str:
            runs.append(name)
            tx.insert(notes.ADD, name=name)
            tx.emit("added", name, at=1)
            return name

        return fn

    def loses_everything(tx: Any) -> None:
        runs.append("loses")
        tx.connection.execute(
            "INSERT OR ROLLBACK INTO note (id, name) VALUES (1, 'x'), (1, 'y')" if store.alone else "ROLLBACK; SELECT 1 / 0"
        )

    results = await together(store, adds("a"), loses_everything, adds("b"))

    assert results[0] == "a"
    assert results[2] == "b"
    assert type(results[1]).__name__ == ("IntegrityError" if store.alone else "DivisionByZero")
    assert runs == ["a", "loses", "a", "loses", "b"]
    assert notes.names(store) == ["a", "b"]
    assert [event.ref for event in await store.events.after(0)] == ["a", "b"]


async def test_many_writers_share_commits_and_each_hears_its_own_result(store: Store, notes: Any) -> None:
    names = [f"n{at}" for at in range(700)]
    ids = await asyncio.gather(*(store.write(lambda tx, name=name: tx.insert(notes.ADD, name=name)) for name in names))

    assert len(set(ids)) == len(names)
    assert notes.names(store) == names


async def test_a_cancelled_write_stops_nobody_else(store: Store, notes: Any) -> None:
    task = asyncio.create_task(store.write(lambda tx: tx.insert(notes.ADD, name="cancelled")))
    await asyncio.sleep(0)
    task.cancel()
    await store.write(lambda tx: tx.insert(notes.ADD, name="next"))

    assert "next" in notes.names(store)


async def test_one_function_reads_one_moment(on_disk: Store, notes: Any) -> None:
    started, written = threading.Event(), threading.Event()

    def looks_twice(reader: Any) -> tuple[int, int]:
        first = len(reader.all(notes.NAMES))
        started.set()
        assert written.wait(PATIENCE_S)
        return first, len(reader.all(notes.NAMES))

    task = asyncio.create_task(on_disk.read(looks_twice))
    await asyncio.to_thread(started.wait, 5)
    await on_disk.write(lambda tx: tx.insert(notes.ADD, name="a"))
    written.set()

    assert await task == (0, 0)


async def test_read_now_may_be_used_inside_read_now(store: Store, notes: Any) -> None:
    await store.write(lambda tx: tx.insert(notes.ADD, name="a"))

    assert store.read_now(lambda _outer: notes.names(store)) == ["a"]


async def test_a_reader_cannot_write(on_disk: Store, notes: Any) -> None:
    with pytest.raises(StorageFailure):
        await on_disk.read(lambda reader: reader.all(notes.ADD, name="a"))


async def test_what_was_written_is_there_after_opening_again(tmp_path: Path, notes: Any) -> None:
    first = await Store.open(tmp_path / "data")
    notes.make(first)
    await first.write(lambda tx: (tx.insert(notes.ADD, name="a"), tx.emit("added", "a", at=5)))
    await first.close()

    second = await Store.open(tmp_path / "data")
    try:
        assert notes.names(second) == ["a"]
        assert second.events.last_seq() == 1
        assert [(event.kind, event.ref, event.at) for event in await second.events.after(0)] == [("added", "a", 5)]
    finally:
        await second.close()


async def test_queued_writes_are_finished_on_close_and_later_ones_refused(store: Store, notes: Any) -> None:
    queued = asyncio.create_task(store.write(lambda tx: tx.insert(notes.ADD, name="queued")))
    await asyncio.sleep(0)
    await store.close()

    assert await queued == 1
    assert store.accepting is False
    with pytest.raises(StorageFailure):
        await store.write(lambda tx: tx.insert(notes.ADD, name="late"))
    with pytest.raises(StorageFailure):
        await store.read(lambda reader: reader.all(notes.NAMES))
    with pytest.raises(StorageFailure):
        notes.names(store)
    await store.close()


async def test_the_folder_is_owned_by_one_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = await Store.open(folder)
    try:
        with pytest.raises(InUse, match="is using the data folder"):
            await Store.open(folder)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        await store.close()

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == dict.fromkeys(["lock", "postroom.db", "postroom.db-wal", "postroom.db-shm"], 0o600)
    again = await Store.open(folder)
    await again.close()


async def test_a_file_that_is_no_database_is_a_clear_error_and_frees_the_folder(tmp_path: Path) -> None:
    (tmp_path / "postroom.db").write_bytes(b"this is not a database" * 100)

    for _ in range(2):
        with pytest.raises(StorageFailure, match="cannot be read"):
            await Store.open(tmp_path)


async def test_a_server_that_is_not_there_is_a_clear_error_and_frees_the_folder(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(StorageFailure, match="cannot be read"):
            await Store.open(tmp_path, url="postgresql://127.0.0.1:1/postroom")


async def test_what_is_put_off_to_the_end_is_in_the_same_commit_or_fails_alone(store: Store, notes: Any) -> None:
    def later(name: str) -> Any:
        return lambda tx: tx.at_end(lambda end: end.insert(notes.ADD, name=name))

    def broken(tx: Any) -> None:
        tx.insert(notes.ADD, name="half")
        tx.at_end(lambda end: end.insert(notes.ADD, name="half"))

    done = await asyncio.gather(store.write(later("a")), store.write(broken), store.write(later("b")), return_exceptions=True)

    assert notes.names(store) == ["a", "b"]
    assert [isinstance(each, Exception) for each in done] == [False, True, False]
