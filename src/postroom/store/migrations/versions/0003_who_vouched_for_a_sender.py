"""Who vouched for a sender, whom the house corresponds with, whom agents asked to write to, and when reading was cleared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("message", sa.Column("authentication", sa.Text, nullable=True))
    op.add_column("read_log", sa.Column("cleared_at", sa.BigInteger, nullable=True))
    op.create_table(
        "correspondent",
        sa.Column("pod", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("wrote_at", sa.BigInteger, nullable=True),
        sa.Column("proved_at", sa.BigInteger, nullable=True),
    )
    op.create_table(
        "asked_recipient",
        sa.Column("agent_id", sa.Text, primary_key=True),
        sa.Column("address", sa.Text, primary_key=True),
        sa.Column("first_at", sa.BigInteger, nullable=False),
        sa.Index("ix_asked_recipient_first", "agent_id", "first_at"),
    )
