"""Identifiers. AgentMail resources keep the contract's forms (UUIDs; a message is its Message-ID);
ours are a prefix and a UUIDv7 (RFC 9562 §5.7), so they sort by time.
"""

from __future__ import annotations

import os
import secrets
import time
import uuid

AGENT, OUTGOING, SESSION, EVENT, RECORD, KEY = "agt", "out", "ses", "evt", "rec", "key"


def uuid7() -> uuid.UUID:
    """A time-ordered UUID: 48 bits of milliseconds, 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return uuid.UUID(int=value)


def new_id(prefix: str) -> str:
    """One of postroom's own ids, e.g. `out_0192…` (prefix, underscore, 32 hex digits)."""
    return f"{prefix}_{uuid7().hex}"


def new_uuid() -> str:
    """A random UUID in its 36-character form, for AgentMail resources."""
    return str(uuid.uuid4())


def new_message_id(domain: str) -> str:
    """A Message-ID (RFC 5322 §3.6.4) whose characters are safe in a URL path."""
    return f"<{uuid7().hex}@{domain}>"


def new_secret() -> str:
    """192 random bits as 32 URL-safe characters without `_` or `-` at play in key parsing."""
    return secrets.token_hex(24)
