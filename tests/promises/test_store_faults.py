"""Promise: when the disk refuses, nobody is told a lie. What failed is not stored, what was acknowledged is,
nothing is accepted until a new connection has proved itself, and then work goes on.
"""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import select

from pace import PATIENCE_S
from postroom.errors import StorageFailure
from postroom.store import blobs, writer
from postroom.store import engine as engine_module
from postroom.store.dialect import Connection
from postroom.store.engine import Store
from postroom.store.schema import event
from postroom.store.sqlite import Sqlite
from postroom.store.statement import sql

REFS = sql(select(event.c.ref).order_by(event.c.seq))


class FaultyConnection:
    """A real connection that fails where it is told to, as the driver would."""

    def __init__(self, real: Connection, dialect: "Faulty") -> None:
        self._real = real
        self._dialect = dialect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        self._dialect.meet(statement)
        return self._real.execute(statement, *parameters)


class Faulty(Sqlite):
    """SQLite on a disk that fails the statements starting with `breaks`, `times` times (None: until told otherwise)."""

    made: ClassVar[list["Faulty"]] = []

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self.breaks = ""
        self.code = sqlite3.SQLITE_IOERR_FSYNC
        self.times: int | None = None
        self.connections = 0
        self.unsound = ""
        Faulty.made.append(self)

    def connect(self, *, writes: bool) -> Connection:
        connection = super().connect(writes=writes)
        if not writes:
            return connection
        self.connections += 1
        return FaultyConnection(connection, self)  # type: ignore[return-value]  # a Connection by __getattr__

    def in_transaction(self, connection: Connection) -> bool:
        return super().in_transaction(getattr(connection, "_real", connection))

    def check(self, connection: Connection) -> str:
        return self.unsound or super().check(connection)

    def meet(self, statement: str) -> None:
        if not self.breaks or not statement.startswith(self.breaks) or self.times == 0:
            return
        if self.times is not None:
            self.times -= 1
        problem = sqlite3.OperationalError("disk I/O error")
        problem.sqlite_errorcode = self.code
        raise problem


@pytest.fixture
async def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Store, Faulty]]:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    monkeypatch.setattr(engine_module, "Sqlite", Faulty)
    store = await Store.open(tmp_path / "data")
    yield store, Faulty.made.pop()
    await store.close()


def add(ref: str) -> Callable[[Any], Any]:
    return lambda tx: tx.emit("k", ref, at=1)


async def stored(store: Store) -> list[str]:
    return [ref for (ref,) in await store.read(lambda reader: reader.all(REFS))]


async def accepting(store: Store) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await store.until_accepting()


def refuses(tx: Any) -> None:
    """A function that fails sends its whole batch through savepoints."""
    raise ValueError("mine")


async def together(store: Store, functions: list[Callable[[Any], Any]]) -> list[Any]:
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
    await asyncio.gather(blocker, return_exceptions=True)
    return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("breaks", ["COMMIT", "BEGIN", "SAVEPOINT", "INSERT INTO event", "RELEASE", "ROLLBACK TO"])
@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_FULL])
async def test_a_disk_that_fails_once_costs_one_batch_and_no_lie(broken: tuple[Store, Faulty], breaks: str, code: int) -> None:
    store, disk = broken
    await store.write(add("before"))

    def arms(_tx: Any) -> None:
        disk.breaks, disk.code, disk.times = breaks, code, 1

    failures = await together(store, [arms, *(add(f"during {at}") for at in range(5)), refuses])
    await accepting(store)
    await store.write(add("after"))

    assert [type(failure) for failure in failures] == [StorageFailure] * 7
    assert await stored(store) == ["before", "after"]
    assert disk.connections == 2
    assert [event.ref for event in await store.events.after(0)] == ["before", "after"]


async def test_nothing_is_accepted_until_a_probe_is_written_and_reading_goes_on(broken: tuple[Store, Faulty]) -> None:
    store, disk = broken
    await store.write(add("before"))
    disk.breaks = "COMMIT"
    with pytest.raises(StorageFailure):
        await store.write(add("refused"))
    assert store.accepting is False
    with pytest.raises(StorageFailure):
        await store.write(add("refused too"))
    assert await stored(store) == ["before"]
    assert store.read_now(lambda reader: len(reader.all(REFS))) == 1

    disk.breaks = ""
    await accepting(store)
    assert store.accepting is True
    await store.write(add("after"))
    assert await stored(store) == ["before", "after"]


async def test_a_damaged_database_is_not_written_to_again(broken: tuple[Store, Faulty]) -> None:
    store, disk = broken
    disk.breaks, disk.times, disk.unsound = "COMMIT", 1, "*** in database main ***"
    with pytest.raises(StorageFailure):
        await store.write(add("refused"))
    attempts = disk.connections
    async with asyncio.timeout(PATIENCE_S):
        while disk.connections < attempts + 3:  # paced by the writer's own retry timer
            await asyncio.to_thread(os.sched_yield)
    assert store.accepting is False

    disk.unsound = ""
    await accepting(store)


async def test_a_search_index_out_of_step_is_its_writers_error_only(broken: tuple[Store, Faulty]) -> None:
    store, disk = broken
    disk.breaks, disk.times, disk.code = "INSERT INTO event", 1, sqlite3.SQLITE_CORRUPT_VTAB
    with pytest.raises(sqlite3.OperationalError):
        await store.write(add("refused"))

    assert store.accepting is True
    await store.write(add("after"))
    assert await stored(store) == ["after"]


async def test_what_was_committed_alone_stays_acknowledged_when_a_later_one_meets_a_full_disk(
    broken: tuple[Store, Faulty],
) -> None:
    store, disk = broken
    job = writer.Job
    loop = asyncio.get_running_loop()

    def loses(tx: Any) -> None:
        tx.connection.execute("ROLLBACK")
        raise ValueError("lost")

    def breaks(tx: Any) -> None:
        disk.breaks, disk.times = "COMMIT", 1

    jobs = [job(fn, loop.create_future()) for fn in (add("first"), loses, breaks, add("last"))]
    await asyncio.to_thread(store._writer._one_by_one, jobs)
    store._writer._release(jobs)
    results = await asyncio.gather(*(one.future for one in jobs), return_exceptions=True)

    assert results[0].ref == "first"
    assert isinstance(results[1], ValueError)
    assert isinstance(results[2], StorageFailure)
    assert isinstance(results[3], StorageFailure)
    assert await stored(store) == ["first"]
    store._writer._connection = disk.connect(writes=True)
    store._writer._accepting = True


async def test_another_program_holding_the_database_is_said_and_does_not_stop_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.store.sqlite.BUSY_TIMEOUT_S", 0.01)
    store = await Store.open(tmp_path)
    other = sqlite3.connect(tmp_path / "postroom.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageFailure, match="another program"):
            await store.write(add("refused"))
        other.execute("COMMIT")
        assert store.accepting is True
        await store.write(add("stored"))
        assert await stored(store) == ["stored"]
    finally:
        other.close()
        await store.close()


async def fill(store: Store, bytes_each: int, most: int) -> tuple[list[str], list[str]]:
    """Write until something is refused; answers what was acknowledged and what was refused."""
    told: list[str] = []
    for at in range(most):
        ref = f"{at}-" + "x" * bytes_each
        try:
            await store.write(add(ref))
        except StorageFailure:
            return told, [ref]
        told.append(ref)
    return told, []


async def test_a_database_that_may_not_grow_refuses_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    store = await Store.open(tmp_path)
    try:
        pages = store._writer._connection.execute("PRAGMA page_count").fetchone()[0]
        store._writer._connection.execute(f"PRAGMA max_page_count={pages + 20}")
        told, refused = await fill(store, 2000, 1000)
        assert len(refused) == 1
        await accepting(store)  # the new connection has no such limit
        await store.write(add("after"))
        assert await stored(store) == [*told, "after"]
    finally:
        await store.close()


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small tmpfs cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
async def test_a_full_disk_refuses_keeps_what_it_acknowledged_and_recovers_with_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    with small_disk(tmp_path / "disk") as disk:
        ballast = disk / "ballast"
        store = await Store.open(disk / "data")
        try:
            ballast.write_bytes(b"b" * 2_000_000)
            told, refused = await fill(store, 4000, 2000)
            assert len(refused) == 1
            with pytest.raises(StorageFailure):
                await store.blobs.put(b"x" * 3_000_000)
            assert await stored(store) == told
            ballast.unlink()
            await accepting(store)
            await store.write(add("after"))
            assert await stored(store) == [*told, "after"]
            assert [path for path in (disk / "data" / "blobs").rglob("*") if path.is_file()] == []
        finally:
            await store.close()
        again = await Store.open(disk / "data")
        assert await stored(again) == [*told, "after"]
        await again.close()


class Fuse:
    """Fails the N-th call of the file operations it is put into."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, errno: int) -> None:
        self.left = number
        self.errno = errno
        for owner, name in (
            (blobs.os, "fsync"),
            (blobs.os, "open"),
            (blobs.Path, "replace"),
            (blobs.tempfile, "mkstemp"),
            (blobs.Path, "mkdir"),
        ):
            self.put(monkeypatch, owner, name)

    def put(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def fused(*args: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise OSError(self.errno, os.strerror(self.errno))
            return real(*args, **more)

        monkeypatch.setattr(owner, name, fused)


@pytest.mark.parametrize("errno", [5, 28])  # EIO, ENOSPC
async def test_whichever_file_operation_fails_a_blob_is_whole_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errno: int
) -> None:
    store = await Store.open(tmp_path)
    number, refused = 0, 0
    try:
        while True:
            number += 1
            data = b"%d" % number * 70_000
            with monkeypatch.context() as patch:
                fuse = Fuse(patch, number, errno)
                try:
                    sha = await store.blobs.put(data)
                except StorageFailure:
                    refused += 1
                    continue
                finally:
                    patch.undo()
            await store.write(lambda tx, sha=sha, data=data: store.blobs.link(tx, sha, data))
            assert await store.blobs.get(sha) == data
            if fuse.left > 0:
                break
        files = [path.name for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    finally:
        await store.close()

    assert refused >= 5
    assert [name for name in files if len(name) != 64] == []  # no half-written leftovers
