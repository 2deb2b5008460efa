"""`Store`: the one door to the database. `write` to change, `read` for lists, `read_now` for a point.

A function given to any of them is synchronous and short, does no I/O of its own, and may be run
more than once. Redact, render and hash before `write`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from postroom.clock import Clock, SystemClock
from postroom.errors import Invalid, StorageFailure
from postroom.store.blobs import Blobs
from postroom.store.dialect import Connection, Dialect, Fault
from postroom.store.events import EventLog
from postroom.store.leases import Leases
from postroom.store.lock import FolderLock
from postroom.store.migrations import migrate
from postroom.store.search import SearchIndex
from postroom.store.sqlite import Sqlite
from postroom.store.transaction import Reader, Row, Tx
from postroom.store.writer import Writer

__all__ = ["Reader", "Row", "Store", "Tx"]

T = TypeVar("T")

READERS: Final = 2  # threads and connections of the read pool


class Store:
    """Made by `open`; belongs to the event loop that opened it."""

    def __init__(
        self, dialect: Dialect, folder: Path | None, lock: FolderLock | None, clock: Clock, connection: Connection
    ) -> None:
        self.clock = clock
        self._closed = False
        self._dialect = dialect
        self._lock = lock
        self._guard = threading.RLock() if dialect.shared else None
        self._inline = self._reader(connection)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="postroom-reader")
        self._spare = [self._reader(connection) for _ in range(READERS)]
        self.events = EventLog(self.read, self.read_now, alone=dialect.alone)
        self.blobs = Blobs(folder / "blobs" if folder and dialect.alone else None, self.read)
        self.leases = Leases(clock)
        self.search = SearchIndex()
        self._writer = Writer(dialect, connection, self._guard, self.events.publish)
        self._heard: list[Callable[[], None]] = []
        self._stop_listening = dialect.listen(self._others_wrote)

    @classmethod
    async def open(cls, where: Path | Literal[":memory:"], *, clock: Clock | None = None, url: str = "") -> Store:
        """Open the data folder `where`, making or migrating what is in it. Raises `InUse`, `StorageFailure`."""
        folder = where if isinstance(where, Path) else None
        lock = FolderLock(folder) if folder else None
        dialect = dialect_of(folder, url)
        try:
            connection = await asyncio.to_thread(_prepare, dialect)
            return cls(dialect, folder, lock, clock or SystemClock(), connection)
        except BaseException as problem:
            if lock:
                lock.release()
            raise _as_ours(dialect, problem) from problem

    @property
    def accepting(self) -> bool:
        """False from a storage failure until the disk has taken a write again."""
        return self._writer.accepting

    @property
    def alone(self) -> bool:
        """True when no other node works on this database."""
        return self._dialect.alone

    def on_others(self, fn: Callable[[], None]) -> None:
        """Call `fn` on the loop after other nodes' commits: what this node remembers may be out of date."""
        self._heard.append(fn)

    async def until_accepting(self) -> None:
        """Wait while the disk refuses writes."""
        await self._writer.until_accepting()

    async def write(self, fn: Callable[[Tx], T]) -> T:
        """Run `fn` in the next shared commit; return its result once that is on disk.

        Raises what `fn` raised (nothing of it is stored), `Conflict` when a unique key is taken, and
        `StorageFailure` when the disk cannot take it.
        """
        return await self._writer.submit(fn)

    async def read(self, fn: Callable[[Reader], T]) -> T:
        """Run `fn` in the read pool: lists and searches."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._pooled, fn)

    def read_now(self, fn: Callable[[Reader], T]) -> T:
        """Run `fn` here and now on the loop's own connection: point reads."""
        self._check_open()
        return self._view(self._inline, fn)

    async def close(self) -> None:
        """Finish what is queued, then let go of the folder."""
        await self._stop_listening()
        await self._writer.close()
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        for reader in (self._inline, *self._spare):
            reader.connection.close()
        if self._lock:
            self._lock.release()
            self._lock = None

    def _others_wrote(self) -> None:
        try:
            self.events.catch_up()
        except StorageFailure:
            return  # listening starts again with the server, and then this is called again
        for fn in self._heard:
            fn()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageFailure("the store is closed")

    def _reader(self, shared: Connection) -> Reader:
        return Reader(shared if self._dialect.shared else self._dialect.connect(writes=False), self._dialect)

    def _pooled(self, fn: Callable[[Reader], T]) -> T:
        reader = self._spare.pop()  # as many as there are threads
        try:
            return self._view(reader, fn)
        finally:
            self._spare.append(reader)

    def _view(self, reader: Reader, fn: Callable[[Reader], T]) -> T:
        if not self._dialect.usable(reader.connection):
            self._reconnect(reader)
        try:
            return self._looked(reader, fn)
        except StorageFailure:
            if self._dialect.usable(reader.connection):
                raise
        self._reconnect(reader)  # the server was restarted meanwhile: look again, once
        return self._looked(reader, fn)

    def _reconnect(self, reader: Reader) -> None:
        try:
            reader.connection = self._dialect.connect(writes=False)
        except Exception as problem:
            raise _as_ours(self._dialect, problem) from problem

    def _looked(self, reader: Reader, fn: Callable[[Reader], T]) -> T:
        connection = reader.connection
        with self._exclusive():
            nested = self._dialect.in_transaction(connection)
            try:
                if not nested:
                    connection.execute("BEGIN")
                return fn(reader)
            except Exception as problem:
                raise _as_ours(self._dialect, problem) from problem
            finally:
                if not nested and self._dialect.in_transaction(connection):
                    connection.execute("ROLLBACK")

    def _exclusive(self) -> AbstractContextManager[Any]:
        return self._guard or nullcontext()


def dialect_of(folder: Path | None, url: str) -> Dialect:
    """The engine behind `url`, else SQLite in `folder`. Raises `Invalid` when its driver is not installed."""
    if not url:
        return Sqlite(folder / "postroom.db" if folder else None)
    try:
        from postroom.store.postgresql import Postgresql
    except ImportError:
        raise Invalid("store.url needs the PostgreSQL driver", fix="pip install 'postroom[postgresql]'") from None
    return Postgresql(url)


def _prepare(dialect: Dialect) -> Connection:
    connection = dialect.connect(writes=True)
    try:
        migrate(dialect, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _as_ours(dialect: Dialect, problem: BaseException) -> BaseException:
    if dialect.fault(problem) in (Fault.STORAGE, Fault.BUSY):
        return StorageFailure(f"the database cannot be read ({problem})", fix="check the disk and who else uses the data folder")
    return problem
