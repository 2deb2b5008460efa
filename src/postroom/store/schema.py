"""The one `metadata` every room defines its tables on, and the store's own tables.

Column types are BigInteger, Integer, Text and LargeBinary only, so both engines agree: JSON is text
we write ourselves, booleans are 0 and 1, moments are integer microseconds. No foreign keys between
rooms. Blobs, cursors and leases belong to the house, not to a pod. A change here needs a revision
in `migrations/`; a test compares the two.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text

metadata = MetaData()

# BIGINT in PostgreSQL; SQLite makes a row id only of the exact type INTEGER (which is 64 bits there).
Key = BigInteger().with_variant(Integer(), "sqlite")

event = Table(
    "event",
    metadata,
    Column("seq", Key, primary_key=True, autoincrement=True),
    Column("event_id", Text, nullable=False, unique=True),
    Column("pod", Text, nullable=False),
    Column("agent", Text),
    Column("inbox", Text),
    Column("thread", Text),
    Column("kind", Text, nullable=False),
    Column("ref", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("snapshot", Text, nullable=False),
    Index("event_by_kind", "kind", "seq"),
    Index("event_by_inbox", "inbox", "seq"),
    sqlite_autoincrement=True,  # a position is never given twice
)

cursor = Table(
    "cursor",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("seq", BigInteger, nullable=False),
)

lease = Table(
    "lease",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

blob = Table(
    "blob",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("sha", Text, nullable=False, unique=True),
    Column("size", BigInteger, nullable=False),
    Column("data", LargeBinary),  # NULL: the bytes are a file
)

# Every column that names a blob, in whichever room: what none of them names any more is forgotten (`Blobs.release`).
BLOB_HOLDERS: Final = (
    ("message", "blob"),
    ("intake", "blob"),
    ("outbox", "blob"),
    ("draft_attachment", "blob"),
    ("outgoing_blob", "blob"),
    ("mailbox_attachment", "blob"),
)

search_document = Table(
    "search_document",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=False),
    Column("pod", Text, nullable=False),
    Column("inbox", Text, nullable=False),
    Column("indexed", LargeBinary, nullable=False),  # the texts as they went into the index: taking one out needs them
)

# Where the writer proves that the disk takes a write again, after it refused one.
probe = Table(
    "probe",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
)
