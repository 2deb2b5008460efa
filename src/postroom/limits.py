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
HTTP_CONNECTIONS: Final = 2048
HTTP_STOP_S: Final = 3  # open requests get this long when the service stops
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 1000
FILTERED_PAGE_MAX: Final = 100
DOWNLOAD_URL_S: Final = 3600
IDEMPOTENCY_S: Final = 24 * 3600

# Labels and names (AgentMail API).
LABEL_CHARS: Final = 256
LABELS: Final = 256
DISPLAY_NAME_CHARS: Final = 256
KEY_CHARS: Final = 256

# Mailbox.
MAILBOX_TEXT_BYTES: Final = 64 * KIB
MAILBOX_ATTACHMENT_BYTES: Final = 4 * MIB
MAILBOX_ATTACHMENTS: Final = 16

# Store.
BLOB_INLINE_BYTES: Final = 64 * KIB

# Sessions.
WAKES_PER_HOUR: Final = 60  # per inbox
SESSION_TURN_S: Final = 900.0

# Access.
SESSION_TOKEN_S: Final = 6 * 3600  # of a session's child process; revoked when it ends
REMEMBERED_KEYS: Final = 4096
