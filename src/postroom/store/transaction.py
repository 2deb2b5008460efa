"""What a room's function is given: `Reader` to look, `Tx` to change. Rows are the driver's plain tuples."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, insert

from postroom.ids import EVENT, new_id
from postroom.model.event import Event
from postroom.model.principal import DEFAULT_POD
from postroom.store import schema
from postroom.store.dialect import Connection, Dialect
from postroom.store.statement import Statement, sql

Row = tuple[Any, ...]

_EVENT_COLUMNS = ("event_id", "pod", "agent", "inbox", "thread", "kind", "ref", "at", "snapshot")
_encode = json.JSONEncoder(separators=(",", ":")).encode  # made once: `json.dumps` makes one for each call that has options
_EMIT = sql(insert(schema.event).values({name: bindparam(name) for name in _EVENT_COLUMNS}))


class Reader:
    """A consistent view: every statement of one function sees the same moment."""

    __slots__ = ("_dialect", "_name", "connection")

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self.connection = connection
        self._dialect = dialect
        self._name = dialect.name

    @property
    def engine(self) -> str:
        """The dialect's name, for the few statements that cannot be the same on both engines."""
        return self._name

    def one(self, stmt: Statement, **params: Any) -> Row | None:
        """The first row, or None."""
        compiled = stmt.on(self._name)
        row: Row | None = self.connection.execute(compiled.text, compiled.bind(params)).fetchone()
        return row

    def all(self, stmt: Statement, **params: Any) -> list[Row]:
        """Every row."""
        compiled = stmt.on(self._name)
        return self.connection.execute(compiled.text, compiled.bind(params)).fetchall()

    def scalar(self, stmt: Statement, **params: Any) -> Any:
        """The first column of the first row, or None."""
        row = self.one(stmt, **params)
        return None if row is None else row[0]


class Tx(Reader):
    """One room's part of a shared commit: all of it is stored, or none."""

    __slots__ = ("callbacks", "events", "last", "shared")

    def __init__(self, connection: Connection, dialect: Dialect, shared: dict[str, Any]) -> None:
        """`shared` is passed from function to function of one transaction, as long as none has failed."""
        super().__init__(connection, dialect)
        self.shared = shared
        self.events: list[Event] = []
        self.callbacks: list[Callable[[], None]] = []
        self.last: list[Callable[[Tx], None]] = []

    def run(self, stmt: Statement, **params: Any) -> int:
        """Execute; answers how many rows it touched."""
        compiled = stmt.on(self._name)
        return self.connection.execute(compiled.text, compiled.bind(params)).rowcount

    def insert(self, stmt: Statement, **params: Any) -> int:
        """Insert one row; answers its integer id."""
        compiled = stmt.on(self._name)
        return self._dialect.inserted_id(self.connection.execute(compiled.text, compiled.bind(params)))

    def many(self, stmt: Statement, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute once per row of parameters."""
        compiled = stmt.on(self._name)
        self.connection.executemany(compiled.text, [compiled.bind(row) for row in rows])

    def emit(
        self,
        kind: str,
        ref: str,
        *,
        at: int,
        agent_id: str | None = None,
        inbox_id: str | None = None,
        thread_id: str | None = None,
        pod_id: str = DEFAULT_POD,
        snapshot: Mapping[str, Any] | None = None,
    ) -> Event:
        """Append to the event log; it is heard of after COMMIT, and never if this rolls back."""
        event_id = new_id(EVENT)
        seq = self.insert(
            _EMIT,
            event_id=event_id,
            pod=pod_id,
            agent=agent_id,
            inbox=inbox_id,
            thread=thread_id,
            kind=kind,
            ref=ref,
            at=at,
            snapshot=_encode(snapshot) if snapshot else "{}",
        )
        event = Event(
            seq=seq,
            event_id=event_id,
            pod_id=pod_id,
            kind=kind,
            ref=ref,
            at=at,
            agent_id=agent_id,
            inbox_id=inbox_id,
            thread_id=thread_id,
            snapshot=snapshot or {},
        )
        self.events.append(event)
        return event

    def after_commit(self, fn: Callable[[], None]) -> None:
        """Call `fn` on the loop after COMMIT; never if this rolls back."""
        self.callbacks.append(fn)

    def at_end(self, fn: Callable[[Tx], None]) -> None:
        """Call `fn` at the end of the shared commit, outside any savepoint.

        For an index: written once per commit it costs a fraction, and FTS5 writes out what it gathered at
        every savepoint. When `fn` fails, this function fails with it.
        """
        self.last.append(fn)
