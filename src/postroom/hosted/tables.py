"""What only this house knows of a hosted office: whose each inbox is, how far it was read, what was told and sent.

The service is the store of mail; nothing here has a body. `hosted_seen` is the one memory of what was copied into
the event log, for live events, catching up and polling alike.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Table, Text, UniqueConstraint

from postroom.store.schema import Key, metadata


def _key() -> Column[int]:
    return Column("id", Key, primary_key=True, autoincrement=True)


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _number(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


# `floor_at`: mail before it was there before this house looked, and is nobody's news; NULL until the first look.
# `seen_at`: mail up to it was listed.
hosted_inbox = Table(
    "hosted_inbox",
    metadata,
    _key(),
    _text("pod"),
    _text("address"),
    _text("owner_agent", null=True),
    _text("display_name", null=True),
    _number("floor_at", null=True),
    _number("seen_at"),
    _number("created_at"),
    UniqueConstraint("address", name="uq_hosted_inbox_address"),
    Index("ix_hosted_inbox_owner", "owner_agent"),
)

hosted_seen = Table(
    "hosted_seen",
    metadata,
    _key(),
    _text("inbox"),
    _text("kind"),
    _text("ref"),
    _text("detail"),
    _number("at"),
    UniqueConstraint("inbox", "kind", "ref", "detail", name="uq_hosted_seen"),
    Index("ix_hosted_seen_at", "inbox", "at"),
)

hosted_send = Table(
    "hosted_send",
    metadata,
    _key(),
    _text("outgoing_id"),
    _number("first_at"),
    _text("message_id", null=True),
    _text("thread_id", null=True),
    UniqueConstraint("outgoing_id", name="uq_hosted_send_outgoing"),
)
