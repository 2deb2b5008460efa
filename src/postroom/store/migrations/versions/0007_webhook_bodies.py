"""What a webhook is told, as it was when it happened; kept until every delivery of it is settled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "webhook_body",
        sa.Column("id", KEY, primary_key=True, autoincrement=True),
        sa.Column("event_seq", sa.BigInteger, nullable=False),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("event_seq", name="uq_webhook_body_event"),
        sa.Index("ix_webhook_body_ref", "ref"),
    )
