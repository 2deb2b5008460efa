"""Messages: listing them, reading one, its raw bytes and attachments, its labels.

List rows carry no bodies. An attachment's bytes are read out of the raw mail when they are asked
for, so they are stored once. Any id a message goes by finds it; its own comes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import and_, bindparam, select

from postroom.errors import Invalid, NotFound
from postroom.limits import PARSE_WORKER_BYTES
from postroom.mime.parse import parse
from postroom.model.mail import Attachment, Blob, Message
from postroom.model.paging import MailFilter, Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Principal
from postroom.office import tables as t
from postroom.office.desk import Desk, Place, place_of
from postroom.office.labels import SPOT_OF_MESSAGE, apply_labels, labels_of_messages
from postroom.office.listing import Row, Shape, Walk, beyond, carries, contains, in_order, within
from postroom.office.rows import (
    ATTACHMENT_COLUMNS,
    BODY_COLUMNS,
    MESSAGE_COLUMNS,
    attachment_noun,
    grouped_attachments,
    key_list,
    message_noun,
)
from postroom.policy.labels import check_labels
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader, Tx

_KEY = sql(
    select(t.message.c.id).where(and_(t.message.c.inbox == bindparam("inbox"), t.message.c.public_id == bindparam("name")))
)
_KEY_BY_ALIAS = sql(
    select(t.message_alias.c.message)
    .where(and_(t.message_alias.c.inbox == bindparam("inbox"), t.message_alias.c.rfc_id == bindparam("name")))
    .order_by(t.message_alias.c.message)
    .limit(1)
)
FULL = sql(
    select(*MESSAGE_COLUMNS, *BODY_COLUMNS)
    .join(t.thread, t.thread.c.id == t.message.c.thread)
    .where(t.message.c.id.in_(key_list("keys")))
    .order_by(t.message.c.timestamp, t.message.c.id)
)
_ATTACHMENTS = sql(
    select(t.attachment.c.message, *ATTACHMENT_COLUMNS)
    .where(t.attachment.c.message.in_(key_list("keys")))
    .order_by(t.attachment.c.id)
)
_RAW = sql(select(t.message.c.blob, t.message.c.public_id).where(t.message.c.id == bindparam("key")))
_ATTACHMENT = sql(
    select(t.attachment.c.place, *ATTACHMENT_COLUMNS).where(
        and_(t.attachment.c.message == bindparam("key"), t.attachment.c.uuid == bindparam("uuid"))
    )
)


@lru_cache(maxsize=256)
def _list_sql(shape: Shape) -> Statement:
    at, key = t.message.c.timestamp, t.message.c.id
    query = select(*MESSAGE_COLUMNS).join(t.thread, t.thread.c.id == t.message.c.thread)
    conditions = [
        t.message.c.inbox == bindparam("inbox"),
        t.message.c.hidden.bitwise_and(bindparam("mask")) == 0,
        *contains(t.message.c.fold_from, "senders", shape.senders),
        *contains(t.message.c.fold_recipients, "recipients", shape.recipients),
        *contains(t.message.c.fold_subject, "subject", shape.subject),
        *within(at, shape),
    ]
    if shape.labels:  # the rarest label's index gives the order, the others are looked up
        first = t.message_label
        query = query.join(first, first.c.message == key)
        conditions += [first.c.inbox == bindparam("inbox"), first.c.label == bindparam("label0")]
        at, key = first.c.timestamp, first.c.message
    other = t.message_label.alias()
    conditions += carries(other.c.message, t.message.c.id, other.c.label, range(1, shape.labels))
    conditions += beyond(at, key, shape)
    return sql(query.where(*conditions).order_by(*in_order(at, key, shape)).limit(bindparam("most")))


class Messages(Desk):
    """The verbs on messages."""

    async def list_messages(self, principal: Principal, inbox_id: str, filter: MailFilter, page: PageRequest) -> Page[Message]:
        place = self._place(principal, inbox_id)
        size = page.size(filtered=filter.is_filtered)
        listing = scope_of("messages", place.key, filter, page.ascending)
        position = read_token(listing, page.page_token, int, int)
        walk = Walk(build=_list_sql, filter=filter, position=position, ascending=page.ascending)

        def read(reader: Reader) -> Page[Message]:
            rows = walk.rows(reader, (place.key,), size + 1, _order_of)
            items = message_nouns(reader, rows[:size], place.inbox.inbox_id)
            token = make_token(listing, list(_order_of(rows[size - 1]))) if len(rows) > size else None
            return Page(items=items, next_page_token=token)

        return await self._store.read(read)

    async def get_message(self, principal: Principal, inbox_id: str, message_id: str) -> Message:
        place = self._place(principal, inbox_id)

        def read(reader: Reader) -> Message:
            key = message_key(reader, place, message_id)
            return message_nouns(reader, reader.all(FULL, keys=[key]), place.inbox.inbox_id)[0]

        return self._store.read_now(read)

    async def batch_get_messages(self, principal: Principal, inbox_id: str, message_ids: Sequence[str]) -> tuple[Message, ...]:
        """The messages there are, without bodies, in the order asked for."""
        place = self._place(principal, inbox_id)
        names = _distinct(message_ids, 500)

        def read(reader: Reader) -> tuple[Message, ...]:
            found = {name: _find_key(reader, place, name) for name in names}
            keys = [key for key in found.values() if key is not None]
            rows = [row[:19] for row in reader.all(FULL, keys=keys)]
            by_key = dict(zip((row[0] for row in rows), message_nouns(reader, rows, place.inbox.inbox_id), strict=True))
            return tuple(by_key[key] for key in found.values() if key in by_key)

        return await self._store.read(read)

    async def get_raw(self, principal: Principal, inbox_id: str, message_id: str) -> Blob:
        """The message byte for byte as it came or left."""
        place = self._place(principal, inbox_id)

        def read(reader: Reader) -> Blob:
            sha, public_id = reader.one(_RAW, key=message_key(reader, place, message_id)) or ("", "")
            content = self._store.blobs.get_in(reader, sha)
            return Blob(content=content, filename=f"{_file_stem(public_id)}.eml", content_type="message/rfc822")

        return await self._store.read(read)

    async def get_attachment(
        self, principal: Principal, inbox_id: str, message_id: str, attachment_id: str
    ) -> tuple[Attachment, Blob]:
        place = self._place(principal, inbox_id)

        def read(reader: Reader) -> tuple[int, Attachment, bytes]:
            key = message_key(reader, place, message_id)
            row = reader.one(_ATTACHMENT, key=key, uuid=attachment_id)
            if row is None:
                raise NotFound("Attachment not found")
            sha, _ = reader.one(_RAW, key=key) or ("", "")
            return row[0], attachment_noun(row[1:]), self._store.blobs.get_in(reader, sha)

        number, facts, raw = await self._store.read(read)
        content = await _attachment_bytes(raw, number)
        return facts, Blob(content=content, filename=facts.filename, content_type=facts.content_type)

    async def update_message(
        self, principal: Principal, inbox_id: str, message_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        """Change labels; the full set afterwards."""
        (labels,) = (await self.batch_update_messages(principal, inbox_id, (message_id,), add, remove)).values()
        return labels

    async def batch_update_messages(
        self, principal: Principal, inbox_id: str, message_ids: Sequence[str], add: Sequence[str], remove: Sequence[str]
    ) -> dict[str, tuple[str, ...]]:
        """The same change of labels to each message, all or none; each message's full set afterwards."""
        added, removed = required_edit(add, remove)
        names = _distinct(message_ids, 50)
        now = self._store.clock.now_us()

        def change(tx: Tx) -> dict[str, tuple[str, ...]]:
            place = place_of(tx, principal, inbox_id.strip().lower())
            spots = [tx.all(SPOT_OF_MESSAGE, key=message_key(tx, place, name))[0] for name in names]
            apply_labels(tx, spots, place.inbox, add=added, remove=removed, at=now)
            after = labels_of_messages(tx, [spot[0] for spot in spots])
            return {spot[1]: after.get(spot[0], ()) for spot in spots}

        return await self._store.write(change)


def _order_of(row: Row) -> tuple[int, int]:
    return row[3], row[0]  # MESSAGE_COLUMNS: timestamp, id


def required_edit(add: Sequence[str], remove: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A checked edit of labels that changes something. Raises `Invalid`."""
    added, removed = check_labels(add, remove)
    if not added and not removed:
        raise Invalid(
            "nothing to change",
            fix="give add_labels or remove_labels",
            errors=[{"path": ["add_labels"], "message": "add_labels or remove_labels is required", "code": "required"}],
        )
    return added, removed


def message_key(reader: Reader, place: Place, name: str) -> int:
    """The key of the message called `name` in this inbox. Raises `NotFound`."""
    key = _find_key(reader, place, name)
    if key is None:
        raise NotFound("Message not found", fix="list the inbox's messages to see their ids")
    return key


def message_nouns(reader: Reader, rows: Sequence[Sequence[Any]], inbox_id: str) -> tuple[Message, ...]:
    """Rows of MESSAGE_COLUMNS (and bodies), completed with labels and attachments."""
    keys = [row[0] for row in rows]
    labels = labels_of_messages(reader, keys)
    attachments = grouped_attachments(reader.all(_ATTACHMENTS, keys=keys)) if keys else {}
    return tuple(message_noun(row, inbox_id, labels, attachments) for row in rows)


def _find_key(reader: Reader, place: Place, name: str) -> int | None:
    key: int | None = reader.scalar(_KEY, inbox=place.key, name=name)
    return key if key is not None else reader.scalar(_KEY_BY_ALIAS, inbox=place.key, name=name)


def _distinct(message_ids: Sequence[str], most: int) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(message_ids))
    if not 1 <= len(message_ids) <= most or len(names) != len(message_ids):
        rule = f"give 1 to {most} different message ids"
        raise Invalid(rule, errors=[{"path": ["message_ids"], "message": rule, "code": "invalid_value"}])
    return names


async def _attachment_bytes(raw: bytes, number: int) -> bytes:
    if len(raw) <= PARSE_WORKER_BYTES:
        return _nth(raw, number)
    return await asyncio.to_thread(_nth, raw, number)


def _nth(raw: bytes, number: int) -> bytes:
    attachments = parse(raw).attachments
    if number >= len(attachments):
        raise NotFound("Attachment not found")
    return attachments[number].content


def _file_stem(public_id: str) -> str:
    kept = "".join(char for char in public_id if char.isalnum() or char in "-._@")
    return kept[:100].lstrip(".") or "message"
