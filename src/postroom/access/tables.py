"""Access's tables: agents, what they may read beside their mail, keys of all kinds in one table, secrets of the house."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from postroom.store.schema import metadata

_KEY = BigInteger().with_variant(Integer, "sqlite")

agent = Table(
    "agent",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("agent_id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("removed_at", BigInteger),  # a removed agent's name keeps its id, so that it can come back to its mail
    UniqueConstraint("pod", "name", name="uq_agent_name"),
)

api_key = Table(
    "api_key",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("key_id", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),  # SHA-256; the secret has 192 random bits, so no salt is needed
    Column("kind", Text, nullable=False),  # owner | agent | bridge
    Column("agent_id", Text),
    Column("session_id", Text),
    Column("inbox_scope", Text),
    Column("name", Text, nullable=False),
    Column("permissions", Text),  # JSON; NULL is everything its kind allows
    Column("created_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Index("ix_api_key_agent", "agent_id"),
)

# Which mail accounts of a person the owner let an agent read.
agent_account = Table(
    "agent_account",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("agent_id", "account", name="uq_agent_account"),
)

house_secret = Table(
    "house_secret",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", LargeBinary, nullable=False),
    UniqueConstraint("pod", "name", name="uq_house_secret_name"),
)
