"""Which bytes an outgoing mail still needs, how much a draft holds; bytes nobody needs any more go."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NEEDED = "SELECT outgoing_id, raw_sha FROM outgoing WHERE state NOT IN ('refused', 'expired')"
ALL_OF_IT = "SELECT outgoing_id, attachments FROM outgoing WHERE state NOT IN ('refused', 'expired', 'sent', 'failed')"
HOLDERS = ("message", "intake", "outbox", "draft_attachment", "outgoing_blob", "mailbox_attachment")
BYTES = {"sqlite": "length(CAST({} AS BLOB))", "postgresql": "octet_length({})"}


def upgrade() -> None:
    op.create_table(
        "outgoing_blob",
        sa.Column("outgoing_id", sa.Text, primary_key=True),
        sa.Column("blob", sa.Text, primary_key=True),
        sa.Index("ix_outgoing_blob_blob", "blob"),
    )
    op.add_column("draft", sa.Column("size", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("ix_draft_size", "draft", ["inbox", "size"])
    _name_what_mail_needs()
    _weigh_drafts()
    held = " AND ".join(f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.blob = blob.sha)" for table in HOLDERS)  # noqa: S608 - constants
    op.execute(f"DELETE FROM blob WHERE {held}")  # noqa: S608 - constants


def _name_what_mail_needs() -> None:
    op.execute(f"INSERT INTO outgoing_blob (outgoing_id, blob) {NEEDED}")
    table = sa.table("outgoing_blob", sa.column("outgoing_id"), sa.column("blob"))
    connection = op.get_bind()
    for outgoing_id, attachments in connection.execute(sa.text(ALL_OF_IT)).fetchall():
        known = {row[0] for row in connection.execute(sa.select(table.c.blob).where(table.c.outgoing_id == outgoing_id))}
        for sha in {entry["sha"] for entry in json.loads(attachments)} - known:
            connection.execute(sa.insert(table).values(outgoing_id=outgoing_id, blob=sha))


def _weigh_drafts() -> None:
    weight = BYTES[op.get_bind().dialect.name]
    texts = " + ".join(f"coalesce({weight.format(name)}, 0)" for name in ("subject", "text", "html"))
    files = "coalesce((SELECT sum(size) FROM draft_attachment WHERE draft_attachment.draft = draft.id), 0)"
    op.execute(f"UPDATE draft SET size = {texts} + {files}")  # noqa: S608 - constants
