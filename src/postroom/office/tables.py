"""The office's tables: what is kept of an agent's email. Queries stand beside the verb that runs them.

Integers are keys inside; the contract's ids (an address, a Message-ID, UUIDs) are columns. Lists and
maps are JSON text. `fold_*` columns hold case-folded text for substring filters, so that case-blind
means the same on every engine. Raw mail lies in the store's blobs; a row keeps its SHA-256.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table, Text, UniqueConstraint

from postroom.store.schema import Key, metadata


def _key() -> Column[int]:
    return Column("id", Key, primary_key=True, autoincrement=True)


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _number(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


inbox = Table(
    "inbox",
    metadata,
    _key(),
    _text("pod"),
    _text("address"),
    _text("display_name", null=True),
    _text("client_id", null=True),
    _text("status"),
    _text("metadata"),
    _text("owner_agent", null=True),
    _number("created_at"),
    _number("updated_at"),
    UniqueConstraint("address", name="uq_inbox_address"),
    UniqueConstraint("pod", "client_id", name="uq_inbox_client_id"),
    Index("ix_inbox_owner", "owner_agent"),
)

thread = Table(
    "thread",
    metadata,
    _key(),
    _text("pod"),
    _number("inbox"),
    _text("uuid"),
    _text("subject", null=True),
    _text("preview", null=True),
    _text("senders"),
    _text("recipients"),
    _text("fold_senders"),
    _text("fold_recipients"),
    _text("fold_subject"),
    _text("last_message_id"),
    _number("message_count"),
    _number("size"),
    _number("timestamp"),
    _number("received_at", null=True),
    _number("sent_at", null=True),
    _number("created_at"),
    _number("updated_at"),
    UniqueConstraint("uuid", name="uq_thread_uuid"),
    Index("ix_thread_received", "inbox", "received_at", "id"),
    Index("ix_thread_timestamp", "inbox", "timestamp", "id"),
)

message = Table(
    "message",
    metadata,
    _key(),
    _text("pod"),
    _number("inbox"),
    _number("thread"),
    _text("public_id"),
    _text("rfc_id", null=True),
    _text("outgoing_id", null=True),
    _number("received"),  # 1: it came in; 0: we sent it
    _number("hidden"),  # bits of labels.HIDDEN, for listings
    _number("timestamp"),
    _number("dated_at", null=True),  # the sender's Date, which may say anything
    _text("from_"),
    _text("to_"),
    _text("cc"),
    _text("bcc"),
    _text("reply_to"),
    _text("fold_from"),
    _text("fold_recipients"),
    _text("fold_subject"),
    _text("subject", null=True),
    _text("preview", null=True),
    _text("text", null=True),
    _text("html", null=True),
    _text("extracted_text", null=True),
    _text("text_source"),
    _text("in_reply_to", null=True),
    _text("refs"),
    _text("headers"),
    _text("findings"),
    _text("blob"),
    _number("size"),
    _text("mail_from"),
    _number("created_at"),
    _number("updated_at"),
    _text("authentication", null=True),  # JSON: who vouched for the sender; NULL: nobody was asked
    _number("arrival", null=True),  # its number in the queue it came by; NULL: it was sent from here
    UniqueConstraint("inbox", "public_id", name="uq_message_public_id"),
    UniqueConstraint("outgoing_id", name="uq_message_outgoing_id"),
    Index("ix_message_inbox", "inbox", "timestamp", "id"),
    Index("ix_message_thread", "thread", "timestamp", "id"),
    Index("ix_message_blob", "blob"),
    sqlite_autoincrement=True,  # a number is never given twice: a search entry never points to another mail
)

message_alias = Table(
    "message_alias",
    metadata,
    Column("inbox", BigInteger, primary_key=True, autoincrement=False),
    Column("rfc_id", Text, primary_key=True),
    Column("message", BigInteger, primary_key=True, autoincrement=False),
    Index("ix_message_alias_message", "message"),
)

message_label = Table(
    "message_label",
    metadata,
    Column("message", BigInteger, primary_key=True, autoincrement=False),
    Column("label", Text, primary_key=True),
    _number("inbox"),
    _number("thread"),
    _number("timestamp"),
    Index("ix_message_label_inbox", "inbox", "label", "timestamp", "message"),
    Index("ix_message_label_thread", "thread", "label"),
)

attachment = Table(
    "attachment",
    metadata,
    _key(),
    _text("pod"),
    _number("message"),
    _number("thread"),
    _text("uuid"),
    _number("place"),  # which of the mail's attachments, counted from 0
    _text("filename", null=True),
    _text("content_type", null=True),
    _text("disposition", null=True),
    _text("content_id", null=True),
    _number("size"),
    Index("ix_attachment_message", "message"),
    Index("ix_attachment_thread", "thread"),
)

draft = Table(
    "draft",
    metadata,
    _key(),
    _text("pod"),
    _number("inbox"),
    _text("uuid"),
    _text("client_id", null=True),
    _text("author"),
    _text("to_"),
    _text("cc"),
    _text("bcc"),
    _text("reply_to"),
    _text("subject", null=True),
    _text("text", null=True),
    _text("html", null=True),
    _text("preview", null=True),
    _text("in_reply_to", null=True),
    _text("forward_of", null=True),
    _number("reply_all"),
    _text("refs"),
    _number("send_at", null=True),
    _text("send_status", null=True),
    _number("created_at"),
    _number("updated_at"),
    Column("size", BigInteger, nullable=False, server_default="0"),  # bytes of its texts and attachments
    UniqueConstraint("uuid", name="uq_draft_uuid"),
    UniqueConstraint("inbox", "client_id", name="uq_draft_client_id"),
    Index("ix_draft_inbox", "inbox", "updated_at", "id"),
    Index("ix_draft_due", "send_status", "send_at"),
    Index("ix_draft_size", "inbox", "size"),
)

draft_label = Table(
    "draft_label",
    metadata,
    Column("draft", BigInteger, primary_key=True, autoincrement=False),
    Column("label", Text, primary_key=True),
)

draft_attachment = Table(
    "draft_attachment",
    metadata,
    _key(),
    _text("pod"),
    _number("draft"),
    _text("uuid"),
    _text("filename", null=True),
    _text("content_type", null=True),
    _text("disposition", null=True),
    _text("content_id", null=True),
    _number("size"),
    _text("blob"),
    Index("ix_draft_attachment_draft", "draft"),
    Index("ix_draft_attachment_blob", "blob"),
)

intake = Table(
    "intake",
    metadata,
    _key(),
    _text("pod"),
    _text("blob"),
    _text("mail_from"),
    _text("rcpt_to"),
    _text("peer"),
    _text("origin"),  # smtp | local
    _number("size"),
    _number("attempts"),
    _number("received_at"),
    _text("rfc_id", null=True),  # its Message-ID: mail that names it waits for it
    Index("ix_intake_queue", "attempts", "id"),
    sqlite_autoincrement=True,  # a number is never given twice: two copies of the same mail are told apart by it, and peers are told it
)

outbox = Table(
    "outbox",
    metadata,
    _key(),
    _text("pod"),
    _text("outgoing_id"),
    _number("message"),
    _text("mail_from"),
    _text("rcpt_to"),  # all recipients of the envelope, as the digest covers them
    _text("pending"),  # external recipients still to be served
    _text("failed"),  # address → the answer that settled it
    _text("blob"),
    _text("digest"),
    _text("state"),  # queued | trying | sent | failed
    _number("attempts"),
    _number("next_at"),
    _text("last_error", null=True),
    _number("possible_duplicate"),
    _number("created_at"),
    _number("updated_at"),
    UniqueConstraint("outgoing_id", name="uq_outbox_outgoing_id"),
    Index("ix_outbox_due", "state", "next_at"),
    Index("ix_outbox_blob", "blob"),
)

correspondent = Table(  # a row at all: mail went to the address, or came from it
    "correspondent",
    metadata,
    Column("pod", Text, primary_key=True),
    Column("address", Text, primary_key=True),
    Column("looks", Text),  # what its domain may be taken for, where the house wrote to it
    _number("wrote_at", null=True),  # when the house last wrote to it
    _number("proved_at", null=True),  # when mail from it last came with proof
    Index("ix_correspondent_looks", "pod", "looks"),
)

list_entry = Table(
    "list_entry",
    metadata,
    _key(),
    _text("pod"),
    _number("inbox"),  # 0: the whole pod
    _text("direction"),  # send | receive | reply
    _text("type"),  # allow | block
    _text("entry"),
    _text("reason", null=True),
    _number("created_at"),
    UniqueConstraint("pod", "inbox", "direction", "entry", name="uq_list_entry_entry"),
)

suppression = Table(
    "suppression",
    metadata,
    _key(),
    _text("pod"),
    _text("address"),
    _text("reason"),
    _number("created_at"),
    UniqueConstraint("pod", "address", name="uq_suppression_address"),
)

webhook = Table(
    "webhook",
    metadata,
    _key(),
    _text("pod"),
    _text("uuid"),
    _text("url"),
    _text("event_types"),
    _text("inbox", null=True),  # the address of the inbox it belongs to
    _text("inbox_ids"),  # those it is narrowed to
    _text("pod_ids"),
    _text("client_id", null=True),
    _text("secret"),
    _text("old_secret", null=True),
    _number("old_until", null=True),  # until when the earlier secret signs too
    _text("headers"),
    _number("enabled"),
    _number("failing_since", null=True),  # when the first of nothing but failures was
    _text("reason", null=True),  # why it was disabled
    _number("since"),  # it hears of events after this position
    _number("created_at"),
    _number("updated_at"),
    UniqueConstraint("uuid", name="uq_webhook_uuid"),
    UniqueConstraint("pod", "client_id", name="uq_webhook_client_id"),
)

webhook_delivery = Table(
    "webhook_delivery",
    metadata,
    _key(),
    _text("pod"),
    _number("webhook"),
    _number("event_seq"),
    _text("event_id"),
    _text("delivery_id"),
    _text("kind"),
    _text("state"),  # queued | delivered | failed | gone
    _number("attempts"),
    _number("next_at"),
    _number("status", null=True),
    _text("error", null=True),
    _number("created_at"),
    _number("updated_at"),
    UniqueConstraint("webhook", "event_seq", name="uq_webhook_delivery_event"),
    Index("ix_webhook_delivery_due", "state", "next_at"),
    Index("ix_webhook_delivery_settled", "state", "updated_at"),
)

webhook_body = Table(
    "webhook_body",
    metadata,
    _key(),
    _number("event_seq"),
    _text("ref"),  # the message it tells of: erased with it
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("event_seq", name="uq_webhook_body_event"),
    Index("ix_webhook_body_ref", "ref"),
)

domain = Table(
    "domain",
    metadata,
    _key(),
    _text("pod"),
    _text("name"),
    _number("feedback"),
    _number("inbound"),
    _number("subdomains"),
    _number("tracking"),
    _text("found"),  # what the last look at its DNS records found
    _number("verified_at", null=True),
    _number("created_at"),
    _number("updated_at"),
    UniqueConstraint("name", name="uq_domain_name"),
)
