"""Drafts: making, changing, listing, deleting. Sending one is the gate's, which reads it here.

A draft is plain, a reply (its recipients, subject and references come from the message answered) or
a forward (its subject does; body and attachments are merged when it is sent). `send_at` schedules
it; `schedule` says when it is due. While it is being sent it cannot be changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import and_, bindparam

from postroom.errors import Conflict, Forbidden, Invalid, NotFound, Refused, TooLarge
from postroom.ids import new_uuid
from postroom.limits import DRAFTS, DRAFTS_BYTES, MAIL_BYTES, RECIPIENTS_PER_SEND
from postroom.mime.addresses import parse_address
from postroom.mime.threading import references_for_reply
from postroom.model.mail import AttachmentData, Draft, DraftFields, Inbox, Message
from postroom.model.paging import MailFilter, Page, PageRequest, make_token, read_token, scope_of
from postroom.model.ports import Attach, DraftChanges
from postroom.model.principal import Kind, Principal
from postroom.office import draft_rows as rows
from postroom.office import tables as t
from postroom.office.content import preview_of
from postroom.office.desk import Desk, Place, place_of, place_of_key
from postroom.office.listing import Row, Shape, Walk, beyond, carries, in_order, within
from postroom.office.messages import FULL, message_key, message_nouns
from postroom.office.naming import check_client_id
from postroom.office.placing import bare_address
from postroom.office.rows import to_json
from postroom.policy.labels import check_labels
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader, Tx

_BY_UUID = sql(rows.JOINED.where(t.draft.c.uuid == bindparam("uuid")))
_BY_CLIENT_ID = sql(rows.JOINED.where(and_(t.draft.c.inbox == bindparam("inbox"), t.draft.c.client_id == bindparam("client_id"))))
_MAKE_ROOM = "send or delete drafts of this inbox first"
_ADDRESSES = ("to", "cc", "bcc", "reply_to")


@lru_cache(maxsize=64)
def _list_sql(shape: Shape) -> Statement:
    at, key = t.draft.c.updated_at, t.draft.c.id
    label = t.draft_label
    carried = carries(label.c.draft, key, label.c.label, range(shape.labels))
    query = rows.JOINED.where(t.draft.c.inbox == bindparam("inbox"), *within(at, shape), *beyond(at, key, shape), *carried)
    return sql(query.order_by(*in_order(at, key, shape)).limit(bindparam("most")))


class Drafts(Desk):
    """The verbs on drafts."""

    _attaching: Attach | None = None

    def attached_by(self, attaching: Attach) -> None:
        """Fill in attachments given by URL with this."""
        self._attaching = attaching

    async def create_draft(self, principal: Principal, inbox_id: str, fields: DraftFields) -> Draft:
        """Make a draft, or return the one already made with the same `client_id`."""
        check_client_id(fields.client_id)
        labels = (*check_labels(fields.labels)[0], "draft")
        fields = dataclasses.replace(_checked(fields), labels=labels)
        place = self._place(principal, inbox_id)
        if (known := await self._store.read(lambda reader: self._made(reader, place, fields.client_id))) is not None:
            return known
        staged = await self._stage(principal, fields.attachments)
        now = self._store.clock.now_us()
        uuid = new_uuid()

        def create(tx: Tx) -> Draft:
            place = place_of(tx, principal, inbox_id.strip().lower())
            made = self._made(tx, place, fields.client_id)
            if made is not None:
                return made
            derived, references = _derived(tx, place, fields)
            draft = Draft(inbox_id=place.inbox.inbox_id, draft_id=uuid, fields=derived, author=_author(principal))
            key = _insert(tx, place, _scheduled(draft), references, at=now)
            rows.add_attachments(tx, self._store.blobs, key, place.inbox.pod_id, staged)
            made = self._noun(tx, uuid)
            rows.weigh(tx, key, made)
            _check_room(tx, place.key)
            return made

        return await self._store.write(create)

    async def get_draft(self, principal: Principal, inbox_id: str | None, draft_id: str) -> Draft:
        """The draft with its attachments' bytes in `fields.attachments`."""

        def read(reader: Reader) -> Draft:
            _find(reader, principal, inbox_id, draft_id)
            return self._noun(reader, draft_id)

        return await self._store.read(read)

    async def list_drafts(self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest) -> Page[Draft]:
        """Drafts without bytes, last changed first."""
        scope = self._scope(principal, inbox_id)
        size = page.size()
        listing = scope_of("drafts", scope.name, filter, page.ascending)
        position = read_token(listing, page.page_token, int, int)
        plain = dataclasses.replace(filter, senders=(), recipients=(), subject=())
        walk = Walk(build=_list_sql, filter=plain, position=position, ascending=page.ascending)

        def read(reader: Reader) -> Page[Draft]:
            found = walk.rows(reader, scope.keys, size + 1, _order_of)
            token = make_token(listing, list(_order_of(found[size - 1]))) if len(found) > size else None
            return Page(items=rows.draft_nouns(reader, found[:size]), next_page_token=token)

        return await self._store.read(read)

    async def update_draft(self, principal: Principal, inbox_id: str, draft_id: str, changes: DraftChanges) -> Draft:
        """Change what `changes` names: a field of `DraftFields` (None clears), `add_`/`remove_` `labels` and `attachments`."""
        added, removed = check_labels(changes.get("add_labels") or (), changes.get("remove_labels") or ())
        self._store.read_now(lambda reader: _editable(reader, principal, inbox_id, draft_id))  # before anything is fetched
        staged = await self._stage(principal, changes.get("add_attachments") or ())
        now = self._store.clock.now_us()

        def change(tx: Tx) -> Draft:
            key, inbox, draft = _editable(tx, principal, inbox_id, draft_id)
            before = rows.weigh(tx, key, draft)
            labels = (*(label for label in draft.fields.labels if label not in removed), *added)
            fields = _checked(_changed(dataclasses.replace(draft.fields, labels=labels), changes))
            after = _scheduled(dataclasses.replace(draft, fields=fields), touched="send_at" in changes)
            rows.put_fields(tx, key, after, preview=preview_of(fields.text), at=now)
            rows.add_attachments(tx, self._store.blobs, key, principal.pod_id, staged)
            for attachment_id in changes.get("remove_attachments") or ():
                if not rows.remove_attachment(tx, self._store.blobs, key, attachment_id):
                    raise NotFound("Attachment not found", fix="get the draft to see its attachments")
            changed = _of_size(self._noun(tx, draft_id))
            if rows.weigh(tx, key, changed) > before:
                _check_room(tx, inbox)
            return changed

        return await self._store.write(change)

    async def delete_draft(self, principal: Principal, inbox_id: str, draft_id: str) -> None:
        """Gone for good. The owner's, or the agent's who wrote it."""

        def drop(tx: Tx) -> None:
            row = _find(tx, principal, inbox_id, draft_id)
            if not principal.is_owner and row[5] != principal.agent_id:
                raise Forbidden("an agent's token deletes only its own drafts", fix="use the owner's key")
            rows.erase(tx, self._store.blobs, row[0])

        await self._store.write(drop)

    async def _stage(self, principal: Principal, attachments: Iterable[AttachmentData]) -> list[rows.Staged]:
        held = tuple(attachments)
        if self._attaching is not None:
            held = await self._attaching.attach(principal, held)
        if any(entry.url is not None for entry in held):
            raise Refused("attachments by url are not fetched here", fix="send the bytes as base64 in content")
        if sum(len(entry.content) for entry in held) > MAIL_BYTES:
            raise _too_large()
        return [(await self._store.blobs.put(entry.content), entry) for entry in held]

    def _made(self, reader: Reader, place: Place, client_id: str | None) -> Draft | None:
        """The draft already made with this `client_id`."""
        row = None if client_id is None else reader.one(_BY_CLIENT_ID, inbox=place.key, client_id=client_id)
        return None if row is None else rows.draft_nouns(reader, [row], self._store.blobs)[0]

    def _noun(self, reader: Reader, draft_id: str) -> Draft:
        row = reader.one(_BY_UUID, uuid=draft_id)
        return rows.draft_nouns(reader, [row] if row else [], self._store.blobs)[0]


def _order_of(row: Row) -> tuple[int, int]:
    return row[21], row[0]  # DRAFT_COLUMNS: updated_at, id


def _find(reader: Reader, principal: Principal, inbox_id: str | None, draft_id: str) -> tuple[Any, ...]:
    row = reader.one(_BY_UUID, uuid=draft_id)
    if row is not None and (inbox_id is None or row[2] == inbox_id.strip().lower()):
        place_of_key(reader, principal, row[1], "Draft")
        return row
    raise NotFound("Draft not found", fix="list drafts to see their ids")


def _editable(reader: Reader, principal: Principal, inbox_id: str, draft_id: str) -> tuple[int, int, Draft]:
    """The draft's key, its inbox's, and the draft, if it may be changed now."""
    row = _find(reader, principal, inbox_id, draft_id)
    draft = rows.draft_nouns(reader, [row])[0]
    if draft.send_status == "sending":
        raise Conflict("the draft is being sent and cannot be changed", fix="wait for the outcome")
    return row[0], row[1], draft


def _check_room(reader: Reader, inbox: int) -> None:
    """Raises when an inbox holds more than it may: an agent's drafts must not fill the disk of the house."""
    count, size = rows.held_by(reader, inbox)
    if count > DRAFTS:
        raise Forbidden(f"an inbox holds at most {DRAFTS} drafts", code="limit_exceeded", fix=_MAKE_ROOM)
    if size > DRAFTS_BYTES:
        raise Forbidden(
            f"the drafts of an inbox hold at most {DRAFTS_BYTES} bytes together", code="limit_exceeded", fix=_MAKE_ROOM
        )


def _insert(tx: Tx, place: Place, draft: Draft, references: Sequence[str], *, at: int) -> int:
    fields = draft.fields
    key = tx.insert(
        rows.INSERT,
        pod=place.inbox.pod_id,
        inbox=place.key,
        uuid=draft.draft_id,
        client_id=fields.client_id,
        author=draft.author,
        to_=to_json(fields.to),
        cc=to_json(fields.cc),
        bcc=to_json(fields.bcc),
        reply_to=to_json(fields.reply_to),
        subject=fields.subject,
        text=fields.text,
        html=fields.html,
        preview=preview_of(fields.text),
        in_reply_to=fields.in_reply_to,
        forward_of=fields.forward_of,
        reply_all=int(fields.reply_all),
        refs=to_json(references),
        send_at=fields.send_at,
        send_status=draft.send_status,
        created_at=at,
        updated_at=at,
        size=0,
    )
    rows.put_labels(tx, key, fields.labels)
    return key


def _checked(fields: DraftFields) -> DraftFields:
    """Every address read strictly, the kinds kept apart. Raises `Invalid`."""
    if fields.in_reply_to and fields.forward_of:
        raise _invalid("forward_of", "a draft is a reply or a forward, not both")
    if fields.reply_all and not fields.in_reply_to:
        raise _invalid("reply_all", "reply_all needs in_reply_to")
    if len(fields.to) + len(fields.cc) + len(fields.bcc) > RECIPIENTS_PER_SEND:
        raise _invalid("to", f"at most {RECIPIENTS_PER_SEND} recipients")
    strict: dict[str, Any] = {name: tuple(parse_address(text).formatted for text in getattr(fields, name)) for name in _ADDRESSES}
    return dataclasses.replace(fields, **strict)


def _derived(reader: Reader, place: Place, fields: DraftFields) -> tuple[DraftFields, tuple[str, ...]]:
    """What a reply or forward takes from its source, and the references it will carry."""
    name = fields.in_reply_to or fields.forward_of
    if name is None:
        return fields, ()
    key = message_key(reader, place, name)
    source = message_nouns(reader, reader.all(FULL, keys=[key]), place.inbox.inbox_id)[0]
    if fields.forward_of:
        subject = _prefixed("Fwd: ", fields.subject, source)
        return dataclasses.replace(fields, forward_of=source.message_id, subject=subject), ()
    chosen = bool(fields.to or fields.cc or fields.bcc)
    if fields.reply_all and chosen:
        raise _invalid("reply_all", "reply_all takes its recipients from the message; leave out to, cc and bcc")
    to, cc = (fields.to, fields.cc) if chosen else _answered(place.inbox, source, everyone=fields.reply_all)
    inherited = (source.in_reply_to,) if source.in_reply_to else ()
    references = references_for_reply(source.message_id, inherited, source.references)
    subject = _prefixed("Re: ", fields.subject, source)
    return dataclasses.replace(fields, in_reply_to=source.message_id, to=to, cc=cc, subject=subject), references


def _answered(inbox: Inbox, source: Message, *, everyone: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Whom an answer goes to: Reply-To or From; for our own mail those it went to; never oneself when others are left."""
    own = inbox.inbox_id
    answered = source.to if bare_address(source.from_) == own else source.reply_to or (source.from_,)
    if not everyone:
        return answered, ()
    to = _others((*answered, *source.to), {own}) or answered
    return to, _others(source.cc, {own, *map(bare_address, to)})


def _others(addresses: Iterable[str], unwanted: set[str]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for text in addresses:
        if bare_address(text) not in unwanted:
            kept.setdefault(bare_address(text), text)
    return tuple(kept.values())


def _prefixed(prefix: str, asked: str | None, source: Message) -> str:
    if asked is not None:
        return asked
    subject = source.subject or ""
    return subject if subject.lower().startswith(prefix.strip().lower()) else prefix + subject


def _changed(fields: DraftFields, changes: DraftChanges) -> DraftFields:
    given: dict[str, Any] = {name: tuple(changes[name] or ()) for name in _ADDRESSES if name in changes}
    given |= {name: changes[name] for name in ("subject", "text", "html", "send_at") if name in changes}
    if given.keys() & {"to", "cc", "bcc"}:
        given["reply_all"] = False
    return dataclasses.replace(fields, **given)


def _scheduled(draft: Draft, *, touched: bool = True) -> Draft:
    """The draft with the status and label that its `send_at` means, if that was set just now."""
    fields = draft.fields
    if not touched:
        return draft
    if fields.send_at is not None and not (fields.to or fields.cc or fields.bcc):
        raise _invalid("send_at", "a scheduled draft needs a recipient")
    labels = tuple(label for label in fields.labels if label != "scheduled")
    if fields.send_at is None:
        return dataclasses.replace(draft, fields=dataclasses.replace(fields, labels=labels), send_status=None)
    return dataclasses.replace(draft, fields=dataclasses.replace(fields, labels=(*labels, "scheduled")), send_status="scheduled")


def _author(principal: Principal) -> str:
    return principal.agent_id or Kind.OWNER.value


def _of_size(draft: Draft) -> Draft:
    if sum(entry.size for entry in draft.attachments) > MAIL_BYTES:
        raise _too_large()
    return draft


def _too_large() -> TooLarge:
    return TooLarge(f"a draft's attachments have at most {MAIL_BYTES} bytes together")


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(message, errors=[{"path": [field], "message": message, "code": "invalid_value"}])
