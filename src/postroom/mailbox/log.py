"""The log: records appended in one transaction with their link, and never changed afterwards.

The number is one above the last, so there are no gaps: the one writer thread hands out both. What a
record says is made canonical and hashed before the transaction; inside it there is one look at the
head, one insert and one for the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, insert, select, update

from postroom.ledger.chain import GENESIS, Link, hash_canonical, next_link
from postroom.mailbox.tables import record as t
from postroom.model.principal import DEFAULT_POD
from postroom.store.engine import Reader, Tx
from postroom.store.statement import sql

LOG_ID: Final = "mailbox"

# `ledger.canonical`'s form of what records hold (ASCII keys, text without surrogates, integers), ten times as fast; a test
# holds the two against each other.
_canonical = msgspec.json.Encoder(order="sorted").encode

_COLUMNS = ("seq", "pod", "at", "kind", "sender", "recipient", "thread", "target", "idem", "body", "state", "entry_hash", "link")
_INSERT = sql(insert(t).values({name: bindparam(name) for name in _COLUMNS}))
_HEAD = sql(select(t.c.seq, t.c.entry_hash, t.c.link).order_by(t.c.seq.desc()).limit(1))
_LINK = sql(select(t.c.link).where(t.c.seq == bindparam("seq")))
_ROW = sql(
    select(t.c.seq, t.c.kind, t.c.sender, t.c.recipient, t.c.thread, t.c.body, t.c.state).where(t.c.seq == bindparam("seq"))
)
_BY_KEY = sql(
    select(t.c.seq, t.c.kind, t.c.body, t.c.link, t.c.at, t.c.thread).where(
        t.c.idem == bindparam("idem"), t.c.sender == bindparam("sender")
    )
)
_SET_STATE = sql(update(t).where(t.c.seq == bindparam("which")).values(state=bindparam("now")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record ready to be appended: `body` canonical, `hashed` its hash."""

    at: int
    kind: str
    sender: str | None
    recipient: str | None
    body: bytes
    hashed: bytes
    target: int | None = None
    idem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message's row, to be changed."""

    seq: int
    sender: str
    recipient: str
    thread: str
    body: bytes
    state: str | None


def entry_of(content: Mapping[str, Any], *, recipient: str | None, target: int | None = None, idem: str | None = None) -> Entry:
    """An entry out of a record's content."""
    body = _canonical({name: value for name, value in content.items() if value is not None and value != []})
    return Entry(
        at=content["at"],
        kind=content["kind"],
        sender=content.get("from"),
        recipient=recipient,
        body=body,
        hashed=hash_canonical(body),
        target=target,
        idem=idem,
    )


def append(tx: Tx, key: bytes, entry: Entry, thread: str | None = None) -> Link:
    """Write the entry at the end. `thread` None of a message: it begins its own."""
    last: Link = tx.shared.get(LOG_ID) or head(tx)  # what the function before us in this transaction left
    seq = last.seq + 1
    link = next_link(key, LOG_ID, seq, last.link, entry.hashed)
    tx.run(
        _INSERT,
        seq=seq,
        pod=DEFAULT_POD,
        at=entry.at,
        kind=entry.kind,
        sender=entry.sender,
        recipient=entry.recipient,
        thread=thread or (f"#{seq}" if entry.kind == "message" else None),
        target=entry.target,
        idem=entry.idem,
        body=entry.body,
        state=None,
        entry_hash=entry.hashed,
        link=link,
    )
    tx.shared[LOG_ID] = end = Link(seq=seq, entry_hash=entry.hashed, link=link)
    return end


def head(reader: Reader) -> Link:
    """The last record's place and link; `seq` 0 of an empty log."""
    found = reader.one(_HEAD)
    return Link(seq=0, entry_hash=b"", link=GENESIS) if found is None else Link(seq=found[0], entry_hash=found[1], link=found[2])


def link_at(reader: Reader, seq: int) -> str:
    """The link of one record, in hex."""
    found = reader.scalar(_LINK, seq=seq) if seq > 0 else GENESIS
    return bytes(found).hex() if found is not None else ""


def by_key(reader: Reader, sender: str, idem: str) -> tuple[Any, ...] | None:
    """`(seq, kind, body, link, at, thread)` of what this sender wrote under this key."""
    return reader.one(_BY_KEY, sender=sender, idem=idem)


def message_row(reader: Reader, seq: int) -> MessageRow | None:
    """The row of message `seq`; None when it is no message, or is erased."""
    row = reader.one(_ROW, seq=seq)
    if row is None or row[1] != "message" or row[5] is None:
        return None
    return MessageRow(seq=row[0], sender=row[2], recipient=row[3], thread=row[4], body=row[5], state=row[6])


def set_state(tx: Tx, seq: int, state: str) -> None:
    """What has become of a message."""
    tx.run(_SET_STATE, which=seq, now=state)
