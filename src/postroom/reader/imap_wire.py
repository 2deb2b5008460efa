"""A connection to a person's IMAP server: TLS with a verified certificate, for reading, bounded in bytes and time.

The host is the account's identity: referrals are ignored. The library is blocking, so each call is one
connection in a thread, given up with its caller. What the server says in words is not repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

from postroom.config import ReaderAccount
from postroom.errors import Invalid
from postroom.reader import faults

T = TypeVar("T")


class _TooLarge(Exception):
    """The server sent more than the bound."""


class ImapWire:
    """Opens connections to one account's server."""

    def __init__(
        self,
        account: ReaderAccount,
        *,
        secret: Callable[[str], str],
        max_bytes: int,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._account = account
        self._secret = secret
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._tls = tls

    async def run(self, operation: str, work: Callable[[Any], T]) -> T:
        """`work` on a fresh connection, logged in; every failure is a `MAIL_…` error."""
        opened: list[Any] = []
        try:
            return await asyncio.to_thread(self._told, operation, work, opened)
        except asyncio.CancelledError:
            for box in opened:
                with contextlib.suppress(OSError):
                    box.shutdown()
            raise

    def _told(self, operation: str, work: Callable[[Any], T], opened: list[Any]) -> T:
        try:
            from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError
        except ModuleNotFoundError:
            raise faults.extra_missing("imap") from None
        try:
            return self._connected(work, opened)
        except LoginError:
            raise faults.login_failed("imap", "login") from None
        except _TooLarge:
            raise faults.response_too_large("imap", operation) from None
        except TimeoutError:
            raise faults.timed_out("imap", operation) from None
        except (OSError, IMAPClientAbortError):
            raise faults.connection_failed("imap", operation) from None
        except (IMAPClientError, LookupError, TypeError, ValueError, RecursionError):
            raise faults.response_invalid("imap", operation) from None

    def _connected(self, work: Callable[[Any], T], opened: list[Any]) -> T:
        password = self._password()
        box = self._open()
        opened.append(box)
        try:
            box.login(self._account.user, password)
            return work(box)
        finally:
            with contextlib.suppress(Exception):  # the answer is in hand, or the error that matters on its way
                box.logout()
            with contextlib.suppress(Exception):
                box.shutdown()  # a connection that could not say goodbye is closed all the same

    def _open(self) -> Any:
        from imapclient import IMAPClient, SocketTimeout

        box = IMAPClient(
            self._account.host,
            port=self._account.port,
            ssl=True,
            ssl_context=self._tls or ssl.create_default_context(),
            timeout=SocketTimeout(connect=self._timeout_s, read=self._timeout_s),
        )
        box.normalise_times = False
        _bound(box, self._max_bytes)
        return box

    def _password(self) -> str:
        try:
            return self._secret(self._account.password)
        except Invalid:
            raise faults.credential_missing(self._account.id, "password") from None


def _bound(box: Any, most: int) -> None:
    """Count what the server sends; neither a literal nor an endless run of lines passes `most` bytes."""
    wire, left = box._imap, most  # noqa: SLF001 - the library has no bound of its own, and no other place to put one
    read, readline = wire.read, wire.readline

    def counted(data: bytes) -> bytes:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise _TooLarge
        return data

    def bounded_read(size: int) -> bytes:
        if size > left:
            raise _TooLarge
        return counted(read(size))

    wire.read, wire.readline = bounded_read, lambda: counted(readline())
