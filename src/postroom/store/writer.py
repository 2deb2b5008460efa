"""The one writer: a thread that puts queued functions into shared commits, and what it does when the disk refuses.

Functions share a transaction; whoever waits hears of it after COMMIT only. While one commit is
syncing, the next batch gathers, so many writers share one fsync and a lone one waits for nothing but
its own.

A failing function takes back its own part and nobody else's. Most batches have none, so a batch runs
plainly first; when a function fails, the transaction is rolled back and the batch runs again with each
function in a savepoint of its own (two statements more for every function, and each statement is a
turn of the interpreter's lock). When the engine has thrown the whole transaction away, each function
is run again alone. When the disk is full or failing, everybody
in the batch is told so, the connection is closed (an fsync is never tried twice on one: its second
success can be a lie), and nothing is accepted until a new connection has written a probe and found
the database sound.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import bindparam, delete, insert

from postroom.errors import Conflict, PostroomError, StorageFailure
from postroom.model.event import Event
from postroom.store import schema
from postroom.store.dialect import Connection, Dialect, Fault
from postroom.store.statement import sql
from postroom.store.transaction import Tx

T = TypeVar("T")

BATCH: Final = 256  # functions per commit: bounds how long the first one waits for the last
CROWD: Final = 6  # from so many in one commit on, the next waits a moment for as many
LINGER_S: Final = 0.001
RETRY_S: Final = 1.0  # between two attempts to write again after the disk refused

_PROBE = sql(insert(schema.probe).values(at=bindparam("at")))
_CLEAN = sql(delete(schema.probe))


class Job:
    """One queued function and what became of it."""

    __slots__ = ("callbacks", "events", "fn", "future", "last", "problem", "result")

    def __init__(self, fn: Callable[[Tx], Any], future: asyncio.Future[Any]) -> None:
        self.fn = fn
        self.future = future
        self.forget()

    def forget(self) -> None:
        self.result: Any = None
        self.problem: BaseException | None = None
        self.events: Sequence[Event] = ()
        self.callbacks: Sequence[Callable[[], None]] = ()
        self.last: Sequence[Callable[[Tx], None]] = ()


class Lost(Exception):
    """The engine threw the whole transaction away."""


class Failed(Exception):
    """A function raised `problem`."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__(problem)
        self.problem = problem


class Writer:
    """Owns the writing connection. `publish` is called on the loop with each batch's events, before anyone's result."""

    def __init__(
        self,
        dialect: Dialect,
        connection: Connection,
        guard: threading.RLock | None,
        publish: Callable[[Sequence[Event]], None],
    ) -> None:
        self._dialect = dialect
        self._connection = connection
        self._guard = guard  # held during a batch when readers share the connection
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._accepting = True
        self._closed = False
        self._crowd = 0  # jobs of the last batch
        self._accepts_again = asyncio.Event()
        self._accepts_again.set()
        self._thread = threading.Thread(target=self._work, name="postroom-writer", daemon=True)
        self._thread.start()

    @property
    def accepting(self) -> bool:
        return self._accepting and not self._closed

    async def until_accepting(self) -> None:
        await self._accepts_again.wait()

    async def submit(self, fn: Callable[[Tx], T]) -> T:
        if not self.accepting:
            raise _refusal("the store is closed" if self._closed else "the disk does not take writes at present")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(Job(fn, future))
        return await future

    async def close(self) -> None:
        """Finish what is queued, then stop."""
        if self._closed:
            return
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()

    # From here on: the writer's thread.

    def _work(self) -> None:
        while True:
            jobs, last = self._gather()
            if jobs:
                self._serve(jobs)
                self._tell(self._release, jobs)
            if last:
                return
            if not self._accepting and self._recover():
                self._accepting = True
                self._tell(self._accepts_again.set)

    def _gather(self) -> tuple[list[Job], bool]:
        """Everything queued (at least one, unless the retry timer is running), and whether to stop after it."""
        jobs: list[Job] = []
        try:
            entry = self._queue.get(timeout=None if self._accepting else RETRY_S)
            until = time.monotonic() + LINGER_S
            while entry is not None:
                if not entry.future.cancelled():
                    jobs.append(entry)
                if len(jobs) == BATCH:
                    return jobs, False
                entry = self._next(len(jobs), until)
        except queue.Empty:
            self._crowd = len(jobs)
            return jobs, False
        return jobs, True

    def _next(self, gathered: int, until: float) -> Job | None:
        """The next job; while many write at once, wait a moment for as many as last time. Raises `queue.Empty`."""
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            left = until - time.monotonic()
            if self._crowd < CROWD or gathered >= self._crowd or left <= 0:
                raise
            return self._queue.get(timeout=left)

    def _serve(self, jobs: Sequence[Job]) -> None:
        if not self._accepting:
            self._fail(jobs, _refusal("the disk does not take writes at present"))
            return
        try:
            self._commit(jobs)
        except Lost:
            self._one_by_one(jobs)
        except Exception as problem:  # noqa: BLE001 - whatever happened, every waiter must hear of it
            self._stop(jobs, problem)

    def _one_by_one(self, jobs: Sequence[Job]) -> None:
        """Again, each in a transaction of its own; what was committed stays committed when a later one fails."""
        for at, job in enumerate(jobs):
            job.forget()
            try:
                self._commit([job])
            except Lost as lost:
                job.forget()
                job.problem = lost.__cause__
            except Exception as problem:  # noqa: BLE001 - as above
                self._stop(jobs[at:], problem)
                return

    def _commit(self, jobs: Sequence[Job]) -> None:
        if self._guard is None:
            self._transaction(jobs)
            return
        with self._guard:
            self._transaction(jobs)

    def _transaction(self, jobs: Sequence[Job]) -> None:
        try:
            self._together(jobs, self._run_plainly)
        except Failed as failed:
            self._roll_back()
            if len(jobs) == 1:
                jobs[0].problem = _as_ours(failed.problem, self._dialect.fault(failed.problem))
                return
            for job in jobs:
                job.forget()
            self._together(jobs, self._run_apart)

    def _together(self, jobs: Sequence[Job], run: Callable[[Job, dict[str, Any]], None]) -> None:
        self._connection.execute(self._dialect.begin_write)
        shared: dict[str, Any] = {}
        for job in jobs:
            run(job, shared)
        self._finish([fn for job in jobs for fn in job.last])
        self._connection.execute(self._dialect.commit_write)

    def _finish(self, last: Sequence[Callable[[Tx], None]]) -> None:
        """What the functions put off to the end of the transaction, outside their savepoints."""
        tx = Tx(self._connection, self._dialect, {})
        try:
            for fn in last:
                fn(tx)
        except Exception as problem:
            if self._dialect.fault(problem) is Fault.STORAGE:
                raise
            self._roll_back()
            raise Lost from problem  # whose it was shows when each runs alone

    def _run_plainly(self, job: Job, shared: dict[str, Any]) -> None:
        tx = Tx(self._connection, self._dialect, shared)
        try:
            job.result = job.fn(tx)
        except BaseException as problem:  # it belongs to the caller, whatever it is
            if self._dialect.fault(problem) is Fault.STORAGE:
                raise
            if not self._dialect.in_transaction(self._connection):
                raise Lost from problem
            raise Failed(problem) from problem
        job.events, job.callbacks, job.last = tx.events, tx.callbacks, tx.last

    def _run_apart(self, job: Job, shared: dict[str, Any]) -> None:
        """In a savepoint. What earlier functions shared may have been taken back with them, so nothing is passed on."""
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            self._run_plainly(job, {})
        except Failed as failed:
            connection.execute("ROLLBACK TO job")
            job.problem = _as_ours(failed.problem, self._dialect.fault(failed.problem))
        connection.execute("RELEASE job")

    def _stop(self, jobs: Sequence[Job], problem: Exception) -> None:
        """The batch cannot be stored. Unless the database was merely busy, write nothing more on this connection."""
        self._roll_back()
        if self._dialect.fault(problem) is Fault.BUSY:
            self._fail(jobs, _refusal("another program holds the database", problem))
            return
        self._accepting = False
        self._tell(self._accepts_again.clear)
        if self._dialect.usable(self._connection):
            self._fail(jobs, _refusal("the disk did not take the write", problem))
        else:  # it may have taken the commit and died before saying so
            self._fail(jobs, _refusal("the database server was lost", problem, stored="whether this was stored is not known"))
        if not self._dialect.shared:
            self._connection.close()

    def _roll_back(self) -> None:
        with contextlib.suppress(Exception):  # closing the connection, which follows, rolls back as well
            if self._dialect.in_transaction(self._connection):
                self._connection.execute("ROLLBACK")

    def _recover(self) -> bool:
        try:
            if not self._dialect.shared:
                self._connection = self._dialect.connect(writes=True)
            self._probe()
            damage = self._dialect.check(self._connection)
        except Exception as problem:  # noqa: BLE001 - a disk that still fails is tried again later
            damage = str(problem)
        if damage and not self._dialect.shared:
            self._connection.close()
        return not damage

    def _probe(self) -> None:
        now = time.time_ns() // 1000
        self._connection.execute(self._dialect.begin_write)
        tx = Tx(self._connection, self._dialect, {})
        tx.insert(_PROBE, at=now)
        tx.run(_CLEAN)
        self._connection.execute("COMMIT")

    def _fail(self, jobs: Sequence[Job], problem: StorageFailure) -> None:
        for job in jobs:
            job.forget()
            job.problem = problem

    def _tell(self, fn: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(fn, *args)
        except RuntimeError:  # the loop is gone, and with it everyone who waited
            self._closed = True

    # On the loop again.

    def _release(self, jobs: Sequence[Job]) -> None:
        """After COMMIT: the events, then each function's callbacks and result, in the order they were stored."""
        events = [event for job in jobs for event in job.events]
        if events:
            self._publish(events)
        for job in jobs:
            for callback in job.callbacks:
                self._loop.call_soon(callback)
            if job.future.done():
                continue
            if job.problem is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(job.problem)


def _refusal(what: str, cause: BaseException | None = None, *, stored: str = "nothing of this was stored") -> StorageFailure:
    why = f" ({cause})" if cause else ""
    failure = StorageFailure(f"{what}{why}; {stored}", fix="free disk space or check the disk, then try again")
    failure.__cause__ = cause
    return failure


def _as_ours(problem: BaseException, fault: Fault | None) -> BaseException:
    """A driver's error in our own terms; everything else is the caller's own."""
    ours: PostroomError
    if fault is Fault.TAKEN:
        ours = Conflict("that name or key is taken")
    elif fault is Fault.BUSY:
        ours = _refusal("another program holds the database")
    elif isinstance(problem, StopIteration):  # a future refuses it
        return RuntimeError("the function raised StopIteration")
    else:
        return problem
    ours.__cause__ = problem
    return ours
