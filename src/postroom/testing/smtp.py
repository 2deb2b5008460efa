"""Both ends of SMTP for tests: a server that keeps exactly what it was sent, and a sender that changes nothing.

The server stands on aiosmtpd's own reading of a mail, not on postroom's, so that the two check each other.
"""

# ruff: noqa: N802 - aiosmtpd finds a hook by its method's name

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from postroom.limits import MAIL_BYTES

DROP: Final = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMail:
    """One mail as it arrived: the envelope, and the bytes with the transparency dots taken off."""

    mail_from: str
    rcpt_to: tuple[str, ...]
    raw: bytes


class SmtpSink:
    """A real SMTP server on loopback that accepts everything, unless told otherwise.

    `recipient_replies` maps an address to the reply its RCPT gets. `sender_reply` answers MAIL and
    `data_reply` answers the final dot ("" accepts; `DROP` closes the connection without a word, the
    mail kept in `mails`: what a crash between storing and answering looks like). All three may be
    changed while it runs. With `tls` it offers STARTTLS, or TLS from the first byte with `implicit`;
    with `users` (name to password) it offers AUTH once encrypted, and wants it.

        async with SmtpSink() as sink:
            ...  # send to sink.host, sink.port
            (mail,) = await sink.wait_for(1)
    """

    def __init__(
        self,
        *,
        recipient_replies: Mapping[str, str] | None = None,
        sender_reply: str = "",
        data_reply: str = "",
        tls: ssl.SSLContext | None = None,
        implicit: bool = False,
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.recipient_replies = dict(recipient_replies or {})
        self.sender_reply = sender_reply
        self.data_reply = data_reply
        self.mails: list[SinkMail] = []
        self.host, self.port = "127.0.0.1", 0
        self._tls, self._implicit, self._users = tls, implicit, users
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self, port: int = 0) -> tuple[str, int]:
        """Listen on 127.0.0.1; port 0 picks a free one. Returns the address."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, self.host, port, ssl=self._tls if self._implicit else None)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.host, self.port

    async def stop(self) -> None:
        """Close, connections too."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.cut()

    async def wait_for(self, count: int, timeout_s: float = 120.0) -> list[SinkMail]:
        """The mails, once there are `count` or more. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.mails) >= count)
        return list(self.mails)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.stop()

    def _connection(self) -> _Connection:
        return _Connection(self, self._connections, None if self._implicit else self._tls, self._users)

    async def keep(self, mail: SinkMail) -> None:
        """Record a mail."""
        async with self._arrived:
            self.mails.append(mail)
            self._arrived.notify_all()


class _Answers:
    """What aiosmtpd asks at each step."""

    def __init__(self, sink: SmtpSink, users: Mapping[str, str] | None) -> None:
        self._sink = sink
        self._users = users

    async def handle_MAIL(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        if self._users is not None and not session.authenticated:
            return "530 5.7.0 Authentication required"
        if self._sink.sender_reply:
            return self._sink.sender_reply
        envelope.mail_from = address
        return "250 2.1.0 OK"

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        reply = self._sink.recipient_replies.get(address, "250 2.1.5 OK")
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        reply = self._sink.data_reply
        if reply in ("", DROP) or reply.startswith("2"):
            await self._sink.keep(
                SinkMail(
                    mail_from=(envelope.mail_from or "").removeprefix("<>"),
                    rcpt_to=tuple(envelope.rcpt_tos),
                    raw=envelope.original_content or b"",
                )
            )
        if reply == DROP:
            assert server.transport is not None  # noqa: S101 - narrows the type
            server.transport.close()
            raise asyncio.CancelledError  # how aiosmtpd ends a conversation
        return reply or "250 2.0.0 OK"


class _Connection(SMTP):
    """aiosmtpd's server with room for long lines."""

    line_length_limit = MAIL_BYTES

    def __init__(
        self, sink: SmtpSink, everyone: set[_Connection], tls: ssl.SSLContext | None, users: Mapping[str, str] | None
    ) -> None:
        super().__init__(
            _Answers(sink, users),
            data_size_limit=2 * MAIL_BYTES,
            enable_SMTPUTF8=True,
            hostname="sink.example",
            tls_context=tls,
            auth_require_tls=tls is not None or users is None,
            authenticator=self._check,
            loop=asyncio.get_running_loop(),
        )
        self._users = users or {}
        self._everyone = everyone
        everyone.add(self)

    def _check(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object) -> AuthResult:
        good = isinstance(data, LoginPassword) and self._users.get(data.login.decode()) == data.password.decode()
        return AuthResult(success=good, handled=False)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._everyone.discard(self)

    def cut(self) -> None:
        if self.transport is not None:
            cast(asyncio.WriteTransport, self.transport).abort()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the server said: the reply to the final dot, and the recipients it did not take."""

    code: int
    text: str
    refused: Mapping[str, tuple[int, str]] = field(default_factory=dict)


def send_mail(host: str, port: int, mail_from: str, rcpt_to: Sequence[str], raw: bytes, *, timeout_s: float = 120.0) -> Sent:
    """Send `raw` by SMTP exactly as it is (CR LF is added only if it does not end in one).

    Raises `smtplib.SMTPSenderRefused`, `smtplib.SMTPRecipientsRefused` when no recipient was taken,
    and `smtplib.SMTPDataError` when the server refused the mail.
    """
    with smtplib.SMTP(host, port, local_hostname="sender.example", timeout=timeout_s) as client:
        client.ehlo_or_helo_if_needed()
        code, text = client.mail(mail_from)
        if code != 250:
            raise smtplib.SMTPSenderRefused(code, text, mail_from)
        refused = {}
        for address in rcpt_to:
            code, text = client.rcpt(address)
            if code not in (250, 251):
                refused[address] = (code, text.decode("utf-8", "replace"))
        if len(refused) == len(rcpt_to):
            raise smtplib.SMTPRecipientsRefused({address: (code, text.encode()) for address, (code, text) in refused.items()})
        code, text = client.docmd("DATA")
        if code != 354:
            raise smtplib.SMTPDataError(code, text)
        client.send(_on_the_wire(raw))
        code, text = client.getreply()
        if code != 250:
            raise smtplib.SMTPDataError(code, text)
        return Sent(code=code, text=text.decode("utf-8", "replace"), refused=refused)


def _on_the_wire(raw: bytes) -> bytes:
    """Dots doubled after CR LF only (smtplib's own way also doubles them after a bare LF, which changes the mail)."""
    stuffed = raw.replace(b"\r\n.", b"\r\n..")
    if stuffed.startswith(b"."):
        stuffed = b"." + stuffed
    return stuffed + (b".\r\n" if stuffed.endswith(b"\r\n") else b"\r\n.\r\n")
