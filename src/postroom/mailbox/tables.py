"""The mailbox's tables: one row per record of the log, and who takes part.

A record's `body` is its canonical form, the bytes the chain is over; the columns beside it only make
it findable, and `verify` holds them against it. `state` is the one thing that changes later: what
edits, reactions and a withdrawal made of a message (NULL: nothing yet). Erased records keep number,
hash and link, so the chain stays whole; all indexes are partial, so they cost nothing more.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from postroom.store.schema import Key, metadata

record = Table(
    "mailbox_record",
    metadata,
    Column("seq", Key, primary_key=True, autoincrement=False),
    Column("pod", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("sender", Text),
    Column("recipient", Text),  # whom it is shown to: a name or `*`; NULL for receipts and erased records
    Column("thread", Text),
    Column("target", BigInteger),  # the message an edit, reaction or withdrawal is about
    Column("idem", Text),
    Column("body", LargeBinary),
    Column("state", Text),
    Column("entry_hash", LargeBinary, nullable=False),
    Column("link", LargeBinary, nullable=False),
)
for _name, _columns, _unique in (
    ("mailbox_record_to", ("recipient", "seq"), False),
    ("mailbox_record_from", ("sender", "seq"), False),
    ("mailbox_record_thread", ("thread", "seq"), False),
    ("mailbox_record_target", ("target", "seq"), False),
    ("mailbox_record_key", ("idem", "sender"), True),
):
    _given = record.c[_columns[0]].is_not(None)
    Index(_name, *(record.c[name] for name in _columns), unique=_unique, sqlite_where=_given, postgresql_where=_given)

attachment = Table(
    "mailbox_attachment",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("sha", Text, nullable=False),  # of the content: the attachment's id
    Column("blob", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Index("mailbox_attachment_sha", "sha"),
    Index("mailbox_attachment_seq", "seq"),
    Index("mailbox_attachment_blob", "blob"),
)

participant = Table(
    "mailbox_participant",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text),
    Column("is_agent", Integer, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("notified", BigInteger, nullable=False),
    Column("fetched", BigInteger, nullable=False),
    Column("acknowledged", BigInteger, nullable=False),
    Column("missed", BigInteger, nullable=False),  # messages retention erased before they were fetched
    UniqueConstraint("pod", "name", name="uq_mailbox_participant_name"),
)
