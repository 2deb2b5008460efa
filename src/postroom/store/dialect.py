"""What the store asks of a database engine, and nothing more. One module per engine keeps the answers.

Everything else (savepoints, named parameters through `Statement`) is the same SQL on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol


class Cursor(Protocol):
    """The part of a DBAPI cursor the store uses."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """A driver's connection in autocommit mode: transactions are begun and ended by us, in SQL."""

    def execute(self, statement: str, parameters: Mapping[str, Any] = ..., /) -> Cursor: ...
    def executemany(self, statement: str, parameters: Sequence[Mapping[str, Any]], /) -> Any: ...
    def close(self) -> None: ...


class Fault(Enum):
    """Whose fault an error of the driver is."""

    CALLER = "caller"  # this statement; the others in the batch are fine
    TAKEN = "taken"  # a unique key is taken
    BUSY = "busy"  # another program holds the database
    STORAGE = "storage"  # the disk is full, failing, or gave back something damaged


class Dialect(Protocol):
    """One database engine."""

    name: str
    shared: bool  # one connection for everything (a database in memory)
    begin_write: str  # the statement that begins a writing transaction

    def connect(self, *, writes: bool) -> Connection: ...
    def in_transaction(self, connection: Connection) -> bool: ...
    def has_table(self, connection: Connection, name: str) -> bool: ...
    def inserted_id(self, cursor: Cursor) -> int: ...
    def fault(self, problem: BaseException) -> Fault | None:
        """None for anything that is no error of the driver."""
        ...

    def check(self, connection: Connection) -> str:
        """Empty when the database is sound, else what is wrong with it."""
        ...
