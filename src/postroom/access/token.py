"""The form of a token: `am_<key id>_<secret>`. The id finds the row, the secret's hash proves it."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from postroom import ids
from postroom.errors import Unauthorized

PREFIX = "am_"
_FORM = re.compile(r"am_(key_[0-9a-f]{32})_([0-9a-f]{48})", re.ASCII)
_FIX = "send the header Authorization: Bearer am_…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token taken apart. Its `repr` never shows the secret."""

    key_id: str
    secret_hash: bytes

    def proves(self, stored_hash: bytes) -> bool:
        """Whether its secret is the stored one; constant time."""
        return hmac.compare_digest(self.secret_hash, stored_hash)


def new_token() -> tuple[str, Token]:
    """A fresh token as text, and its parts."""
    text = f"{PREFIX}{ids.new_id(ids.KEY)}_{ids.new_secret()}"
    return text, read_token(text)


def read_token(text: str | None) -> Token:
    """The parts of a token. Raises `Unauthorized` for none at all, and for what is not one of ours."""
    if not text:
        raise Unauthorized("this needs a token", code="missing_authorization", fix=_FIX)
    if not text.startswith(PREFIX):
        raise Unauthorized("the token is not of this kind", code="invalid_token_type", fix=_FIX)
    form = _FORM.fullmatch(text)
    if form is None:
        raise unknown_key()
    return Token(key_id=form[1], secret_hash=hashlib.sha256(form[2].encode()).digest())


def unknown_key() -> Unauthorized:
    """The one answer for a key that never was, was revoked, has expired, or has another secret."""
    return Unauthorized(
        "the key is not known here",
        code="unknown_api_key",
        fix="use the token of `postroom agent add NAME`, or the owner's key in the data folder",
    )
