"""SQLite: WAL, synchronous=FULL (a commit is on disk when it returns), one file in the data folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, cast

from postroom.store.dialect import Connection, Cursor, Fault

BUSY_TIMEOUT_S: Final = 5.0  # for the owner's own tools on the same file; we are the only server on it
CACHE_KIB: Final = 8192
WAL_BYTES: Final = 64 * 1024 * 1024  # a log that a burst made longer is cut back to this

_STORAGE: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class Sqlite:
    """The embedded engine. `path` None: a database in memory, on one shared connection."""

    name = "sqlite"
    alone = True
    begin_write = "BEGIN IMMEDIATE"
    commit_write = "COMMIT"
    snapshot = "schema.sql"

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.shared = path is None

    def connect(self, *, writes: bool) -> Connection:
        if self._path is not None and writes:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))  # -wal and -shm inherit the mode
        connection = sqlite3.connect(
            self._path or ":memory:",
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        for pragma in self._pragmas(writes=writes):
            connection.execute(f"PRAGMA {pragma}")
        return cast(Connection, connection)

    def _pragmas(self, *, writes: bool) -> list[str]:
        shared = ["foreign_keys=OFF", f"cache_size=-{CACHE_KIB}", "temp_store=MEMORY", "trusted_schema=OFF"]
        if self.shared:
            return shared
        if writes:
            return [*shared, "journal_mode=WAL", "synchronous=FULL", f"journal_size_limit={WAL_BYTES}"]
        return [*shared, "query_only=ON"]

    def in_transaction(self, connection: Connection) -> bool:
        return cast(sqlite3.Connection, connection).in_transaction

    def usable(self, connection: Connection) -> bool:
        return True

    def listen(self, heard: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        return _nothing

    def upgrade(self, connection: Connection) -> None:
        from postroom.store.migrations.upgrade import upgrade

        upgrade(connection)

    def has_table(self, connection: Connection, name: str) -> bool:
        row = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name", {"name": name}).fetchone()
        return row is not None

    def inserted_id(self, cursor: Cursor) -> int:
        return cast(sqlite3.Cursor, cursor).lastrowid or 0

    def fault(self, problem: BaseException) -> Fault | None:
        if not isinstance(problem, sqlite3.Error):
            return None
        extended: int = getattr(problem, "sqlite_errorcode", 0)
        code = extended & 0xFF
        if code in _STORAGE and extended != sqlite3.SQLITE_CORRUPT_VTAB:  # a search index out of step is no bad disk
            return Fault.STORAGE
        if code in _BUSY:
            return Fault.BUSY
        return Fault.TAKEN if isinstance(problem, sqlite3.IntegrityError) else Fault.CALLER

    def check(self, connection: Connection) -> str:
        rows = [row[0] for row in connection.execute("PRAGMA quick_check(1)").fetchall()]
        return "" if rows == ["ok"] else "; ".join(rows)


async def _nothing() -> None:
    """There is no other node."""
