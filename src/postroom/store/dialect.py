"""What the store asks of a database engine, and nothing more. One module per engine keeps the answers.

Everything else (savepoints, named parameters through `Statement`) is the same SQL on both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    alone: bool  # nobody else writes to this database while we are open
    begin_write: str  # the statement that begins a writing transaction; writers take turns, so commits follow `event.seq`
    commit_write: str  # the statement that ends it, and wakes who listens on other nodes
    snapshot: str  # the file of the whole schema; "": a new database goes through every revision

    def connect(self, *, writes: bool) -> Connection: ...
    def in_transaction(self, connection: Connection) -> bool: ...
    def usable(self, connection: Connection) -> bool:
        """False once the server is gone from its other end."""
        ...

    def listen(self, heard: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        """Call `heard` on the running loop after every commit of another node; answers what ends that."""
        ...

    def upgrade(self, connection: Connection) -> None:
        """Run the missing revisions."""
        ...

    def has_table(self, connection: Connection, name: str) -> bool: ...
    def inserted_id(self, cursor: Cursor) -> int: ...
    def fault(self, problem: BaseException) -> Fault | None:
        """None for anything that is no error of the driver."""
        ...

    def check(self, connection: Connection) -> str:
        """Empty when the database is sound, else what is wrong with it."""
        ...
