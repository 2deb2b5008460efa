"""Retention: by count, by age and by size, and no reader can hold it up.

The oldest records lose their content; number, hash and link stay, so the chain stays whole. What
went is a record of its own (`retention`), and every reader is told how many messages to it went
unfetched. Over a bound, records go until four fifths of it are left, so that not every send pays.
Keys stay remembered: a retry after that is still no second message.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Final, Protocol

from sqlalchemy import bindparam, delete, func, select, update

from postroom.clock import MICROS
from postroom.errors import StorageFailure
from postroom.mailbox import log
from postroom.mailbox.names import EVERYONE
from postroom.mailbox.records import ERASED, MESSAGE, RETENTION, Message, message_of
from postroom.mailbox.roster import Roster
from postroom.mailbox.tables import attachment, record
from postroom.store.engine import Reader, Store, Tx
from postroom.store.log_search import LogSearch
from postroom.store.statement import sql

SWEEP_S: Final = 60.0
FLOOR: Final = "mailbox.erased"  # the durable position: up to here all content went
PIECE: Final = 200  # records per transaction, so that no send waits long
_DAY_US: Final = 86_400 * MICROS

t = record.c
_LIVE = t.body.is_not(None)
_COUNT = sql(select(func.count(), func.coalesce(func.sum(func.length(t.body)), 0)).where(_LIVE))
_OLDEST = sql(
    select(t.seq, t.kind, t.at, t.sender, t.recipient, t.body, t.state)
    .where(_LIVE, t.seq > bindparam("after"))
    .order_by(t.seq)
    .limit(bindparam("count"))
)
_ERASE = sql(
    update(record)
    .where(t.seq == bindparam("which"))
    .values(kind=ERASED, recipient=None, thread=None, target=None, body=None, state=None)
)
_UNKEYED = sql(update(record).where(t.seq == bindparam("which"), t.idem.is_(None)).values(sender=None))
_FILES = sql(select(attachment.c.blob, attachment.c.size).where(attachment.c.seq == bindparam("seq")))
_DROP_FILES = sql(delete(attachment).where(attachment.c.seq == bindparam("seq")))
_FILE_BYTES = sql(select(func.coalesce(func.sum(attachment.c.size), 0)))


class Bounds(Protocol):
    """What may be kept; 0 is no bound."""

    @property
    def max_records(self) -> int: ...
    @property
    def max_age_days(self) -> float: ...
    @property
    def max_bytes(self) -> int: ...


class Retention:
    """Keeps the log within its bounds."""

    def __init__(self, store: Store, search: LogSearch, roster: Roster, bounds: Bounds, key: bytes) -> None:
        self._store = store
        self._search = search
        self._roster = roster
        self._bounds = bounds
        self._key = key
        self._floor = store.read_now(lambda reader: store.events.cursor_in(reader, FLOOR))
        self._due = asyncio.Event()

    @property
    def is_set(self) -> bool:
        """Is there any bound?"""
        return bool(self._bounds.max_records or self._bounds.max_age_days or self._bounds.max_bytes)

    def grown(self, seq: int) -> None:
        """The log has grown to `seq`."""
        if self._bounds.max_records and seq - self._floor > self._bounds.max_records:
            self._due.set()

    async def run(self) -> None:
        """Sweep when the log grew over its count, and every minute; until cancelled."""
        while True:
            if self.is_set:
                await self._store.until_accepting()
                with contextlib.suppress(StorageFailure):  # the next sweep finds the same
                    await self.sweep()
            self._due.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_S):
                    await self._due.wait()

    async def sweep(self) -> int:
        """Erase what is over a bound; how many records that were."""
        excess = await self._store.read(self._excess)
        erased = 0
        while erased < excess:
            done = await self._store.write(partial(self._erase, count=min(PIECE, excess - erased)))
            if not done:
                break
            erased += done
        return erased

    def _excess(self, reader: Reader) -> int:
        """How many of the oldest are to go."""
        bounds = self._bounds
        count, size = reader.one(_COUNT) or (0, 0)
        size += reader.scalar(_FILE_BYTES) if bounds.max_bytes else 0
        by_count = count - bounds.max_records * 4 // 5 if bounds.max_records and count > bounds.max_records else 0
        by_size = bounds.max_bytes and size > bounds.max_bytes
        if not by_size and not bounds.max_age_days:
            return int(by_count)
        oldest = self._store.clock.now_us() - int(bounds.max_age_days * _DAY_US) if bounds.max_age_days else 0
        spare = size - bounds.max_bytes * 4 // 5 if by_size else 0
        return max(int(by_count), self._until(reader, oldest, spare))

    def _until(self, reader: Reader, oldest: int, spare: int) -> int:
        """How many records are older than `oldest`, or hold the first `spare` bytes."""
        number, after = 0, self._floor
        while rows := reader.all(_OLDEST, after=after, count=PIECE):
            for seq, kind, at, _, _, body, _ in rows:
                if (spare <= 0 and at >= oldest) or (kind == RETENTION and spare <= 0):
                    return number
                spare -= len(body) + sum(size for _, size in reader.all(_FILES, seq=seq))
                number += 1
                after = seq
        return number

    def _erase(self, tx: Tx, count: int) -> int:
        rows = tx.all(_OLDEST, after=self._floor, count=count)
        if not rows:
            return 0
        missed: dict[str, int] = {}
        for seq, kind, _at, sender, recipient, body, state in rows:
            if kind == MESSAGE:
                self._forget(tx, message_of(seq, body, state))
                self._count(missed, seq, sender, recipient)
            tx.run(_ERASE, which=seq)
            tx.run(_UNKEYED, which=seq)
        through = rows[-1][0]
        entry = {"kind": RETENTION, "at": self._store.clock.now_us(), "dropped": len(rows), "through": through}
        log.append(tx, self._key, log.entry_of(entry, recipient=None))
        self._store.events.set_cursor(tx, FLOOR, through)
        tx.after_commit(lambda: self._erased(through, missed))
        return len(rows)

    def _forget(self, tx: Tx, message: Message) -> None:
        """Take a message's words out of the index and its files out of the store."""
        seq = message.seq
        if message.withdrawn_at is None:
            self._search.remove(tx, seq, message.text, message.readers)
        blobs = {blob for blob, _ in tx.all(_FILES, seq=seq)}
        tx.run(_DROP_FILES, seq=seq)
        self._store.blobs.release(tx, blobs)

    def _count(self, missed: dict[str, int], seq: int, sender: str, recipient: str) -> None:
        for one in self._roster.all() if recipient == EVERYONE else filter(None, [self._roster.get(recipient)]):
            if one.name != sender and max(one.fetched, one.acknowledged) < seq:
                missed[one.name] = missed.get(one.name, 0) + 1

    def _erased(self, through: int, missed: dict[str, int]) -> None:
        self._floor = max(self._floor, through)
        for name, count in missed.items():
            self._roster.missed(name, count)
