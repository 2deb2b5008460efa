"""PostgreSQL: several nodes over one database.

Whoever writes first takes one advisory lock, which the end of the transaction gives back; so writers
of all nodes take turns, an event's `seq` is given in the order of commits, and a reader that saw
event N has seen every one before it. Each commit notifies the other nodes. The same SQL as on SQLite
runs here; what a driver must do alike is set up in `connect`: whole numbers stay whole, and text
holds no NUL, which this engine cannot store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

import psycopg
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus
from psycopg.types.string import StrDumper, StrDumperUnknown

from postroom.store.dialect import Connection, Cursor, Fault

CONNECT_S: Final = 5
TURN_S: Final = 30  # how long a writer waits for the others; a node that hangs loses its turn after as long
RETRY_S: Final = 1.0  # between two attempts to listen again
_CHANNEL: Final = "postroom"
_LOCK: Final = 0x706F7374  # "post"

_READS: Final = "-c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on"
_WRITES: Final = f"-c synchronous_commit=on -c lock_timeout={TURN_S}s -c idle_in_transaction_session_timeout={TURN_S}s"

_BUSY: Final = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure, errors.QueryCanceled)
# 08 connection, 53 resources (disk, memory, connections), 57P server going, 58 system, F0 configuration, XX damage
_STORAGE: Final = ("08", "53", "57P", "58", "F0", "XX")


class Postgresql:
    """The engine behind `url`."""

    name = "postgresql"
    shared = False
    alone = False
    begin_write = f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK})"
    commit_write = f"NOTIFY {_CHANNEL}; COMMIT"
    snapshot = ""

    def __init__(self, url: str) -> None:
        self._url = url
        self._writer = 0  # the server's number for our writing connection: what it tells is no news

    def connect(self, *, writes: bool) -> Connection:
        connection = self._open(_WRITES if writes else _READS)
        if writes:
            self._writer = connection.info.backend_pid
        return cast(Connection, connection)

    def _open(self, options: str) -> psycopg.Connection[Any]:
        given = psycopg.conninfo.conninfo_to_dict(self._url).get("options") or ""
        connection = _Connection.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_S,
            options=f"{given} {options}".strip(),
            application_name="postroom",
            client_encoding="utf-8",
        )
        for dumper in (_Text, _UntypedText):
            connection.adapters.register_dumper(str, dumper)
        connection.adapters.register_loader("numeric", _Number)
        return connection

    def in_transaction(self, connection: Connection) -> bool:
        status = cast(psycopg.Connection[Any], connection).info.transaction_status
        return status in (TransactionStatus.ACTIVE, TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def usable(self, connection: Connection) -> bool:
        return not cast(psycopg.Connection[Any], connection).closed

    def has_table(self, connection: Connection, name: str) -> bool:
        row = connection.execute("SELECT to_regclass(quote_ident(%(name)s))", {"name": name}).fetchone()
        return row[0] is not None

    def inserted_id(self, cursor: Cursor) -> int:
        return int(cursor.fetchone()[0])

    def fault(self, problem: BaseException) -> Fault | None:
        if not isinstance(problem, psycopg.Error):
            return None
        if isinstance(problem, _BUSY):
            return Fault.BUSY
        if isinstance(problem, psycopg.IntegrityError):
            return Fault.TAKEN if isinstance(problem, errors.UniqueViolation) else Fault.CALLER
        code = problem.sqlstate or ""
        lost = isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError) and not code
        return Fault.STORAGE if lost or code.startswith(_STORAGE) else Fault.CALLER

    def check(self, connection: Connection) -> str:
        """The server looks after its own files; it only has to take writes."""
        (standby,) = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        return "the server is a standby and takes no writes" if standby else ""

    def upgrade(self, connection: Connection) -> None:
        from postroom.store.migrations.upgrade import upgrade

        upgrade(connection, self)

    def listen(self, heard: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        return Ear(lambda: self._open(""), lambda pid: pid != self._writer, heard).close


class _Connection(psycopg.Connection[Any]):
    """With the shorthand the store uses beside `execute`."""

    def executemany(self, statement: str, parameters: Sequence[Mapping[str, Any]]) -> None:
        with self.cursor() as cursor:
            cursor.executemany(cast(Any, statement), parameters)


class Ear:
    """Listens on the running loop for commits of other nodes; when the server goes, until it is back."""

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], news: Callable[[int], bool], heard: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._news = news
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._connection: psycopg.Connection[Any] | None = None
        self._closing = asyncio.Event()
        self._task = self._loop.create_task(self._listen())

    async def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        await self._task
        self._hang_up()

    async def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                self._connection = await asyncio.to_thread(self._subscribed)
            except psycopg.Error:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_S):
                        await self._closing.wait()
                continue
            self._loop.add_reader(self._connection.fileno(), self._hear)
            self._heard()  # whatever was committed while nobody listened
            return

    def _subscribed(self) -> psycopg.Connection[Any]:
        connection = self._connect()
        connection.execute(f"LISTEN {_CHANNEL}")
        return connection

    def _hear(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            connection.pgconn.consume_input()
            pids = []
            while (notice := connection.pgconn.notifies()) is not None:
                pids.append(notice.be_pid)
        except psycopg.Error:
            self._hang_up()
            self._task = self._loop.create_task(self._listen())
            return
        if any(map(self._news, pids)):
            self._heard()

    def _hang_up(self) -> None:
        if self._connection is None:
            return
        with contextlib.suppress(psycopg.Error):
            self._loop.remove_reader(self._connection.fileno())
        self._connection.close()
        self._connection = None


class _Text(StrDumper):
    """Text without NUL: its place is kept by U+FFFD."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd") if "\0" in obj else obj)


class _UntypedText(StrDumperUnknown):
    """The same, for the server to find the type of."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd") if "\0" in obj else obj)


class _Number(Loader):
    """Sums of BIGINT come as NUMERIC; all of ours are whole."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text or "N" in text else int(text)
