"""The gate's tables: `outgoing` (one row per mail that wanted to leave), its audit, whom agents asked to write to, and the read log.

`outgoing` holds the whole frozen mail (its bytes as blobs, kept as `outgoing_blob` says) and all that an
approver is shown, so nothing has to be looked up again later. `gate_audit` only grows; each row carries the hash of the
one before it. JSON is text we write ourselves.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text, UniqueConstraint

from postroom.store.schema import Key, metadata

outgoing = Table(
    "outgoing",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("outgoing_id", Text, nullable=False, unique=True),
    Column("submitter", Text, nullable=False),  # whose keys these are: `owner`, `system` or the agent's id
    Column("submission_key", Text),
    Column("fingerprint", Text, nullable=False),  # of the request: what its key stands for
    Column("content", Text, nullable=False),  # of what would leave: the same mail twice is a likely duplicate
    Column("principal", Text, nullable=False),  # JSON: who asked, enough to judge again at dispatch
    Column("agent_id", Text),
    Column("inbox_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("outbound", Text, nullable=False),  # JSON, without attachments
    Column("attachments", Text, nullable=False),  # JSON list, bytes by hash
    Column("mail_from", Text, nullable=False),
    Column("rcpt_to", Text, nullable=False),  # JSON list
    Column("raw_sha", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("thread_id", Text),
    Column("reasons", Text, nullable=False),  # JSON list
    Column("refused", Text, nullable=False),  # JSON list of addresses
    Column("boundary", Text, nullable=False),
    Column("boundary_reason", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("handed_at", BigInteger),  # when the sender confirmed that it has it
    Column("decided_by", Text),
    Column("decided_at", BigInteger),
    Column("comment", Text),
    Column("detail", Text),
    Column("possible_duplicate", Integer, nullable=False),
    UniqueConstraint("pod", "submitter", "submission_key", name="uq_outgoing_key"),
    Index("ix_outgoing_state", "state", "expires_at"),
    Index("ix_outgoing_pod", "pod", "id"),
    Index("ix_outgoing_agent", "agent_id", "id"),
    Index("ix_outgoing_content", "submitter", "content"),
)

outgoing_blob = Table(  # the bytes a mail still needs
    "outgoing_blob",
    metadata,
    Column("outgoing_id", Text, primary_key=True),
    Column("blob", Text, primary_key=True),
    Index("ix_outgoing_blob_blob", "blob"),
)

asked_recipient = Table(
    "asked_recipient",
    metadata,
    Column("agent_id", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("first_at", BigInteger, nullable=False),  # when the agent first asked to write to it
    Index("ix_asked_recipient_first", "agent_id", "first_at"),
)

gate_audit = Table(
    "gate_audit",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("seq", BigInteger, nullable=False, unique=True),
    Column("outgoing_id", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),  # the canonical entry
    Column("entry_hash", LargeBinary, nullable=False),
    Column("link", LargeBinary, nullable=False),
    Index("ix_gate_audit_outgoing", "outgoing_id", "seq"),
)

read_log = Table(
    "read_log",
    metadata,
    Column("id", Key, primary_key=True, autoincrement=True),
    Column("pod", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("session_id", Text),
    Column("ref", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("cleared_at", BigInteger),  # when the owner said it no longer matters
    Index("ix_read_log_agent", "agent_id", "at"),
    Index("ix_read_log_ref", "agent_id", "ref"),
)
