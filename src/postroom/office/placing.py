"""A mail finds its place in an inbox: its public id, its thread, its labels, its index entry.

The thread is chosen here, once: that of the first id among In-Reply-To and References (from the end)
whose mail came before this one, however long either took to read (`precedence`). It never changes
afterwards and threads never merge; subjects are not looked at. A Message-ID that is missing, cannot
stand in a URL, or is already somebody else's gets a stand-in made from the mail's hash; every id a
message goes by is an alias that finds it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, or_, select, update

from postroom.ids import new_uuid
from postroom.model.mail import Finding
from postroom.office import tables as t
from postroom.office.content import Content
from postroom.office.desk import Place, insert_into
from postroom.office.labels import ADD, hidden_bits
from postroom.office.rows import authentication_json, findings_json, strings, to_json
from postroom.store.engine import Store
from postroom.store.statement import in_list, insert_or_ignore, sql
from postroom.store.transaction import Reader, Tx

_URL_SAFE_ID: Final = re.compile(r"<[A-Za-z0-9!$&'*+=^_`{|}~.:-]+@[A-Za-z0-9!$&'*+=^_`{|}~.:-]+>")
_PARTICIPANTS: Final = 500
_INDEXED_CHARS: Final = 1_000_000
_LATEST: Final = (1 << 63) - 1
_encode = json.JSONEncoder(ensure_ascii=False).encode  # made once: `json.dumps` makes one for each call that has options

_SAME_ID = sql(
    select(t.message.c.blob, t.message.c.received)
    .join(t.message_alias, t.message_alias.c.message == t.message.c.id)
    .where(and_(t.message_alias.c.inbox == bindparam("inbox"), t.message_alias.c.rfc_id == bindparam("rfc_id")))
)
_THREADS_OF_IDS = sql(
    select(t.message_alias.c.rfc_id, t.message.c.thread)
    .join(t.message, t.message.c.id == t.message_alias.c.message)
    .where(
        and_(
            t.message_alias.c.inbox == bindparam("inbox"),
            t.message_alias.c.rfc_id.in_(in_list("ids")),
            or_(t.message.c.arrival.is_(None), t.message.c.arrival < bindparam("arrival")),
        )
    )
    .order_by(t.message.c.id.desc())
)
_THREAD_STATE = (
    t.thread.c.id,
    t.thread.c.uuid,
    t.thread.c.senders,
    t.thread.c.recipients,
    t.thread.c.subject,
    t.thread.c.message_count,
    t.thread.c.size,
    t.thread.c.timestamp,
    t.thread.c.received_at,
    t.thread.c.sent_at,
    t.thread.c.last_message_id,
    t.thread.c.preview,
)
_THREAD = sql(select(*_THREAD_STATE).where(t.thread.c.id == bindparam("key")))
_THREAD_BY_UUID = sql(
    select(*_THREAD_STATE).where(and_(t.thread.c.uuid == bindparam("uuid"), t.thread.c.inbox == bindparam("inbox")))
)
_STATE_COLUMNS = (
    "senders",
    "recipients",
    "fold_senders",
    "fold_recipients",
    "subject",
    "fold_subject",
    "message_count",
    "size",
    "timestamp",
    "received_at",
    "sent_at",
    "last_message_id",
    "preview",
    "updated_at",
)
_INSERT_THREAD = insert_into(t.thread, (*_STATE_COLUMNS, "pod", "inbox", "uuid", "created_at"))
UPDATE_THREAD = sql(
    update(t.thread).where(t.thread.c.id == bindparam("key")).values({name: bindparam(f"new_{name}") for name in _STATE_COLUMNS})
)
_INSERT_MESSAGE = insert_into(t.message, tuple(column.name for column in t.message.c if column.name != "id"))
_INSERT_ATTACHMENT = insert_into(t.attachment, tuple(column.name for column in t.attachment.c if column.name != "id"))
_ALIAS = insert_or_ignore(t.message_alias, ("inbox", "rfc_id", "message"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One mail to put into one inbox. `serial` tells apart two copies of the same bytes; `arrival` is its number in the queue."""

    place: Place
    content: Content
    received: bool
    at: int
    mail_from: str
    labels: tuple[str, ...]
    serial: str
    bcc: tuple[str, ...] = ()
    thread_id: str | None = None
    outgoing_id: str | None = None
    arrival: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where it went."""

    key: int
    message_id: str
    thread_key: int
    thread_id: str
    new_participant: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thread:
    key: int
    uuid: str
    state: tuple[Any, ...]


def place_letter(tx: Tx, store: Store, letter: Letter) -> Placed:
    """Store the message, its thread, ids, labels, attachments' facts and index entry."""
    content, inbox = letter.content, letter.place.key
    public_id, found = _public_id(tx, inbox, content, letter)
    thread = _find_thread(tx, inbox, letter)
    stranger = thread is not None and letter.received and _is_stranger(thread, letter)
    if stranger:
        found = (Finding(code="new_participant", detail="the sender was not part of this thread before"), *found)
    findings = (*found, *content.findings)
    thread_key, thread_id = _put_thread(tx, thread, letter, public_id)
    key = tx.insert(_INSERT_MESSAGE, **_message_row(letter, thread_key, public_id, findings))
    tx.many(_ALIAS, [{"inbox": inbox, "rfc_id": name, "message": key} for name in {public_id, content.message_id or public_id}])
    spot = {"message": key, "inbox": inbox, "thread": thread_key, "timestamp": letter.at}
    tx.many(ADD, [{**spot, "label": label} for label in dict.fromkeys(letter.labels)])
    if content.attachments:
        tx.many(_INSERT_ATTACHMENT, _attachment_rows(letter, key, thread_key))
    _index(tx, store, letter, key)
    return Placed(
        key=key,
        message_id=public_id,
        thread_key=thread_key,
        thread_id=thread_id,
        new_participant=stranger,
        findings=findings,
    )


def bare_address(text: str) -> str:
    """The address in `Name <user@domain>`, lower-cased for comparing."""
    return (text[text.rfind("<") + 1 : -1] if text.endswith(">") else text).lower()


def _public_id(tx: Tx, inbox: int, content: Content, letter: Letter) -> tuple[str, tuple[Finding, ...]]:
    """The id this message goes by, and what was noticed about its own."""
    stand_in = f"<{content.sha[:40]}@postroom.invalid>"
    known = tx.all(_SAME_ID, inbox=inbox, rfc_id=content.message_id or stand_in)
    if not known:
        safe = content.message_id is not None and _URL_SAFE_ID.fullmatch(content.message_id)
        if safe and content.message_id is not None:
            return content.message_id, ()
        if content.message_id is None or not tx.all(_SAME_ID, inbox=inbox, rfc_id=stand_in):
            return stand_in, (Finding(code="no_message_id" if content.message_id is None else "unsafe_message_id"),)
    numbered = f"<{content.sha[:40]}.{letter.serial}@postroom.invalid>"
    if any(blob == content.sha and received == letter.received for blob, received in known):
        return numbered, (Finding(code="duplicate", detail="the same mail is already in this inbox"),)
    if all(blob == content.sha for blob, _ in known):
        return numbered, ()  # mail to oneself: the sent copy holds the id
    return numbered, (Finding(code="duplicate_message_id", detail="another mail in this inbox has the same Message-ID"),)


def _find_thread(tx: Tx, inbox: int, letter: Letter) -> _Thread | None:
    if letter.thread_id is not None:
        row = tx.one(_THREAD_BY_UUID, uuid=letter.thread_id, inbox=inbox)
        return None if row is None else _Thread(key=row[0], uuid=row[1], state=row)
    candidates = letter.content.candidates
    if not candidates:
        return None
    arrival = _LATEST if letter.arrival is None else letter.arrival
    found = tx.all(_THREADS_OF_IDS, inbox=inbox, ids=candidates, arrival=arrival)
    threads: dict[str, int] = dict(found)  # newest first, so the oldest holder of an id wins
    key = next((threads[name] for name in candidates if name in threads), None)
    row = None if key is None else tx.one(_THREAD, key=key)
    return None if row is None else _Thread(key=row[0], uuid=row[1], state=row)


def _is_stranger(thread: _Thread, letter: Letter) -> bool:
    known = {bare_address(entry) for entry in (*strings(thread.state[2]), *strings(thread.state[3]))}
    return letter.content.sender_address not in known


def _put_thread(tx: Tx, thread: _Thread | None, letter: Letter, public_id: str) -> tuple[int, str]:
    state = _thread_state(thread, letter, public_id)
    if thread is None:
        uuid = new_uuid()
        pod = letter.place.inbox.pod_id
        return tx.insert(_INSERT_THREAD, **state, pod=pod, inbox=letter.place.key, uuid=uuid, created_at=letter.at), uuid
    tx.run(UPDATE_THREAD, key=thread.key, **{f"new_{name}": value for name, value in state.items()})
    return thread.key, thread.uuid


def _thread_state(thread: _Thread | None, letter: Letter, public_id: str) -> dict[str, Any]:
    content, at = letter.content, letter.at
    old: Sequence[Any] = (
        thread.state if thread else (0, "", "[]", "[]", content.subject, 0, 0, at, None, None, public_id, content.preview)
    )
    senders = joined(strings(old[2]), (content.from_,))
    recipients = joined(strings(old[3]), (*content.to, *content.cc, *letter.bcc))
    newest = at >= old[7]
    return {
        "senders": to_json(senders),
        "recipients": to_json(recipients),
        "fold_senders": fold(senders),
        "fold_recipients": fold(recipients),
        "subject": old[4],
        "fold_subject": fold((old[4] or "",)),
        "message_count": old[5] + 1,
        "size": old[6] + content.size,
        "timestamp": max(old[7], at),
        "received_at": max(old[8] or at, at) if letter.received else old[8],
        "sent_at": old[9] if letter.received else max(old[9] or at, at),
        "last_message_id": public_id if newest else old[10],
        "preview": content.preview if newest else old[11],
        "updated_at": at,
    }


def joined(known: Sequence[str], more: Iterable[str]) -> list[str]:
    """Those known and the new ones, each address once, at most as many as a thread lists."""
    by_address = {bare_address(entry): entry for entry in known}
    for entry in more:
        if entry and len(by_address) < _PARTICIPANTS:
            by_address.setdefault(bare_address(entry), entry)
    return list(by_address.values())


def fold(texts: Iterable[str]) -> str:
    """Text for case-blind comparison."""
    return "\n".join(texts).casefold()


def _message_row(letter: Letter, thread_key: int, public_id: str, findings: Iterable[Finding]) -> dict[str, Any]:
    content = letter.content
    bcc = letter.bcc or content.bcc
    return {
        "pod": letter.place.inbox.pod_id,
        "inbox": letter.place.key,
        "thread": thread_key,
        "public_id": public_id,
        "rfc_id": content.message_id,
        "outgoing_id": letter.outgoing_id,
        "received": int(letter.received),
        "hidden": hidden_bits(letter.labels),
        "timestamp": letter.at,
        "dated_at": content.dated_at,
        "from_": content.from_ or letter.mail_from,
        "to_": to_json(content.to),
        "cc": to_json(content.cc),
        "bcc": to_json(bcc),
        "reply_to": to_json(content.reply_to),
        "fold_from": fold((content.from_ or letter.mail_from,)),
        "fold_recipients": fold((*content.to, *content.cc, *bcc)),
        "fold_subject": fold((content.subject or "",)),
        "subject": content.subject,
        "preview": content.preview,
        "text": content.text,
        "html": content.html,
        "extracted_text": content.extracted_text,
        "text_source": content.text_source,
        "in_reply_to": content.in_reply_to,
        "refs": to_json(content.references),
        "headers": _encode(dict(content.headers)),
        "findings": findings_json(findings),
        "blob": content.sha,
        "size": content.size,
        "mail_from": letter.mail_from,
        "created_at": letter.at,
        "updated_at": letter.at,
        "authentication": authentication_json(content.authentication),
        "arrival": letter.arrival,
    }


def _attachment_rows(letter: Letter, key: int, thread_key: int) -> list[dict[str, Any]]:
    return [
        {
            "pod": letter.place.inbox.pod_id,
            "message": key,
            "thread": thread_key,
            "uuid": new_uuid(),
            "place": number,
            "filename": facts.filename,
            "content_type": facts.content_type,
            "disposition": facts.disposition,
            "content_id": facts.content_id,
            "size": facts.size,
        }
        for number, facts in enumerate(letter.content.attachments)
    ]


def _index(tx: Tx, store: Store, letter: Letter, key: int) -> None:
    content, inbox = letter.content, letter.place.inbox
    store.search.index(
        tx,
        key,
        pod=inbox.pod_id,
        inbox=inbox.inbox_id,
        fields={
            "from_": content.from_ or letter.mail_from,
            "recipients": " ".join((*content.to, *content.cc, *letter.bcc)),
            "subject": content.subject or "",
            "text": (content.text or "")[:_INDEXED_CHARS],
        },
    )


def known_thread(reader: Reader, inbox: int, thread_id: str) -> bool:
    """True when the inbox has this thread."""
    return reader.one(_THREAD_BY_UUID, uuid=thread_id, inbox=inbox) is not None
