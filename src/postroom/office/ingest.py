"""The loop that reads queued mail and writes it to inboxes.

An attempt is counted in the store before the mail is read, so a mail that takes the process down
is known by its count at the next start. Fresh mail goes in batches, in order of arrival, one batch
being read while the one before is written. A large mail goes alone, and so does one that failed, after
the fresh ones: each is waited for a moment, so that what answers it finds it, then the others go on
beside it. One such mail at a time, so a hostile one delays large ones by its one attempt, small ones not;
only what names it waits (`precedence`): it goes back into the queue, unattempted, until the other is delivered.
After the third failure it is delivered as `unparseable`: its raw bytes, and the few headers that can
be said of it. Nothing that was accepted is dropped. Mail still coming in goes first: while the door
is busy, batches are small and this loop rests several times as long as it worked, so that a burst is on
disk soon; once mail waits for long, it takes every other turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from sqlalchemy import bindparam, select, update

from postroom.clock import MICROS
from postroom.errors import NotFound, StorageFailure
from postroom.limits import BLOB_INLINE_BYTES, INGEST_ATTEMPTS, PARSE_WORKER_BYTES
from postroom.office import tables as t
from postroom.office.arrival import Queued, deliver, queued
from postroom.office.authenticate import AT_ONCE, Authenticator
from postroom.office.content import Content, bare_content
from postroom.office.parsing import ContentReader
from postroom.office.precedence import PARKED, Ahead, still_queued
from postroom.office.rows import key_list
from postroom.store.engine import Store
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader, Tx

BATCH: Final = 32  # mails per transaction
BUSY_BATCH: Final = 8  # while mail comes in: bounds how long its commit waits behind ours
RESTS: Final = 5.0  # times the work, while mail comes in: both share one interpreter, and taking turns seldom costs both least
REST_S: Final = 0.2  # and no longer: what took a batch long was waiting for others
LATE_S: Final = 10.0  # of waiting, from which on mail in the queue is no less urgent than mail at the door
IDLE_S: Final = 30.0
PATIENCE_S: Final = 1.0  # how long the others wait for a large mail, or one that failed
_RETRY_S: Final = 1.0
_LOST: Final = ("not_found", "corrupt")  # codes of bytes that will not come back by waiting

_QUEUED = (
    select(
        t.intake.c.id,
        t.intake.c.blob,
        t.intake.c.mail_from,
        t.intake.c.rcpt_to,
        t.intake.c.origin,
        t.intake.c.size,
        t.intake.c.attempts,
        t.intake.c.received_at,
        t.intake.c.peer,
    )
    .order_by(t.intake.c.attempts, t.intake.c.id)
    .limit(bindparam("most"))
)
_READY = _QUEUED.where(t.intake.c.id.not_in(key_list("waiting")))
_FRESH = sql(_READY.where(t.intake.c.attempts == 0))
_FRESH_SMALL = sql(_READY.where(t.intake.c.attempts == 0, t.intake.c.size <= PARSE_WORKER_BYTES))
_NEXT = sql(_READY.where(t.intake.c.attempts < PARKED))
_COUNT = sql(update(t.intake).where(t.intake.c.id.in_(key_list("keys"))).values(attempts=t.intake.c.attempts + 1))
_UNCOUNT = sql(update(t.intake).where(t.intake.c.id.in_(key_list("keys"))).values(attempts=t.intake.c.attempts - 1))

log = structlog.get_logger("postroom.office")


class Ingest:
    """Takes mail off the intake queue until told to stop. `busy` says whether mail is coming in right now.

    With an `authenticator` that works, who sent each mail from outside is looked into, several mails at once.
    """

    def __init__(
        self,
        store: Store,
        reader: ContentReader,
        *,
        busy: Callable[[], bool] = lambda: False,
        authenticator: Authenticator | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._patience_s = patience_s
        self._store = store
        self._reader = reader
        self._busy = busy
        self._authenticator = authenticator if authenticator is not None and authenticator.works else None
        self._wake = asyncio.Event()
        self._beside: asyncio.Task[None] | None = None
        self._waiting: dict[int, int] = {}  # a mail that waits, and for which

    def wake(self) -> None:
        """There may be mail in the queue."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. A mail being read when that happens stays in the queue.

        (Here and in its like no `asyncio.wait_for`: until Python 3.12 it loses a cancellation that comes with the result.)
        """
        self._wake.set()
        try:
            while True:
                try:
                    async with asyncio.timeout(IDLE_S):
                        await self._wake.wait()
                except TimeoutError:
                    if self._is_free():
                        self._reader.close()  # its worker, if one was started
                self._wake.clear()
                await self._drain()
        finally:
            if self._beside is not None:
                self._beside.cancel()
                await asyncio.gather(self._beside, return_exceptions=True)

    async def _drain(self) -> None:
        try:
            await self._stream()
            while self._is_free() and (mails := await self._take(_NEXT, 1)):
                await self._apart(mails[0])
                await self._stream()
        except StorageFailure as problem:
            log.warning("ingest_waits", reason=problem.code)
            await self._store.until_accepting()
            await asyncio.sleep(_RETRY_S)
            self._wake.set()

    async def _stream(self) -> None:
        """Fresh mail: each batch is read while the one before is written and the one after is taken, in one commit."""
        mails = await self._take_fresh()
        written = asyncio.create_task(self._deliver(()))
        try:
            while mails:
                if mails[0].size > PARSE_WORKER_BYTES:
                    await written
                    await self._apart(mails[0])
                    mails = await self._take_fresh()
                    continue
                started, oldest = time.monotonic(), mails[0].received_at
                upcoming = asyncio.create_task(self._take_fresh())
                try:
                    read = await self._read_all(mails)
                    await written
                    written = asyncio.create_task(self._deliver(read))
                finally:
                    mails = await upcoming
                if self._busy():
                    await asyncio.sleep(rest(time.monotonic() - started, waited_us=self._store.clock.now_us() - oldest))
        finally:
            await written

    def _is_free(self) -> bool:
        """Is no mail being read apart? Raises what ended that reading, if it was a fault of ours."""
        if self._beside is None:
            return True
        if self._beside.done():
            done, self._beside = self._beside, None
            done.result()
        return self._beside is None

    async def _apart(self, mail: Queued) -> None:
        """Take this one through by itself; after a moment the others need not wait for it."""
        self._beside = asyncio.create_task(self._through(mail))
        self._beside.add_done_callback(lambda task: self._wake.set())
        await asyncio.wait({self._beside}, timeout=self._patience_s)
        self._is_free()

    async def _through(self, mail: Queued) -> None:
        try:
            await self._deliver(await self._read_all([mail]))
        except StorageFailure as problem:
            log.warning("ingest_waits", reason=problem.code)
            await self._store.until_accepting()
            await asyncio.sleep(_RETRY_S)

    async def _take_fresh(self) -> list[Queued]:
        """Fresh mails to read together, or a large one; small ones only while a mail is still read apart."""
        return await self._take(_FRESH if self._is_free() else _FRESH_SMALL, BUSY_BATCH if self._busy() else BATCH)

    async def _take(self, which: Statement, most: int) -> list[Queued]:
        waiting = self._still_waiting()
        if self._store.read_now(lambda reader: reader.one(which, most=1, waiting=waiting)) is None:
            return []
        return await self._store.write(lambda tx: _take(tx, tx.all(which, most=most, waiting=waiting)))

    async def step(self) -> int:
        """Take the next batch through, fresh mails together or one that failed; answers how many mails it held."""
        mails = await self._take(_FRESH, BATCH) or await self._take(_NEXT, 1)
        await self._deliver(await self._read_all(mails))
        return len(mails)

    def _still_waiting(self) -> list[int]:
        """The mails that wait for one still in the queue; the others are ready again."""
        if self._waiting:
            queued = self._store.read_now(lambda reader: still_queued(reader, self._waiting.values()))
            self._waiting = {key: first for key, first in self._waiting.items() if first in queued}
        return list(self._waiting)

    async def _read_all(self, mails: Sequence[Queued]) -> list[tuple[Queued, Content]]:
        if self._authenticator is None:
            return [(mail, content) for mail in mails if (content := await self._read(mail)) is not None]
        done: list[tuple[Queued, Content]] = []
        for start in range(0, len(mails), AT_ONCE):
            some = mails[start : start + AT_ONCE]
            read = await asyncio.gather(*(self._read(mail) for mail in some))
            done += [(mail, content) for mail, content in zip(some, read, strict=True) if content is not None]
        return done

    async def _read(self, mail: Queued) -> Content | None:
        """The mail's content; None when it failed and has attempts left."""
        raw = await self._raw(mail)
        if raw is None:
            return None
        if mail.attempts <= INGEST_ATTEMPTS:
            try:
                content = await self._reader.read(raw)
            except Exception as problem:  # noqa: BLE001 - any failure of a reader is an attempt
                log.warning("mail_not_read", intake=mail.key, attempt=mail.attempts, reason=type(problem).__name__)
                if mail.attempts < INGEST_ATTEMPTS:
                    return None
            else:
                await asyncio.sleep(0)  # others use the loop between two mails
                return await self._authenticated(mail, raw, content)
        return await self._authenticated(mail, raw, bare_content(raw))

    async def _authenticated(self, mail: Queued, raw: bytes, content: Content) -> Content:
        if self._authenticator is None or mail.origin == "local":
            return content
        return await self._authenticator.authenticate(raw, content, mail_from=mail.mail_from, peer=mail.peer)

    async def _raw(self, mail: Queued) -> bytes | None:
        """The bytes as they came; None when the disk lost them: such a mail stays in the queue for a person."""

        def get(reader: Reader) -> bytes:
            return self._store.blobs.get_in(reader, mail.blob)

        try:
            return self._store.read_now(get) if mail.size <= BLOB_INLINE_BYTES else await self._store.read(get)
        except (NotFound, StorageFailure) as problem:
            if problem.code not in _LOST:
                raise
            log.error("mail_damaged", intake=mail.key, attempt=mail.attempts, sha=mail.blob)  # noqa: TRY400 - no trace to show
            return None

    async def _deliver(self, read: Sequence[tuple[Queued, Content]]) -> None:
        """One commit for the batch; if that fails for another reason than the disk, one for each."""
        if not read:
            return
        try:
            self._waiting |= await self._store.write(lambda tx: _deliver_all(tx, self._store, read))
        except StorageFailure:
            raise
        except Exception as problem:
            if len(read) > 1:
                for entry in read:
                    await self._deliver([entry])
                return
            mail, content = read[0]
            log.exception("mail_not_delivered", intake=mail.key, attempt=mail.attempts, reason=type(problem).__name__)
            raw = await self._raw(mail) if mail.attempts >= INGEST_ATTEMPTS and content.findings[:1] != _BARE else None
            if raw is not None:
                await self._deliver([(mail, bare_content(raw))])


def rest(worked_s: float, *, waited_us: int) -> float:
    """Seconds to leave to the door after a batch that took `worked_s` and whose first mail had waited so long."""
    return min(worked_s if waited_us > LATE_S * MICROS else RESTS * worked_s, REST_S)


_BARE: Final = bare_content(b"").findings


def _take(tx: Tx, rows: Sequence[tuple[Any, ...]]) -> list[Queued]:
    """The first of these that go together, an attempt at each counted."""
    batch = rows[: _together(rows)]
    tx.run(_COUNT, keys=[row[0] for row in batch])
    return [queued(_counted(row)) for row in batch]


def _together(rows: Sequence[tuple[Any, ...]]) -> int:
    """How many of these go in one batch: a large mail alone, else those before the first large one."""
    return next((max(place, 1) for place, row in enumerate(rows) if row[5] > PARSE_WORKER_BYTES), len(rows))


def _counted(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row[:6], row[6] + 1, *row[7:])


def _deliver_all(tx: Tx, store: Store, read: Sequence[tuple[Queued, Content]]) -> dict[int, int]:
    """Write each mail to its inboxes, but for those that wait: they are as if nobody had tried. Answers who waits for whom."""
    ahead = Ahead(tx, [mail for mail, _ in read])
    waiting: dict[int, int] = {}
    for mail, content in read:
        first = ahead.of(mail, content)
        if first is None:
            deliver(tx, store, mail, content)
        else:
            waiting[mail.key] = first
    tx.run(_UNCOUNT, keys=list(waiting))
    return waiting
