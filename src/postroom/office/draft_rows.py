"""A draft's rows: the draft, its labels, its attachments; reading them back as `Draft`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import and_, bindparam, delete, func, select, update

from postroom.ids import new_uuid
from postroom.model.mail import Attachment, AttachmentData, Draft, DraftFields
from postroom.office import tables as t
from postroom.office.desk import insert_into
from postroom.office.rows import attachment_noun, grouped, key_list, strings, to_json
from postroom.store.blobs import Blobs
from postroom.store.statement import insert_or_ignore, sql
from postroom.store.transaction import Reader, Tx

DRAFT_COLUMNS = (
    t.draft.c.id,
    t.draft.c.inbox,
    t.inbox.c.address,
    t.draft.c.uuid,
    t.draft.c.client_id,
    t.draft.c.author,
    t.draft.c.to_,
    t.draft.c.cc,
    t.draft.c.bcc,
    t.draft.c.reply_to,
    t.draft.c.subject,
    t.draft.c.text,
    t.draft.c.html,
    t.draft.c.preview,
    t.draft.c.in_reply_to,
    t.draft.c.forward_of,
    t.draft.c.reply_all,
    t.draft.c.refs,
    t.draft.c.send_at,
    t.draft.c.send_status,
    t.draft.c.created_at,
    t.draft.c.updated_at,
)
JOINED = select(*DRAFT_COLUMNS).join(t.inbox, t.inbox.c.id == t.draft.c.inbox)

INSERT = insert_into(t.draft, tuple(column.name for column in t.draft.c if column.name != "id"))
_CHANGING = (
    "to_",
    "cc",
    "bcc",
    "reply_to",
    "subject",
    "text",
    "html",
    "preview",
    "reply_all",
    "send_at",
    "send_status",
    "updated_at",
)
_UPDATE = sql(
    update(t.draft).where(t.draft.c.id == bindparam("key")).values({name: bindparam(f"new_{name}") for name in _CHANGING})
)
_DELETE = sql(delete(t.draft).where(t.draft.c.id == bindparam("key")))
_LABELS = sql(select(t.draft_label.c.draft, t.draft_label.c.label).where(t.draft_label.c.draft.in_(key_list("keys"))))
_ADD_LABEL = insert_or_ignore(t.draft_label, ("draft", "label"))
_DROP_LABELS = sql(delete(t.draft_label).where(t.draft_label.c.draft == bindparam("key")))
_FACTS = (
    t.draft_attachment.c.uuid,
    t.draft_attachment.c.size,
    t.draft_attachment.c.filename,
    t.draft_attachment.c.content_type,
    t.draft_attachment.c.disposition,
    t.draft_attachment.c.content_id,
)
_ATTACHMENTS = sql(
    select(t.draft_attachment.c.draft, t.draft_attachment.c.blob, *_FACTS)
    .where(t.draft_attachment.c.draft.in_(key_list("keys")))
    .order_by(t.draft_attachment.c.id)
)
_BLOBS = sql(select(t.draft_attachment.c.blob).where(t.draft_attachment.c.draft == bindparam("key")))
_SET_SIZE = sql(update(t.draft).where(t.draft.c.id == bindparam("key")).values(size=bindparam("size")))
_HELD = sql(
    select(func.count(), func.coalesce(func.sum(t.draft.c.size), 0))
    .select_from(t.draft)
    .where(t.draft.c.inbox == bindparam("inbox"))
)
_INSERT_ATTACHMENT = insert_into(t.draft_attachment, tuple(column.name for column in t.draft_attachment.c if column.name != "id"))
_DROP_ATTACHMENTS = sql(delete(t.draft_attachment).where(t.draft_attachment.c.draft == bindparam("key")))
_DROP_ATTACHMENT = sql(
    delete(t.draft_attachment).where(
        and_(t.draft_attachment.c.draft == bindparam("key"), t.draft_attachment.c.uuid == bindparam("attachment"))
    )
)

Staged = tuple[str, AttachmentData]  # a blob's SHA-256 and the attachment it holds


def draft_nouns(reader: Reader, rows: Sequence[Sequence[Any]], blobs: Blobs | None = None) -> tuple[Draft, ...]:
    """Rows of DRAFT_COLUMNS, completed; with the attachments' bytes when `blobs` is given."""
    keys = [row[0] for row in rows]
    labels = grouped(reader.all(_LABELS, keys=keys)) if keys else {}
    held: dict[int, list[tuple[str, Attachment]]] = {}
    for key, sha, *facts in reader.all(_ATTACHMENTS, keys=keys) if keys else ():
        held.setdefault(key, []).append((sha, attachment_noun(facts)))
    return tuple(_noun(row, labels.get(row[0], ()), held.get(row[0], []), reader, blobs) for row in rows)


def _noun(
    row: Sequence[Any], labels: tuple[str, ...], held: Sequence[tuple[str, Attachment]], reader: Reader, blobs: Blobs | None
) -> Draft:
    data = () if blobs is None else tuple(_data(facts, blobs.get_in(reader, sha)) for sha, facts in held)
    return Draft(
        inbox_id=row[2],
        draft_id=row[3],
        author=row[5],
        fields=DraftFields(
            to=strings(row[6]),
            cc=strings(row[7]),
            bcc=strings(row[8]),
            reply_to=strings(row[9]),
            subject=row[10],
            text=row[11],
            html=row[12],
            labels=labels,
            attachments=data,
            in_reply_to=row[14],
            forward_of=row[15],
            reply_all=bool(row[16]),
            send_at=row[18],
            client_id=row[4],
        ),
        attachments=tuple(facts for _, facts in held),
        preview=row[13],
        references=strings(row[17]),
        send_status=row[19],
        created_at=row[20],
        updated_at=row[21],
    )


def put_fields(tx: Tx, key: int, draft: Draft, *, preview: str | None, at: int) -> None:
    """Write what may change of a draft, and its labels."""
    fields = draft.fields
    tx.run(
        _UPDATE,
        key=key,
        new_to_=to_json(fields.to),
        new_cc=to_json(fields.cc),
        new_bcc=to_json(fields.bcc),
        new_reply_to=to_json(fields.reply_to),
        new_subject=fields.subject,
        new_text=fields.text,
        new_html=fields.html,
        new_preview=preview,
        new_reply_all=int(fields.reply_all),
        new_send_at=fields.send_at,
        new_send_status=draft.send_status,
        new_updated_at=at,
    )
    put_labels(tx, key, fields.labels)


def put_labels(tx: Tx, key: int, labels: Iterable[str]) -> None:
    """These labels and no others."""
    tx.run(_DROP_LABELS, key=key)
    tx.many(_ADD_LABEL, [{"draft": key, "label": label} for label in dict.fromkeys(labels)])


def add_attachments(tx: Tx, blobs: Blobs, key: int, pod: str, staged: Sequence[Staged]) -> None:
    """Attach bytes that `blobs.put` has taken."""
    for sha, data in staged:
        blobs.link(tx, sha, data.content)
        tx.insert(
            _INSERT_ATTACHMENT,
            pod=pod,
            draft=key,
            uuid=new_uuid(),
            filename=data.filename,
            content_type=data.content_type,
            disposition=data.content_disposition,
            content_id=data.content_id,
            size=len(data.content),
            blob=sha,
        )


def remove_attachment(tx: Tx, blobs: Blobs, key: int, attachment_id: str) -> int:
    """Take one attachment off; answers how many that was."""
    held = _blobs_of(tx, key)
    removed = tx.run(_DROP_ATTACHMENT, key=key, attachment=attachment_id)
    blobs.release(tx, held)
    return removed


def erase(tx: Tx, blobs: Blobs, key: int) -> None:
    """The draft and what belongs to it."""
    held = _blobs_of(tx, key)
    tx.run(_DROP_ATTACHMENTS, key=key)
    tx.run(_DROP_LABELS, key=key)
    tx.run(_DELETE, key=key)
    blobs.release(tx, held)


def weigh(tx: Tx, key: int, draft: Draft) -> int:
    """Write down how many bytes the draft holds, texts and attachments; answers that."""
    fields = draft.fields
    texts = (fields.subject, fields.text, fields.html)
    size = sum(len(text.encode()) for text in texts if text) + sum(entry.size for entry in draft.attachments)
    tx.run(_SET_SIZE, key=key, size=size)
    return size


def held_by(reader: Reader, inbox: int) -> tuple[int, int]:
    """How many drafts an inbox has, and how many bytes they hold together."""
    count, size = reader.one(_HELD, inbox=inbox) or (0, 0)
    return count, size


def _blobs_of(reader: Reader, key: int) -> set[str]:
    return {row[0] for row in reader.all(_BLOBS, key=key)}


def _data(facts: Attachment, content: bytes) -> AttachmentData:
    return AttachmentData(
        content=content,
        filename=facts.filename,
        content_type=facts.content_type,
        content_disposition=facts.content_disposition,
        content_id=facts.content_id,
    )
