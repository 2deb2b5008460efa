"""The Message-ID of mail in the queue, and a message's number in it: threads come out by the order of arrival."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("intake", sa.Column("rfc_id", sa.Text, nullable=True))
    op.add_column("message", sa.Column("arrival", sa.BigInteger, nullable=True))
