"""Deletion, for good: a message, a thread, an inbox. The owner's alone.

Text, index entry and, unless another row names the same bytes, the raw mail go. The event log keeps
ids, the audit its hashes. The raw bytes of what we sent stay as long as the gate's record of it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update

from postroom.model.principal import Principal, require_owner
from postroom.office import draft_rows
from postroom.office import tables as t
from postroom.office.desk import Desk, check_uuid, place_of
from postroom.office.messages import message_key
from postroom.office.placing import UPDATE_THREAD, fold, joined
from postroom.office.rows import key_list, strings, to_json
from postroom.office.threads import find_thread
from postroom.office.webhook_bodies import erase_bodies_about
from postroom.store.engine import Store
from postroom.store.statement import sql
from postroom.store.transaction import Tx

_CHUNK: Final = 200  # messages per commit when a thread or an inbox goes

_FACTS = (t.message.c.id, t.message.c.blob, t.message.c.received, t.message.c.thread, t.message.c.public_id)
_ONE = sql(select(*_FACTS).where(t.message.c.id == bindparam("key")))
_OF_THREAD = sql(
    select(*_FACTS)
    .where(t.message.c.thread == bindparam("thread"))
    .order_by(t.message.c.timestamp.desc(), t.message.c.id.desc())
    .limit(bindparam("most"))
)
_OF_INBOX = sql(select(*_FACTS).where(t.message.c.inbox == bindparam("inbox")).limit(bindparam("most")))
_DROP_PARTS = tuple(
    sql(delete(table).where(column.in_(key_list("keys"))))
    for table, column in (
        (t.message_alias, t.message_alias.c.message),
        (t.message_label, t.message_label.c.message),
        (t.attachment, t.attachment.c.message),
        (t.message, t.message.c.id),
    )
)
_LEFT = sql(
    select(
        t.message.c.public_id,
        t.message.c.timestamp,
        t.message.c.received,
        t.message.c.from_,
        t.message.c.to_,
        t.message.c.cc,
        t.message.c.bcc,
        t.message.c.size,
        t.message.c.preview,
        t.thread.c.subject,
    )
    .join(t.thread, t.thread.c.id == t.message.c.thread)
    .where(t.message.c.thread == bindparam("thread"))
    .order_by(t.message.c.timestamp, t.message.c.id)
)
_DROP_THREAD = sql(delete(t.thread).where(t.thread.c.id == bindparam("thread")))
_DROP_THREADS = sql(delete(t.thread).where(t.thread.c.inbox == bindparam("inbox")))
_DRAFTS = sql(select(t.draft.c.id).where(t.draft.c.inbox == bindparam("inbox")))
_DROP_ENTRIES = sql(delete(t.list_entry).where(t.list_entry.c.inbox == bindparam("inbox")))
_ITS_WEBHOOKS = (
    select(t.webhook.c.id).join(t.inbox, t.inbox.c.address == t.webhook.c.inbox).where(t.inbox.c.id == bindparam("inbox"))
)
_DROP_DELIVERIES = sql(delete(t.webhook_delivery).where(t.webhook_delivery.c.webhook.in_(_ITS_WEBHOOKS)))
_DROP_WEBHOOKS = sql(delete(t.webhook).where(t.webhook.c.id.in_(_ITS_WEBHOOKS)))
_DROP_INBOX = sql(delete(t.inbox).where(t.inbox.c.id == bindparam("inbox")))
_PAUSE = sql(update(t.inbox).where(t.inbox.c.id == bindparam("key")).values(status="paused"))


class Deletion(Desk):
    """The verbs that delete."""

    async def delete_message(self, principal: Principal, inbox_id: str, message_id: str) -> None:
        require_owner(principal, "delete messages")
        now = self._store.clock.now_us()

        def drop(tx: Tx) -> None:
            key = message_key(tx, place_of(tx, principal, inbox_id.strip().lower()), message_id)
            facts = tx.all(_ONE, key=key)
            _drop(tx, self._store, facts)
            _refit(tx, facts[0][3], at=now)

        await self._store.write(drop)

    async def delete_thread(self, principal: Principal, inbox_id: str | None, thread_id: str) -> None:
        """The thread with all its messages, the newest first; cut short, what is left of it is a thread."""
        require_owner(principal, "delete threads")
        uuid = check_uuid(thread_id, "thread_id")
        key, _ = self._store.read_now(lambda reader: find_thread(reader, principal, inbox_id, uuid))
        now = self._store.clock.now_us()

        def drop_some(tx: Tx) -> int:
            facts = tx.all(_OF_THREAD, thread=key, most=_CHUNK)
            _drop(tx, self._store, facts)
            _refit(tx, key, at=now)
            return len(facts)

        while await self._store.write(drop_some) == _CHUNK:
            pass

    async def delete_inbox(self, principal: Principal, inbox_id: str) -> None:
        """The inbox and everything in it; it takes no more mail from the first moment on."""
        require_owner(principal, "delete inboxes")
        place = self._place(principal, inbox_id)
        await self._store.write(lambda tx: tx.run(_PAUSE, key=place.key))
        while await self._store.write(lambda tx: _drop_some(tx, self._store, place.key)):
            pass


def _drop_some(tx: Tx, store: Store, inbox: int) -> int:
    """The next messages of an inbox; when there are none, the inbox itself."""
    facts = tx.all(_OF_INBOX, inbox=inbox, most=_CHUNK)
    _drop(tx, store, facts)
    if not facts:
        for row in tx.all(_DRAFTS, inbox=inbox):
            draft_rows.erase(tx, store.blobs, row[0])
        for statement in (_DROP_THREADS, _DROP_ENTRIES, _DROP_DELIVERIES, _DROP_WEBHOOKS, _DROP_INBOX):
            tx.run(statement, inbox=inbox)
    return len(facts)


def _drop(tx: Tx, store: Store, facts: Sequence[Sequence[Any]]) -> None:
    keys = [row[0] for row in facts]
    for key in keys:
        store.search.remove(tx, key)
    for row in facts:
        erase_bodies_about(tx, row[4])
    for statement in _DROP_PARTS:
        tx.run(statement, keys=keys)
    store.blobs.release(tx, {row[1] for row in facts})


def _refit(tx: Tx, thread: int, *, at: int) -> None:
    """Make the thread's row say what is left in it; an empty thread is gone."""
    left = tx.all(_LEFT, thread=thread)
    if not left:
        tx.run(_DROP_THREAD, thread=thread)
        return
    senders = joined((), (row[3] for row in left))
    recipients = joined((), (entry for row in left for column in row[4:7] for entry in strings(column)))
    tx.run(
        UPDATE_THREAD,
        key=thread,
        new_senders=to_json(senders),
        new_recipients=to_json(recipients),
        new_fold_senders=fold(senders),
        new_fold_recipients=fold(recipients),
        new_subject=left[0][9],
        new_fold_subject=fold((left[0][9] or "",)),
        new_message_count=len(left),
        new_size=sum(row[7] for row in left),
        new_timestamp=left[-1][1],
        new_received_at=max((row[1] for row in left if row[2]), default=None),
        new_sent_at=max((row[1] for row in left if not row[2]), default=None),
        new_last_message_id=left[-1][0],
        new_preview=left[-1][8],
        new_updated_at=at,
    )
