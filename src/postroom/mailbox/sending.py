"""Sending: everything is checked, redacted and hashed first; then one short transaction.

A message is stored, chained, indexed and its attachments linked in one commit, and only then
answered. A key stands for the whole content: the same again is told as such, other content under it
is refused, also after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, insert

from postroom.errors import Conflict, NotFound
from postroom.ledger.canonical import canonical
from postroom.mailbox import content, log
from postroom.mailbox.content import Upload
from postroom.mailbox.names import EVERYONE, wrong
from postroom.mailbox.records import MESSAGE, Stored, decoded
from postroom.mailbox.tables import attachment
from postroom.model.principal import DEFAULT_POD
from postroom.safety.redact import Redactor
from postroom.store.engine import Store, Tx
from postroom.store.log_search import LogSearch
from postroom.store.statement import sql

_SEAL: Final = b"postroom mailbox attachment\n"  # so that these blobs are the mailbox's alone, to drop with their last record
_FILES = ("pod", "seq", "sha", "blob", "size")
_ATTACH = sql(insert(attachment).values({name: bindparam(name) for name in _FILES}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What to send, as it was asked for."""

    to: str
    text: str
    thread: str | None = None
    reply_to: int | None = None
    priority: str | None = None
    attachments: Sequence[Mapping[str, Any]] | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A letter ready for its transaction."""

    entry: log.Entry
    thread: str | None
    words: str
    to: str
    priority: str | None
    uploads: tuple[tuple[Upload, str, bytes], ...]  # with the blob's hash and sealed bytes
    fingerprint: str | None
    redacted: int


class Sending:
    """Makes letters into records."""

    def __init__(self, store: Store, search: LogSearch, redactor: Redactor, key: bytes) -> None:
        self._store = store
        self._search = search
        self._redactor = redactor
        self._key = key

    async def prepare(self, author: str, to: str, letter: Letter) -> Prepared:
        """Check, clean, redact, hash. Raises `Invalid`, `TooLarge`, `NotFound`."""
        text, redacted = content.text_of(letter.text, self._redactor)
        named = content.thread_of(letter.thread, self._redactor)
        priority = content.line_of(letter.priority, "priority", content.PRIORITY_CHARS, self._redactor)
        key = content.key_of(letter.key)
        uploads: tuple[Upload, ...] = ()
        if letter.attachments:
            uploads = await asyncio.to_thread(content.uploads_of, letter.attachments, self._redactor)
        parent = self._parent(author, letter.reply_to)
        files = [each.file for each in uploads]
        fields: dict[str, Any] = {
            "kind": MESSAGE,
            "at": self._store.clock.now_us(),
            "from": author,
            "to": to,
            "thread": named or parent,
            "reply_to": letter.reply_to,
            "priority": priority,
            "mentions": content.mentions_in(text),
            "attachments": [{"id": f.file_id, "name": f.name, "media_type": f.media_type, "size": f.size} for f in files],
            "text": text,
            "key": key,
        }
        if key is not None:
            fields["fingerprint"] = self._fingerprint(author, to, letter, [each.file.file_id for each in uploads])
        return Prepared(
            entry=log.entry_of(fields, recipient=to, idem=key),
            thread=fields["thread"],
            words=text,
            to=to,
            priority=priority,
            uploads=tuple([await self._sealed(each) for each in uploads]),
            fingerprint=fields.get("fingerprint"),
            redacted=redacted,
        )

    def store(self, tx: Tx, letter: Prepared) -> Stored:
        """The transaction."""
        entry = letter.entry
        author = entry.sender or ""
        if entry.idem is not None and (earlier := log.by_key(tx, author, entry.idem)) is not None:
            return _again(earlier, letter)
        link = log.append(tx, self._key, entry, letter.thread)
        self._search.add(tx, link.seq, letter.words, (author, letter.to))
        for upload, blob, sealed in letter.uploads:
            self._store.blobs.link(tx, blob, sealed)
            tx.insert(_ATTACH, pod=DEFAULT_POD, seq=link.seq, sha=upload.file.file_id, blob=blob, size=upload.file.size)
        return Stored(
            seq=link.seq,
            link=link.link.hex(),
            at=entry.at,
            thread=letter.thread or f"#{link.seq}",
            redacted=letter.redacted,
        )

    async def _sealed(self, upload: Upload) -> tuple[Upload, str, bytes]:
        sealed = _SEAL + upload.data
        return upload, await self._store.blobs.put(sealed), sealed

    def _parent(self, author: str, reply_to: Any) -> str | None:
        """The thread of the message replied to; replies to replies stay in it."""
        if reply_to is None:
            return None
        if type(reply_to) is not int or not 0 < reply_to < 2**53:
            raise wrong("replyTo", "replyTo is the number of a message")
        row = self._store.read_now(lambda reader: log.message_row(reader, reply_to))
        if row is None or not {author, EVERYONE} & {row.sender, row.recipient}:
            raise NotFound("there is no such message to reply to", fix="use a seq that mailbox_read showed")
        return row.thread

    def _fingerprint(self, author: str, to: str, letter: Letter, files: Sequence[str]) -> str:
        """Of the whole content as it was given, keyed: it must not help to guess a secret that was redacted."""
        whole = [author, to, letter.text, letter.thread, letter.reply_to, letter.priority, list(files)]
        return hmac.digest(self._key, b"fingerprint\x00" + canonical(whole), hashlib.sha256).hex()


def unsealed(sealed: bytes) -> bytes:
    """An attachment's own bytes."""
    return sealed[len(_SEAL) :]


def _again(earlier: tuple[Any, ...], letter: Prepared) -> Stored:
    seq, kind, body, link, at, thread = earlier
    if kind == MESSAGE and body is not None and decoded(body).get("fingerprint") != letter.fingerprint:
        raise Conflict(f"this idempotency key was used for another message, number {seq}", code="key_reused", fix="use a new key")
    return Stored(seq=seq, link=bytes(link).hex(), at=at, thread=thread or "", deduplicated=True, redacted=letter.redacted)
