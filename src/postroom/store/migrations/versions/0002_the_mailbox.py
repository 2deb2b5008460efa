"""The mailbox: its log, the attachments and participants, and an index to search it by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MAILBOX_SEARCH = (
    "CREATE VIRTUAL TABLE mailbox_search USING fts5(scope, text, cjk, content='', tokenize='unicode61 remove_diacritics 2')"
)
INDEXES = (
    ("mailbox_record_to", ["recipient", "seq"], False),
    ("mailbox_record_from", ["sender", "seq"], False),
    ("mailbox_record_thread", ["thread", "seq"], False),
    ("mailbox_record_target", ["target", "seq"], False),
    ("mailbox_record_key", ["idem", "sender"], True),
)


def upgrade() -> None:
    op.create_table(
        "mailbox_record",
        sa.Column("seq", KEY, primary_key=True, autoincrement=False),
        sa.Column("pod", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("sender", sa.Text),
        sa.Column("recipient", sa.Text),
        sa.Column("thread", sa.Text),
        sa.Column("target", sa.BigInteger),
        sa.Column("idem", sa.Text),
        sa.Column("body", sa.LargeBinary),
        sa.Column("state", sa.Text),
        sa.Column("entry_hash", sa.LargeBinary, nullable=False),
        sa.Column("link", sa.LargeBinary, nullable=False),
    )
    for name, columns, unique in INDEXES:
        given = sa.column(columns[0]).is_not(None)
        op.create_index(name, "mailbox_record", columns, unique=unique, sqlite_where=given, postgresql_where=given)
    op.create_table(
        "mailbox_attachment",
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("pod", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("sha", sa.Text, nullable=False),
        sa.Column("blob", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Index("mailbox_attachment_sha", "sha"),
        sa.Index("mailbox_attachment_seq", "seq"),
        sa.Index("mailbox_attachment_blob", "blob"),
    )
    op.create_table(
        "mailbox_participant",
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("pod", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text),
        sa.Column("is_agent", sa.Integer, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("notified", sa.BigInteger, nullable=False),
        sa.Column("fetched", sa.BigInteger, nullable=False),
        sa.Column("acknowledged", sa.BigInteger, nullable=False),
        sa.Column("missed", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("pod", "name", name="uq_mailbox_participant_name"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE TABLE mailbox_search (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        op.execute("CREATE INDEX ix_mailbox_search_words ON mailbox_search USING gin (words) WITH (fastupdate = off)")
    else:
        op.execute(MAILBOX_SEARCH)
