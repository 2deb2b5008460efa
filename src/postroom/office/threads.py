"""Threads: listing, reading and labelling them. Choosing a mail's thread is `placing`'s, at arrival.

Without labels asked for, a list holds threads with at least one received message that is not hidden,
by their newest received one; asked for a label, every thread that carries it, by its newest message
(so a follow-up on an unanswered mail of ours is found). A thread's labels are its messages' union.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

from sqlalchemy import and_, bindparam, exists, select, tuple_

from postroom.errors import NotFound
from postroom.limits import PAGE_DEFAULT
from postroom.model.mail import Thread
from postroom.model.paging import MailFilter, Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Principal
from postroom.office import tables as t
from postroom.office.desk import Desk, Place, check_uuid, place_of_key
from postroom.office.labels import START, Mark, apply_labels, check_room, labels_of_threads, spots_of_thread
from postroom.office.listing import Row, Shape, Walk, beyond, carries, contains, in_order, within
from postroom.office.messages import message_nouns, required_edit
from postroom.office.rows import (
    ATTACHMENT_COLUMNS,
    BODY_COLUMNS,
    MESSAGE_COLUMNS,
    THREAD_COLUMNS,
    grouped_attachments,
    key_list,
    thread_noun,
)
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader, Tx

_AT_ONCE: Final = 100  # messages whose labels are changed in one commit

_KEYS = sql(select(t.thread.c.id, t.thread.c.inbox).where(t.thread.c.uuid == bindparam("uuid")))
BY_KEYS = sql(select(*THREAD_COLUMNS).join(t.inbox, t.inbox.c.id == t.thread.c.inbox).where(t.thread.c.id.in_(key_list("keys"))))
_ATTACHMENTS = sql(
    select(t.attachment.c.thread, *ATTACHMENT_COLUMNS)
    .where(t.attachment.c.thread.in_(key_list("keys")))
    .order_by(t.attachment.c.id)
)


@lru_cache(maxsize=256)
def _list_sql(shape: Shape) -> Statement:
    at = t.thread.c.timestamp if shape.labels else t.thread.c.received_at
    key = t.thread.c.id
    shown = and_(t.message.c.thread == key, t.message.c.hidden.bitwise_and(bindparam("mask")) == 0)
    if not shape.labels:
        shown = and_(shown, t.message.c.received == 1)
    conditions = [
        t.thread.c.inbox == bindparam("inbox"),
        exists(select(t.message.c.id).where(shown)),
        *contains(t.thread.c.fold_senders, "senders", shape.senders),
        *contains(t.thread.c.fold_recipients, "recipients", shape.recipients),
        *contains(t.thread.c.fold_subject, "subject", shape.subject),
        *within(at, shape),
        *beyond(at, key, shape),
    ]
    query = select(*THREAD_COLUMNS).join(t.inbox, t.inbox.c.id == t.thread.c.inbox)
    if shape.rare:
        query = query.join(carrying := _carrying_first(), key == carrying.c.carrying)
    label = t.message_label.alias()
    conditions += carries(label.c.thread, key, label.c.label, range(int(shape.rare), shape.labels))
    if not shape.labels:
        conditions.append(at.is_not(None))
    query = query.where(*conditions)
    return sql(query.order_by(*in_order(at, key, shape)).limit(bindparam("most")))


def _carrying_first() -> Any:
    """The threads with the first label, to start from."""
    label = t.message_label
    carrying = select(label.c.thread.label("carrying")).distinct()
    return carrying.where(label.c.inbox == bindparam("inbox"), label.c.label == bindparam("label0")).subquery()


@lru_cache(maxsize=2)
def _messages_sql(*, onward: bool) -> Statement:
    """A thread's messages, newest first."""
    at, key = t.message.c.timestamp, t.message.c.id
    query = select(*MESSAGE_COLUMNS, *BODY_COLUMNS).join(t.thread, t.thread.c.id == t.message.c.thread)
    query = query.where(t.message.c.thread == bindparam("thread"))
    if onward:
        query = query.where(tuple_(at, key) < tuple_(bindparam("from_at"), bindparam("from_id")))
    return sql(query.order_by(at.desc(), key.desc()).limit(bindparam("most")))


class Threads(Desk):
    """The verbs on threads."""

    async def list_threads(
        self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest
    ) -> Page[Thread]:
        scope = self._scope(principal, inbox_id)
        size = page.size(filtered=filter.is_filtered)
        listing = scope_of("threads", scope.name, filter, page.ascending)
        position = read_token(listing, page.page_token, int, int)
        walk = Walk(build=_list_sql, filter=filter, position=position, ascending=page.ascending)
        ordered_by = 3 if filter.labels else 4  # THREAD_COLUMNS: timestamp, received_at

        def order_of(row: Row) -> tuple[int, int]:
            return row[ordered_by], row[0]

        def read(reader: Reader) -> Page[Thread]:
            rows = walk.rows(reader, scope.keys, size + 1, order_of)
            token = make_token(listing, list(order_of(rows[size - 1]))) if len(rows) > size else None
            return Page(items=thread_nouns(reader, rows[:size]), next_page_token=token)

        return await self._store.read(read)

    async def get_thread(
        self, principal: Principal, inbox_id: str | None, thread_id: str, page: PageRequest | None = None
    ) -> Thread:
        """The thread with its newest messages (oldest first in the page); the token leads to older ones."""
        uuid = check_uuid(thread_id, "thread_id")
        size = page.size(filtered=True) if page else PAGE_DEFAULT
        listing = scope_of("thread", uuid)
        position = read_token(listing, page.page_token if page else None, int, int)
        statement = _messages_sql(onward=position is not None)
        onward = {} if position is None else {"from_at": position[0], "from_id": position[1]}

        def read(reader: Reader) -> Thread:
            key, place = find_thread(reader, principal, inbox_id, uuid)
            thread = thread_nouns(reader, reader.all(BY_KEYS, keys=[key]))[0]
            rows = reader.all(statement, thread=key, most=size + 1, **onward)
            token = make_token(listing, [rows[size - 1][3], rows[size - 1][0]]) if len(rows) > size else None
            messages = message_nouns(reader, rows[:size][::-1], place.inbox.inbox_id)
            return replace(thread, messages=messages, next_page_token=token)

        return await self._store.read(read)

    async def update_thread(
        self, principal: Principal, inbox_id: str | None, thread_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        """Change the labels of all its messages; the thread's full set afterwards.

        Oldest first, so many in a commit, so that nobody waits long for a long thread. Asked again, it finds those done.
        """
        uuid = check_uuid(thread_id, "thread_id")
        added, removed = required_edit(add, remove)
        now = self._store.clock.now_us()

        def check(reader: Reader) -> None:
            key, _ = find_thread(reader, principal, inbox_id, uuid)
            check_room(reader, key, add=added, remove=removed)

        def change(tx: Tx, after: Mark) -> tuple[Mark | None, tuple[str, ...]]:
            key, place = find_thread(tx, principal, inbox_id, uuid)
            spots = spots_of_thread(tx, key, after, _AT_ONCE)
            apply_labels(tx, spots, place.inbox, add=added, remove=removed, at=now)
            if len(spots) == _AT_ONCE:
                return (spots[-1][4], spots[-1][0]), ()
            return None, labels_of_threads(tx, [key]).get(key, ())

        await self._store.read(check)
        reached: Mark | None = START
        labels: tuple[str, ...] = ()
        while reached is not None:
            reached, labels = await self._store.write(partial(change, after=reached))
        return labels


def find_thread(reader: Reader, principal: Principal, inbox_id: str | None, uuid: str) -> tuple[int, Place]:
    """The thread's key and its inbox, if the caller may use it. Raises `NotFound`."""
    row = reader.one(_KEYS, uuid=uuid)
    if row is not None:
        place = place_of_key(reader, principal, row[1], "Thread")
        if inbox_id is None or place.inbox.inbox_id == inbox_id.strip().lower():
            return row[0], place
    raise NotFound("Thread not found", fix="list threads to see their ids")


def thread_nouns(reader: Reader, rows: Sequence[Sequence[Any]]) -> tuple[Thread, ...]:
    """Rows of THREAD_COLUMNS, completed with labels and attachments."""
    keys = [row[0] for row in rows]
    labels = labels_of_threads(reader, keys)
    attachments = grouped_attachments(reader.all(_ATTACHMENTS, keys=keys)) if keys else {}
    return tuple(thread_noun(row, labels, attachments) for row in rows)
