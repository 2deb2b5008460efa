"""Webhook secrets and signatures, after Svix and Standard Webhooks.

`v1` is HMAC-SHA256 over `id.timestamp.body` with the bytes behind `whsec_`. The headers go out under
both families of names. While a secret is being replaced, one signature per secret, apart by a space.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 24


def new_webhook_secret() -> str:
    """`whsec_` and 24 random bytes."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signature_headers(delivery_id: str, at_s: int, body: bytes, keys: Sequence[str]) -> dict[str, str]:
    """The headers that prove where `body` comes from."""
    signatures = " ".join(f"v1,{_sign(key, b'%b.%d.%b' % (delivery_id.encode(), at_s, body))}" for key in keys)
    facts = {"id": delivery_id, "timestamp": str(at_s), "signature": signatures}
    return {f"{family}-{name}": value for family in ("svix", "webhook") for name, value in facts.items()}


def _sign(key: str, content: bytes) -> str:
    return base64.b64encode(hmac.digest(base64.b64decode(key.removeprefix(_PREFIX)), content, hashlib.sha256)).decode()
