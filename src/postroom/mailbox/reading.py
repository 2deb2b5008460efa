"""Reading by cursor: what lies after it for one reader, oldest first, and never consumed.

A reader sees what is to it, what is to everyone, and (asked for, or inside a thread) what it sent.
An edit, reaction or withdrawal made after the cursor shows its message again, with the change. Every
walk follows an index from the cursor on and stops after a page, so it costs the same at any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import merge
from itertools import islice
from typing import Any, Final

from sqlalchemy import bindparam, select

from postroom.limits import MIB
from postroom.mailbox import log
from postroom.mailbox.names import EVERYONE
from postroom.mailbox.records import CHANGES, MESSAGE, Batch, Change, Message, message_of
from postroom.mailbox.tables import record as t
from postroom.store.engine import Reader
from postroom.store.statement import Statement, sql

PAGE: Final = 100
PAGE_MAX: Final = 500
_SCAN: Final = 20  # pages looked through for what no index answers; then the cursor says how far it got

_COLUMNS = (t.c.seq, t.c.kind, t.c.at, t.c.sender, t.c.recipient, t.c.target, t.c.body, t.c.state)
_SEQ, _KIND, _AT, _SENDER, _RECIPIENT, _TARGET, _BODY, _STATE = range(8)
_MESSAGE = sql(select(t.c.body, t.c.state).where(t.c.seq == bindparam("seq"), t.c.kind == MESSAGE))

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to read. `newest`: the last page instead of the next one."""

    reader: str
    since: int = 0
    limit: int = PAGE
    sender: str | None = None
    thread: str | None = None
    mention: str | None = None
    priority: str | None = None
    sent: bool = False
    newest: bool = False
    before: int = 1 << 62  # of the newest: those below it
    most_bytes: int = 4 * MIB  # of a page's records; one is always given

    @property
    def is_filtered(self) -> bool:
        """True when messages may be passed over that the reader has not seen."""
        return bool(self.sender or self.thread or self.mention or self.priority)


def read(reader: Reader, query: Query) -> Batch:
    """One page."""
    end = log.head(reader)
    taken, position, more = _page(reader, query)
    taken.sort(key=lambda row: row[_SEQ])
    cursor = position if more and not query.newest else end.seq
    messages = tuple(_shown(reader, query, taken))
    return Batch(messages=messages, cursor=cursor, link=log.link_at(reader, cursor), more=more)


def messages_in(reader: Reader, seqs: Sequence[int]) -> list[Message]:
    """Messages by number, in the given order; those that are gone are left out."""
    return [message for message in _by_number(reader, seqs) if message.withdrawn_at is None]


def is_visible(row: Row, name: str) -> bool:
    """May this reader see the record?"""
    return row[_RECIPIENT] in (name, EVERYONE) or row[_SENDER] == name


def _page(reader: Reader, query: Query) -> tuple[list[Row], int, bool]:
    """Up to `limit` rows that pass the filters, how far was looked, and whether there is more beyond."""
    taken: list[Row] = []
    position, left = query.before if query.newest else query.since, query.most_bytes
    matches = _filter(query)
    for _ in range(_SCAN):
        rows = _walk(reader, query, position, query.limit + 1)
        for row in rows[: query.limit]:
            if len(taken) == query.limit or (taken and left < len(row[_BODY])):
                return taken, position, True
            position = row[_SEQ]
            if matches(row):
                taken.append(row)
                left -= len(row[_BODY])
        if len(rows) <= query.limit:
            return taken, position, False
    return taken, position, True


def _walk(reader: Reader, query: Query, position: int, count: int) -> list[Row]:
    """The next `count` rows of every way in, merged."""
    ways: list[list[Row]] = []
    for column, value in _ways(query):
        statement = _stream(column, query.newest)
        ways.append(reader.all(statement, value=value, position=position, since=query.since, count=count))
    merged: Iterator[Row] = merge(*ways, key=lambda row: row[_SEQ], reverse=query.newest)
    unique = {row[_SEQ]: row for row in merged}  # what I sent to everyone comes two ways
    return list(islice(unique.values(), count))


def _ways(query: Query) -> list[tuple[str, str]]:
    if query.thread is not None:
        return [("thread", query.thread)]
    if query.sender is not None:
        return [("sender", query.sender)]
    own = [("sender", query.reader)] if query.sent else []
    return [("recipient", query.reader), ("recipient", EVERYONE), *own]


@lru_cache(maxsize=8)
def _stream(column: str, newest: bool) -> Statement:
    where = t.c.seq < bindparam("position") if newest else t.c.seq > bindparam("position")
    order = t.c.seq.desc() if newest else t.c.seq
    query = select(*_COLUMNS).where(t.c[column] == bindparam("value"), where, t.c.seq > bindparam("since"))
    return sql(query.order_by(order).limit(bindparam("count")))


def _filter(query: Query) -> Callable[[Row], bool]:
    inside = query.sent or query.thread is not None or query.sender == query.reader

    def matches(row: Row) -> bool:
        if row[_KIND] != MESSAGE and row[_KIND] not in CHANGES:
            return False
        if not is_visible(row, query.reader) or (row[_SENDER] == query.reader and not inside):
            return False
        if query.sender is not None and row[_SENDER] != query.sender:
            return False
        return not (query.mention or query.priority) or row[_KIND] != MESSAGE or _holds(query, row)

    return matches


def _holds(query: Query, row: Row) -> bool:
    message = message_of(row[_SEQ], row[_BODY], row[_STATE])
    if query.priority is not None and message.priority != query.priority:
        return False
    return query.mention is None or query.mention in message.mentions


def _shown(reader: Reader, query: Query, rows: Sequence[Row]) -> Iterator[Message]:
    """Messages as they are now. A change to one the reader gets or got in this pass anyway is not repeated."""
    latest = {row[_TARGET]: row for row in rows if row[_KIND] in CHANGES and row[_TARGET] <= query.since}
    changed = {message.seq: message for message in _by_number(reader, list(latest))} if latest else {}
    for row in rows:
        if row[_KIND] == MESSAGE:
            message = message_of(row[_SEQ], row[_BODY], row[_STATE])
            if message.withdrawn_at is None:
                yield message
        elif latest.get(row[_TARGET]) is row and (target := changed.get(row[_TARGET])) is not None:
            if query.priority is not None and target.priority != query.priority:
                continue
            if query.mention is not None and query.mention not in target.mentions:
                continue
            yield replace(target, change=Change(kind=row[_KIND], seq=row[_SEQ], by=row[_SENDER], at=row[_AT]))


def _by_number(reader: Reader, seqs: Sequence[int]) -> Iterator[Message]:
    for seq in seqs:
        row = reader.one(_MESSAGE, seq=seq)
        if row is not None and row[0] is not None:
            yield message_of(seq, row[0], row[1])
