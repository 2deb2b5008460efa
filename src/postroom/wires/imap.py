"""A connection to an IMAP server: TLS with a verified certificate, bounded in bytes and time.

The host decides: referrals are ignored. The library is blocking, so each call is one connection in a
thread, given up with its caller. A failure says its kind and carries no text of the server's.
IMAPClient is loaded by the first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Reason = Literal["login", "too_large", "timeout", "connection", "invalid", "not_installed"]


class ImapFailure(Exception):
    """No usable answer, and why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class ImapWire:
    """Opens connections to one mailbox. `password` is asked for each of them. `tls` replaces the public authorities."""

    def __init__(
        self,
        host: str,
        port: int,
        user: str,
        password: Callable[[], str],
        *,
        max_bytes: int,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = (host, port)
        self._user = user
        self._password = password
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._tls = tls

    async def run(self, work: Callable[[Any], T]) -> T:
        """`work` on a fresh connection, logged in. Raises `ImapFailure`, or what `work` raised of its own."""
        opened: list[Any] = []
        try:
            return await asyncio.to_thread(self._told, work, opened)
        except asyncio.CancelledError:
            for box in opened:
                with contextlib.suppress(OSError):
                    box.shutdown()
            raise

    def _told(self, work: Callable[[Any], T], opened: list[Any]) -> T:
        try:
            from imapclient.exceptions import IMAPClientAbortError, IMAPClientError, LoginError
        except ModuleNotFoundError:
            raise ImapFailure("not_installed") from None
        try:
            return self._connected(work, opened)
        except LoginError:
            raise ImapFailure("login") from None
        except TimeoutError:
            raise ImapFailure("timeout") from None
        except (OSError, IMAPClientAbortError):
            raise ImapFailure("connection") from None
        except (IMAPClientError, LookupError, TypeError, ValueError, RecursionError):
            raise ImapFailure("invalid") from None

    def _connected(self, work: Callable[[Any], T], opened: list[Any]) -> T:
        password = self._password()
        box = self._open()
        opened.append(box)
        try:
            box.login(self._user, password)
            return work(box)
        finally:
            with contextlib.suppress(Exception):  # the answer is in hand, or the error that matters on its way
                box.logout()
            with contextlib.suppress(Exception):
                box.shutdown()  # a connection that could not say goodbye is closed all the same

    def _open(self) -> Any:
        from imapclient import IMAPClient, SocketTimeout

        host, port = self._address
        timeout = SocketTimeout(connect=self._timeout_s, read=self._timeout_s)
        box = IMAPClient(host, port=port, ssl=True, ssl_context=self._tls or ssl.create_default_context(), timeout=timeout)
        box.normalise_times = False
        _bound(box, self._max_bytes)
        return box


def _bound(box: Any, most: int) -> None:
    """Count what the server sends; neither a literal nor an endless run of lines passes `most` bytes."""
    wire, left = box._imap, most  # noqa: SLF001 - the library has no bound of its own, and no other place to put one
    read, readline = wire.read, wire.readline

    def counted(data: bytes) -> bytes:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise ImapFailure("too_large")
        return data

    def bounded_read(size: int) -> bytes:
        if size > left:
            raise ImapFailure("too_large")
        return counted(read(size))

    wire.read, wire.readline = bounded_read, lambda: counted(readline())
