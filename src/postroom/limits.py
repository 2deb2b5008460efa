"""The one table of limits. Sizes are in bytes, times in seconds, the rest are counts.

Nothing here is configurable: a limit is part of what postroom promises. What a person may tune
stands in `config`.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Mail, as it arrives and as it leaves.
MAIL_BYTES: Final = 25 * MIB
HEADER_BLOCK_BYTES: Final = 256 * KIB
STRUCTURED_HEADER_BYTES: Final = 16 * KIB  # addresses, ids, dates, parameters
HEADER_BYTES: Final = 64 * KIB
PARTS: Final = 1000
PART_DEPTH: Final = 50
PARAMETERS: Final = 100
HTML_BYTES: Final = 2 * MIB
MESSAGE_ID_BYTES: Final = 998
RECIPIENTS_PER_SEND: Final = 50
DRAFTS: Final = 5000  # in one inbox
DRAFTS_BYTES: Final = 512 * MIB  # of one inbox's drafts together, texts and attachments
PARSE_WORKER_BYTES: Final = 256 * KIB  # larger mails are parsed outside the main process
PARSE_WORKER_S: Final = 20.0
INGEST_ATTEMPTS: Final = 3
PREVIEW_CHARS: Final = 200

# SMTP, RFC 5321 §4.5.3; lines are wider than the RFC's 1,000 on purpose.
SMTP_LINE_BYTES: Final = 64 * KIB
SMTP_RECIPIENTS: Final = 100
SMTP_CONNECTIONS: Final = 100
SMTP_MEMORY_BYTES: Final = 256 * MIB  # of all mails being received and stored at one moment
SMTP_IDLE_S: Final = 300.0
SMTP_DATA_S: Final = 600.0

# HTTP.
HTTP_BODY_BYTES: Final = 8 * MIB  # /mcp, /mailbox, /api
HTTP_SEND_BODY_BYTES: Final = 35 * MIB  # /v0: a 25 MiB mail in base64
HTTP_HEADER_BYTES: Final = 64 * KIB
HTTP_HEADER_S: Final = 10.0
HTTP_BODY_GAP_S: Final = 30.0
HTTP_UNREAD_S: Final = 60.0  # a client that takes nothing of its answer for this long is cut off
HTTP_SOCKET_MESSAGE_BYTES: Final = 64 * KIB  # from a WebSocket client, which only subscribes
HTTP_CONNECTIONS: Final = 2048
HTTP_STOP_S: Final = 3  # open requests get this long when the service stops
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 1000
FILTERED_PAGE_MAX: Final = 100
FRAME_BYTES: Final = 1_000_000  # of an event as clients and webhooks get it; bodies are left out above (clients stop at 1 MiB)
DOWNLOAD_URL_S: Final = 3600
IDEMPOTENCY_S: Final = 24 * 3600

# WebSocket at /v0.
SOCKET_SUBSCRIPTIONS: Final = 100
SOCKET_SCOPE_IDS: Final = 100  # inboxes or types named in one subscription
SOCKET_PING_S: Final = 20.0
SOCKET_SEND_S: Final = 10.0  # a client that takes nothing for so long is dropped
SOCKET_CLOSE_S: Final = 5.0  # to read the reason, then the connection is cut

# Webhooks.
WEBHOOKS: Final = 50
WEBHOOK_SCOPES: Final = 10  # inboxes and pods of one webhook
WEBHOOK_HEADERS: Final = 50
WEBHOOK_ANSWER_S: Final = 15.0
WEBHOOK_ROTATION_S: Final = 24 * 3600  # the earlier secret still signs for so long
WEBHOOK_FAILING_S: Final = 5 * 24 * 3600  # only failures for so long: disabled
WEBHOOK_KEPT_S: Final = 30 * 24 * 3600  # settled deliveries stay visible for so long

# Attachments given by URL.
ATTACHMENT_URLS: Final = 20  # in one mail
ATTACHMENT_FETCHES: Final = 4  # at once, of all callers; each may hold a mail's bytes
ATTACHMENT_FETCH_S: Final = 30.0  # for one, from its name to its last byte

# Labels and names (AgentMail API).
LABEL_CHARS: Final = 256
LABELS: Final = 256
FILTER_ENTRIES: Final = 20  # of one kind (labels, senders, …) in one listing
DISPLAY_NAME_CHARS: Final = 256
KEY_CHARS: Final = 256

# Mailbox.
MAILBOX_TEXT_BYTES: Final = 64 * KIB
MAILBOX_ATTACHMENT_BYTES: Final = 4 * MIB
MAILBOX_ATTACHMENTS: Final = 16
MAILBOX_WAITS: Final = 5000  # readers parked at once
MAILBOX_BEAT_S: Final = 20.0  # between two signs of life on a stream

# Store.
BLOB_INLINE_BYTES: Final = 64 * KIB

# Sessions.
WAKES_PER_HOUR: Final = 60  # per inbox
SESSION_TURN_S: Final = 900.0

# Access.
SESSION_TOKEN_S: Final = 6 * 3600  # of a session's child process; revoked when it ends
REMEMBERED_KEYS: Final = 4096
