"""What the domains of the house's correspondents look like."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("correspondent", sa.Column("looks", sa.Text, nullable=True))
    op.create_index("ix_correspondent_looks", "correspondent", ["pod", "looks"])
