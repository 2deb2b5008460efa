"""Webhooks, what they are owed, and domains that were added by a call."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
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
        "webhook",
        _key(),
        _text("pod"),
        _text("uuid"),
        _text("url"),
        _text("event_types"),
        _text("inbox", nullable=True),
        _text("inbox_ids"),
        _text("pod_ids"),
        _text("client_id", nullable=True),
        _text("secret"),
        _text("old_secret", nullable=True),
        _number("old_until", nullable=True),
        _text("headers"),
        _number("enabled"),
        _number("failing_since", nullable=True),
        _text("reason", nullable=True),
        _number("since"),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("uuid", name="uq_webhook_uuid"),
        sa.UniqueConstraint("pod", "client_id", name="uq_webhook_client_id"),
    )
    op.create_table(
        "webhook_delivery",
        _key(),
        _text("pod"),
        _number("webhook"),
        _number("event_seq"),
        _text("event_id"),
        _text("delivery_id"),
        _text("kind"),
        _text("state"),
        _number("attempts"),
        _number("next_at"),
        _number("status", nullable=True),
        _text("error", nullable=True),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("webhook", "event_seq", name="uq_webhook_delivery_event"),
        sa.Index("ix_webhook_delivery_due", "state", "next_at"),
        sa.Index("ix_webhook_delivery_settled", "state", "updated_at"),
    )
    op.create_table(
        "domain",
        _key(),
        _text("pod"),
        _text("name"),
        _number("feedback"),
        _number("inbound"),
        _number("subdomains"),
        _number("tracking"),
        _text("found"),
        _number("verified_at", nullable=True),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("name", name="uq_domain_name"),
    )
