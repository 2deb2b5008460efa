"""Where a person's consent is kept: one grant per account, in the keyring if there is a working one, else
in a file of its own, encrypted (AES-256-GCM) and open to its owner only.

The file is always there: it holds the grant, or says that the keyring does, so the place is remembered
and never guessed anew. A grant is bound to its account, provider and client: under another it is as if
it were not there, so a changed config cannot send one provider's token to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

_IN_KEYRING: Final = b"keyring\n"
_MAGIC: Final = b"postroom-grant-1\n"
_NONCE_BYTES: Final = 12
_KEYRING_S: Final = 10.0
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What an authorization left us with. `client` is a hash of the client it was made for."""

    provider: str
    client: str
    refresh_token: str
    scope: str = ""
    granted_at: int = 0

    def __repr__(self) -> str:
        return f"Grant(provider={self.provider!r})"  # a token must not reach a log by way of a traceback


def client_tag(client_id: str, tenant: str) -> str:
    """What a grant is bound to, without being it."""
    return hashlib.sha256(f"{tenant}\n{client_id}".encode()).hexdigest()[:16]


def working_keyring() -> Any | None:
    """The platform's keyring, if it is installed and has a real backend."""
    try:
        import keyring
    except ImportError:
        return None
    try:
        backend = keyring.get_keyring()
        return backend if float(backend.priority) > 0 else None
    except Exception:  # noqa: BLE001 - a backend may fail in any way while it is only asked whether it works
        return None


class Grants:
    """The grants of one house. `key` has 32 bytes; `open_keyring` finds the keyring, on first use."""

    def __init__(self, folder: Path, key: bytes, open_keyring: Callable[[], Any | None] = working_keyring) -> None:
        self._folder = folder
        self._key = key
        self._open_keyring = open_keyring
        self._unsaved: dict[str, Grant] = {}  # what no store would take is still worth keeping while we live

    def has(self, account: str) -> bool:
        """Whether there is a grant, without opening it."""
        return account in self._unsaved or self._path(account).exists()

    async def load(self, account: str) -> Grant | None:
        """The grant, or None where there is none that can be read."""
        if account in self._unsaved:
            return self._unsaved[account]
        content = await self._bounded(self._read, account)
        try:
            return msgspec.json.decode(content, type=Grant) if content else None
        except msgspec.MsgspecError:
            return None

    async def save(self, account: str, grant: Grant) -> None:
        """Keep the grant. Never loses it: what cannot be stored is kept in memory, and the log says so."""
        self._unsaved[account] = grant
        if await self._bounded(self._write, account, msgspec.json.encode(grant)):
            self._unsaved.pop(account, None)
        else:
            log.error("grant_not_stored", account=account)

    async def forget(self, account: str) -> bool:
        """Delete the grant everywhere; True when there was one."""
        there = self.has(account)
        self._unsaved.pop(account, None)
        await self._bounded(self._delete, account)
        return there

    async def _bounded(self, work: Callable[..., Any], *given: Any) -> Any:
        """Run `work` in a thread; a keyring that asks a person who is not there must not hold us up."""
        try:
            async with asyncio.timeout(_KEYRING_S):
                return await asyncio.to_thread(work, *given)
        except TimeoutError:
            return None

    def _read(self, account: str) -> bytes | None:
        try:
            content = self._path(account).read_bytes()
            if content == _IN_KEYRING:
                kept = self._keyring_call("get_password", account)
                return kept.encode() if isinstance(kept, str) else None
            return self._open(account, content)
        except OSError:
            return None

    def _write(self, account: str, content: bytes) -> bool:
        try:
            if self._keyring_call("set_password", account, content.decode()) is not _FAILED:
                self._replace(account, _IN_KEYRING)
            else:
                self._replace(account, self._seal(account, content))
        except OSError:
            return False
        return True

    def _delete(self, account: str) -> None:
        path = self._path(account)
        with contextlib.suppress(OSError):
            if path.read_bytes() == _IN_KEYRING:
                self._keyring_call("delete_password", account)
        path.unlink(missing_ok=True)

    def _keyring_call(self, verb: str, account: str, *more: str) -> Any:
        backend = self._open_keyring()
        if backend is None:
            return _FAILED
        try:
            return getattr(backend, verb)("postroom", f"mail-reader/{account}@{self._house}", *more)
        except Exception:  # noqa: BLE001 - backends raise errors of many libraries; a file does as well
            return _FAILED

    @property
    def _house(self) -> str:
        return hashlib.sha256(self._key).hexdigest()[:8]  # two houses of one person share a keyring, not an entry

    def _path(self, account: str) -> Path:
        return self._folder / f"{account}.grant"

    def _seal(self, account: str, content: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _MAGIC + nonce + AESGCM(self._key).encrypt(nonce, content, account.encode())

    def _open(self, account: str, sealed: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        body = sealed.removeprefix(_MAGIC)
        try:
            return AESGCM(self._key).decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], account.encode())
        except (InvalidTag, ValueError):
            return None

    def _replace(self, account: str, content: bytes) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._path(account)
        fresh = path.with_suffix(f".{secrets.token_hex(4)}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


_FAILED: Final = object()
