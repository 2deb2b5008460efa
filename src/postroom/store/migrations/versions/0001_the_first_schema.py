"""The first schema: the tables of every room.

A revision says what the schema was on its day and is never edited after a release; it imports
nothing from the rooms, whose tables move on.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MAIL_SEARCH = (
    "CREATE VIRTUAL TABLE mail_search USING fts5(scope, from_, recipients, subject, text, cjk, "
    "content='', tokenize='unicode61 remove_diacritics 2')"
)


def _key(name: str = "id") -> sa.Column[Any]:
    return sa.Column(name, KEY, primary_key=True, autoincrement=True)


def _text(name: str, *, nullable: bool = False, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=nullable, **more)


def _number(name: str, *, nullable: bool = False, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=nullable, **more)


def _small(name: str, *, nullable: bool = False, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=nullable, **more)


def _bytes(name: str, *, nullable: bool = False, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary, nullable=nullable, **more)


TABLES: dict[str, list[sa.schema.SchemaItem]] = {
    # store
    "event": [
        _key("seq"),
        _text("event_id", unique=True),
        _text("pod"),
        _text("agent", nullable=True),
        _text("inbox", nullable=True),
        _text("thread", nullable=True),
        _text("kind"),
        _text("ref"),
        _number("at"),
        _text("snapshot"),
        sa.Index("event_by_inbox", "inbox", "seq"),
        sa.Index("event_by_kind", "kind", "seq"),
    ],
    "cursor": [
        _key(),
        _text("name", unique=True),
        _number("seq"),
    ],
    "lease": [
        _key(),
        _text("name", unique=True),
        _text("holder"),
        _number("expires_at"),
    ],
    "blob": [
        _key(),
        _text("sha", unique=True),
        _number("size"),
        _bytes("data", nullable=True),
    ],
    "search_document": [
        sa.Column("id", KEY, primary_key=True, autoincrement=False),
        _text("pod"),
        _text("inbox"),
        _bytes("indexed"),
    ],
    "probe": [
        _key(),
        _number("at"),
    ],
    # access
    "agent": [
        _key(),
        _text("pod"),
        _text("agent_id", unique=True),
        _text("name"),
        _text("profile"),
        _number("created_at"),
        _number("removed_at", nullable=True),
        sa.UniqueConstraint("pod", "name", name="uq_agent_name"),
    ],
    "api_key": [
        _key(),
        _text("pod"),
        _text("key_id", unique=True),
        _bytes("secret_hash"),
        _text("kind"),
        _text("agent_id", nullable=True),
        _text("session_id", nullable=True),
        _text("inbox_scope", nullable=True),
        _text("name"),
        _text("permissions", nullable=True),
        _number("created_at"),
        _number("used_at", nullable=True),
        _number("expires_at", nullable=True),
        _number("revoked_at", nullable=True),
        sa.Index("ix_api_key_agent", "agent_id"),
    ],
    "agent_account": [
        _key(),
        _text("pod"),
        _text("agent_id"),
        _text("account"),
        _number("created_at"),
        sa.UniqueConstraint("agent_id", "account", name="uq_agent_account"),
    ],
    "house_secret": [
        _key(),
        _text("pod"),
        _text("name"),
        _bytes("value"),
        sa.UniqueConstraint("pod", "name", name="uq_house_secret_name"),
    ],
    # gate
    "outgoing": [
        _key(),
        _text("pod"),
        _text("outgoing_id", unique=True),
        _text("submitter"),
        _text("submission_key", nullable=True),
        _text("fingerprint"),
        _text("content"),
        _text("principal"),
        _text("agent_id", nullable=True),
        _text("inbox_id"),
        _text("state"),
        _text("outbound"),
        _text("attachments"),
        _text("mail_from"),
        _text("rcpt_to"),
        _text("raw_sha"),
        _number("size"),
        _text("digest"),
        _text("message_id"),
        _text("thread_id", nullable=True),
        _text("reasons"),
        _text("refused"),
        _text("boundary"),
        _text("boundary_reason"),
        _number("created_at"),
        _number("expires_at"),
        _number("handed_at", nullable=True),
        _text("decided_by", nullable=True),
        _number("decided_at", nullable=True),
        _text("comment", nullable=True),
        _text("detail", nullable=True),
        _small("possible_duplicate"),
        sa.UniqueConstraint("pod", "submitter", "submission_key", name="uq_outgoing_key"),
        sa.Index("ix_outgoing_agent", "agent_id", "id"),
        sa.Index("ix_outgoing_content", "submitter", "content"),
        sa.Index("ix_outgoing_pod", "pod", "id"),
        sa.Index("ix_outgoing_state", "state", "expires_at"),
    ],
    "gate_audit": [
        _key(),
        _text("pod"),
        _number("seq", unique=True),
        _text("outgoing_id"),
        _bytes("body"),
        _bytes("entry_hash"),
        _bytes("link"),
        sa.Index("ix_gate_audit_outgoing", "outgoing_id", "seq"),
    ],
    "read_log": [
        _key(),
        _text("pod"),
        _text("agent_id"),
        _text("session_id", nullable=True),
        _text("ref"),
        _number("at"),
        sa.Index("ix_read_log_agent", "agent_id", "at"),
        sa.Index("ix_read_log_ref", "agent_id", "ref"),
    ],
    # office
    "inbox": [
        _key(),
        _text("pod"),
        _text("address"),
        _text("display_name", nullable=True),
        _text("client_id", nullable=True),
        _text("status"),
        _text("metadata"),
        _text("owner_agent", nullable=True),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("address", name="uq_inbox_address"),
        sa.UniqueConstraint("pod", "client_id", name="uq_inbox_client_id"),
        sa.Index("ix_inbox_owner", "owner_agent"),
    ],
    "thread": [
        _key(),
        _text("pod"),
        _number("inbox"),
        _text("uuid"),
        _text("subject", nullable=True),
        _text("preview", nullable=True),
        _text("senders"),
        _text("recipients"),
        _text("fold_senders"),
        _text("fold_recipients"),
        _text("fold_subject"),
        _text("last_message_id"),
        _number("message_count"),
        _number("size"),
        _number("timestamp"),
        _number("received_at", nullable=True),
        _number("sent_at", nullable=True),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("uuid", name="uq_thread_uuid"),
        sa.Index("ix_thread_received", "inbox", "received_at", "id"),
        sa.Index("ix_thread_timestamp", "inbox", "timestamp", "id"),
    ],
    "message": [
        _key(),
        _text("pod"),
        _number("inbox"),
        _number("thread"),
        _text("public_id"),
        _text("rfc_id", nullable=True),
        _text("outgoing_id", nullable=True),
        _number("received"),
        _number("hidden"),
        _number("timestamp"),
        _number("dated_at", nullable=True),
        _text("from_"),
        _text("to_"),
        _text("cc"),
        _text("bcc"),
        _text("reply_to"),
        _text("fold_from"),
        _text("fold_recipients"),
        _text("fold_subject"),
        _text("subject", nullable=True),
        _text("preview", nullable=True),
        _text("text", nullable=True),
        _text("html", nullable=True),
        _text("extracted_text", nullable=True),
        _text("text_source"),
        _text("in_reply_to", nullable=True),
        _text("refs"),
        _text("headers"),
        _text("findings"),
        _text("blob"),
        _number("size"),
        _text("mail_from"),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("outgoing_id", name="uq_message_outgoing_id"),
        sa.UniqueConstraint("inbox", "public_id", name="uq_message_public_id"),
        sa.Index("ix_message_blob", "blob"),
        sa.Index("ix_message_inbox", "inbox", "timestamp", "id"),
        sa.Index("ix_message_thread", "thread", "timestamp", "id"),
    ],
    "message_alias": [
        _number("inbox", primary_key=True, autoincrement=False),
        _text("rfc_id", primary_key=True),
        _number("message", primary_key=True, autoincrement=False),
        sa.Index("ix_message_alias_message", "message"),
    ],
    "message_label": [
        _number("message", primary_key=True, autoincrement=False),
        _text("label", primary_key=True),
        _number("inbox"),
        _number("thread"),
        _number("timestamp"),
        sa.Index("ix_message_label_inbox", "inbox", "label", "timestamp", "message"),
        sa.Index("ix_message_label_thread", "thread", "label"),
    ],
    "attachment": [
        _key(),
        _text("pod"),
        _number("message"),
        _number("thread"),
        _text("uuid"),
        _number("place"),
        _text("filename", nullable=True),
        _text("content_type", nullable=True),
        _text("disposition", nullable=True),
        _text("content_id", nullable=True),
        _number("size"),
        sa.Index("ix_attachment_message", "message"),
        sa.Index("ix_attachment_thread", "thread"),
    ],
    "draft": [
        _key(),
        _text("pod"),
        _number("inbox"),
        _text("uuid"),
        _text("client_id", nullable=True),
        _text("author"),
        _text("to_"),
        _text("cc"),
        _text("bcc"),
        _text("reply_to"),
        _text("subject", nullable=True),
        _text("text", nullable=True),
        _text("html", nullable=True),
        _text("preview", nullable=True),
        _text("in_reply_to", nullable=True),
        _text("forward_of", nullable=True),
        _number("reply_all"),
        _text("refs"),
        _number("send_at", nullable=True),
        _text("send_status", nullable=True),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("inbox", "client_id", name="uq_draft_client_id"),
        sa.UniqueConstraint("uuid", name="uq_draft_uuid"),
        sa.Index("ix_draft_due", "send_status", "send_at"),
        sa.Index("ix_draft_inbox", "inbox", "updated_at", "id"),
    ],
    "draft_label": [
        _number("draft", primary_key=True, autoincrement=False),
        _text("label", primary_key=True),
    ],
    "draft_attachment": [
        _key(),
        _text("pod"),
        _number("draft"),
        _text("uuid"),
        _text("filename", nullable=True),
        _text("content_type", nullable=True),
        _text("disposition", nullable=True),
        _text("content_id", nullable=True),
        _number("size"),
        _text("blob"),
        sa.Index("ix_draft_attachment_blob", "blob"),
        sa.Index("ix_draft_attachment_draft", "draft"),
    ],
    "intake": [
        _key(),
        _text("pod"),
        _text("blob"),
        _text("mail_from"),
        _text("rcpt_to"),
        _text("peer"),
        _text("origin"),
        _number("size"),
        _number("attempts"),
        _number("received_at"),
        sa.Index("ix_intake_queue", "attempts", "id"),
    ],
    "outbox": [
        _key(),
        _text("pod"),
        _text("outgoing_id"),
        _number("message"),
        _text("mail_from"),
        _text("rcpt_to"),
        _text("pending"),
        _text("failed"),
        _text("blob"),
        _text("digest"),
        _text("state"),
        _number("attempts"),
        _number("next_at"),
        _text("last_error", nullable=True),
        _number("possible_duplicate"),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("outgoing_id", name="uq_outbox_outgoing_id"),
        sa.Index("ix_outbox_blob", "blob"),
        sa.Index("ix_outbox_due", "state", "next_at"),
    ],
    "list_entry": [
        _key(),
        _text("pod"),
        _number("inbox"),
        _text("direction"),
        _text("type"),
        _text("entry"),
        _text("reason", nullable=True),
        _number("created_at"),
        sa.UniqueConstraint("pod", "inbox", "direction", "entry", name="uq_list_entry_entry"),
    ],
    "suppression": [
        _key(),
        _text("pod"),
        _text("address"),
        _text("reason"),
        _number("created_at"),
        sa.UniqueConstraint("pod", "address", name="uq_suppression_address"),
    ],
    # sessions
    "session": [
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        _text("pod"),
        _text("session_id"),
        _text("thread", nullable=True),
        _text("inbox"),
        _text("agent"),
        _number("born"),
        _number("offered"),
        _number("taken"),
        _number("newest"),
        _small("attempts"),
        _number("next_at"),
        _text("waiting"),
        _number("created_at"),
        _number("updated_at"),
        sa.UniqueConstraint("agent", "session_id", name="session_agent_id"),
        sa.Index("session_agent", "agent", "id"),
        sa.Index("session_due", "next_at"),
    ],
}
NUMBERS_NEVER_COME_BACK = {name: {"sqlite_autoincrement": True} for name in ("event", "intake", "message")}


def upgrade() -> None:
    for name, items in TABLES.items():
        op.create_table(name, *items, **NUMBERS_NEVER_COME_BACK.get(name, {}))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE TABLE mail_search (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        op.execute("CREATE INDEX ix_mail_search_words ON mail_search USING gin (words) WITH (fastupdate = off)")
    else:
        op.execute(MAIL_SEARCH)
