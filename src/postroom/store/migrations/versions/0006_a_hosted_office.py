"""What this house keeps of a hosted office: whose its inboxes are, what was told of, what was sent."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _key() -> sa.Column[Any]:
    return sa.Column("id", KEY, primary_key=True, autoincrement=True)


def upgrade() -> None:
    op.create_table(
        "hosted_inbox",
        _key(),
        _text("pod"),
        _text("address"),
        _text("owner_agent", nullable=True),
        _text("display_name", nullable=True),
        _number("floor_at", nullable=True),
        _number("seen_at"),
        _number("created_at"),
        sa.UniqueConstraint("address", name="uq_hosted_inbox_address"),
        sa.Index("ix_hosted_inbox_owner", "owner_agent"),
    )
    op.create_table(
        "hosted_seen",
        _key(),
        _text("inbox"),
        _text("kind"),
        _text("ref"),
        _text("detail"),
        _number("at"),
        sa.UniqueConstraint("inbox", "kind", "ref", "detail", name="uq_hosted_seen"),
        sa.Index("ix_hosted_seen_at", "inbox", "at"),
    )
    op.create_table(
        "hosted_send",
        _key(),
        _text("outgoing_id"),
        _number("first_at"),
        _text("message_id", nullable=True),
        _text("thread_id", nullable=True),
        sa.UniqueConstraint("outgoing_id", name="uq_hosted_send_outgoing"),
    )
