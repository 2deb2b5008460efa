"""What an approval binds to: one SHA-256 over everything that would leave.

For an office of our own that is the envelope and the exact bytes; for a hosted one, where the bytes
are made elsewhere, the canonical request. Every field is framed by its length, so no two different
mails can yield the same input, and a version tag keeps old digests from meaning something new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from postroom.model.request import Outbound

_BYTES_TAG = b"postroom-outgoing-bytes-1"
_REQUEST_TAG = b"postroom-outgoing-request-1"


def digest_bytes(mail_from: str, rcpt_to: Sequence[str], raw: bytes) -> str:
    """SHA-256 in hex over the tag, the sender, the sorted recipients and the mail's bytes."""
    recipients = sorted(rcpt_to)
    framed = [_BYTES_TAG, mail_from.encode(), str(len(recipients)).encode(), *(address.encode() for address in recipients), raw]
    return _hash(framed)


def digest_request(outbound: Outbound) -> str:
    """SHA-256 in hex over the canonical request; attachments enter by the hash of their bytes."""
    canonical = json.dumps(_plain(outbound), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _hash([_REQUEST_TAG, canonical.encode("utf-8", "surrogatepass")])


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        return {"sha256": hashlib.sha256(value).hexdigest(), "size": len(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value
