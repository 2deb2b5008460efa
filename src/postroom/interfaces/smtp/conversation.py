"""One SMTP conversation (RFC 5321) on aiosmtpd's connection handling and command loop.

aiosmtpd owns the socket, the timer and the dispatch; here is what postroom answers: recipients it
knows and no others, no relaying, no TLS, its own limits, and `250` only after the intake has the mail
on disk. Who proved to have a key (AUTH) sends from its inbox to anybody, through the gate. A fault of
ours is always a temporary answer, so the sender keeps the mail.
"""

# ruff: noqa: N802 - aiosmtpd finds a command by its method's name

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import AnyStr, cast

import structlog
from aiosmtpd.smtp import SMTP

from postroom.errors import NotFound, PostroomError, Unauthorized
from postroom.interfaces.smtp.commands import BadCommand, Path, read_path, require_ascii, sender_size
from postroom.interfaces.smtp.house import House, Sender, reply_to
from postroom.interfaces.smtp.incoming import COMMAND_BYTES, BadLine, Incoming, MailRefused
from postroom.interfaces.smtp.sasl import MECHANISMS, read_credentials
from postroom.limits import RECIPIENTS_PER_SEND
from postroom.office.intake import Envelope

log = structlog.get_logger()

_PLAIN = re.compile(r"[245][0-9][0-9] (?![245]\.[0-9])")
_ENHANCED = {"221": "2.0.0", "250": "2.0.0", "500": "5.5.2", "501": "5.5.4"}
_PARAMETERS = ("SIZE", "BODY", "SMTPUTF8")
_BAD_KEYS = 5
_BAD_LINES = 20  # a peer that sends this many in one conversation is not speaking SMTP
_SHUTTING = "421 4.3.2 Shutting down"


@dataclass(slots=True)
class _Transaction:
    """What MAIL began (RFC 5321 §3.3). `recipients` keeps the order of RCPT and holds each address once."""

    mail_from: str
    utf8: bool
    recipients: dict[str, None] = field(default_factory=dict)


class Conversation(SMTP):
    """One peer, from greeting to goodbye. `on_end` is called once, when the connection is gone."""

    command_size_limit = COMMAND_BYTES

    def __init__(self, house: House, on_end: Callable[[Conversation], None]) -> None:
        super().__init__(
            _NoHooks(),
            enable_SMTPUTF8=True,  # lets aiosmtpd decode arguments; what may hold them is decided here
            hostname=house.hostname,
            ident="postroom",
            timeout=house.bounds.idle_s,
            loop=asyncio.get_running_loop(),
        )
        self._house = house
        self._on_end = on_end
        self._peer = ""
        self._greeted = self._extended = False
        self._transaction: _Transaction | None = None
        self._sender: Sender | None = None  # set by AUTH, for the rest of the conversation
        self._bad_lines = self._bad_keys = 0
        self._storing = self._leaving = False

    def __dir__(self) -> list[str]:
        return _COMMANDS

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])

    def _cb_client_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._incoming = Incoming(reader)
        super()._cb_client_connected(cast(asyncio.StreamReader, self._incoming), writer)

    def eof_received(self) -> bool | None:
        # What arrived before the peer closed its side is still answered, so aiosmtpd's cancelling is left out.
        return asyncio.StreamReaderProtocol.eof_received(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._on_end(self)

    def _timeout_cb(self) -> None:
        self.dismiss("421 4.4.2 Too slow, closing")

    def close_gently(self) -> None:
        """The house closes: a mail that is being stored gets its answer first, anything else ends now."""
        self._leaving = True
        if not self._storing:
            self.dismiss(_SHUTTING)

    def dismiss(self, reply: str) -> None:
        """Say `reply` and close; a peer that does not read is cut off."""
        transport = cast(asyncio.Transport | None, self.transport)
        if transport is None:
            return
        if transport.get_write_buffer_size():
            transport.abort()
            return
        transport.write(f"{reply}\r\n".encode("ascii"))
        transport.close()

    def cut_off(self) -> None:
        """Close at once."""
        if self.transport is not None:
            cast(asyncio.Transport, self.transport).abort()

    async def push(self, status: AnyStr) -> None:
        if isinstance(status, str) and _PLAIN.match(status):  # one of aiosmtpd's own; RFC 2034 wants a code in each
            code = status[:3]
            await super().push(f"{code} {_ENHANCED.get(code, code[0] + '.0.0')} {status[4:]}")
        else:
            await super().push(status)

    async def handle_exception(self, error: Exception) -> str:
        if not isinstance(error, BadLine):
            log.error("smtp_conversation_failed", exc_info=error)
            return "451 4.3.0 Something failed here, try again later"
        self._bad_lines += 1
        if self._bad_lines == _BAD_LINES:
            self.dismiss("421 4.7.0 Too many bad lines, closing")
        return f"500 5.5.2 {error}"

    # Greeting.

    async def smtp_HELO(self, hostname: str | None) -> None:
        if self._greet(hostname, extended=False):
            await super().push(f"250 {self.hostname}")
        else:
            await self.push("501 5.5.4 Syntax: HELO hostname")

    async def smtp_EHLO(self, hostname: str | None) -> None:
        if self._greet(hostname, extended=True):
            offers = [f"SIZE {self._house.bounds.mail_bytes}", "8BITMIME", "SMTPUTF8", "PIPELINING"]
            if self._house.submission is not None:
                offers.append(f"AUTH {' '.join(MECHANISMS)}")
            lines = [f"250-{line}" for line in (self.hostname, *offers)]
            await super().push("\r\n".join([*lines, "250 ENHANCEDSTATUSCODES"]))
        else:
            await self.push("501 5.5.4 Syntax: EHLO hostname")

    def _greet(self, hostname: str | None, *, extended: bool) -> bool:
        if not hostname or not hostname.isascii():
            return False
        self._transaction = None
        self._greeted, self._extended = True, extended
        return True

    # One mail.

    async def smtp_MAIL(self, arg: str | None) -> None:
        try:
            reply = self._mail(arg)
        except BadCommand as problem:
            reply = str(problem)
        await self.push(reply)

    def _mail(self, arg: str | None) -> str:
        if not self._greeted:
            return "503 5.5.1 Say EHLO first"
        if self._transaction is not None:
            return "503 5.5.1 A mail is already begun"
        known = _PARAMETERS if self._sender is None else (*_PARAMETERS, "AUTH")  # which decides nothing (RFC 4954 §5)
        path = read_path(arg, "FROM", known if self._extended else ())
        if sender_size(path) > self._house.bounds.mail_bytes:
            return f"552 5.3.4 A mail may have {self._house.bounds.mail_bytes} bytes"
        if self._sender is not None and path.address.lower() != self._sender.inbox_id:
            return "550 5.1.8 Send from the inbox whose key was given"
        self._transaction = _Transaction(path.address, "SMTPUTF8" in path.parameters)
        return "250 2.1.0 Sender ok"

    async def smtp_RCPT(self, arg: str | None) -> None:
        try:
            reply = self._rcpt(arg)
        except BadCommand as problem:
            reply = str(problem)
        await self.push(reply)

    def _rcpt(self, arg: str | None) -> str:
        if self._transaction is None:
            return "503 5.5.1 Say MAIL first"
        path = read_path(arg, "TO", ())
        require_ascii(path, utf8=self._transaction.utf8)
        most = self._house.bounds.recipients if self._sender is None else RECIPIENTS_PER_SEND
        if len(self._transaction.recipients) >= most:
            return "452 4.5.3 Too many recipients, send the rest in another mail"
        if self._sender is None and not self._house.intake.knows(path.address):
            return self._not_here(path)
        self._transaction.recipients[path.address] = None
        return "250 2.1.5 Recipient ok"

    def _not_here(self, path: Path) -> str:
        if not path.address:
            return "553 5.1.3 This is not an address"
        domain = path.address.rpartition("@")[2].lower()
        if "@" in path.address and domain not in self._house.domains:
            return "550 5.7.1 Relaying denied"
        return "550 5.1.1 No such inbox here"

    async def smtp_DATA(self, arg: str | None) -> None:
        transaction = self._transaction
        if transaction is None or arg:
            await self.push("501 5.5.4 Syntax: DATA" if arg else "503 5.5.1 Say MAIL first")
            return
        if not transaction.recipients:
            await self.push("554 5.5.1 No valid recipients")
            return
        await self.push("354 End data with <CR><LF>.<CR><LF>")
        self._reset_timeout(self._house.bounds.data_s)
        with self._house.memory.share() as room:
            reply = await self._receive(transaction, room)
        self._transaction = None
        self._reset_timeout()
        await self.push(reply)
        if self._leaving:
            self.dismiss(_SHUTTING)

    async def _receive(self, transaction: _Transaction, room: Callable[[int], bool]) -> str:
        bounds = self._house.bounds
        try:
            raw = await self._incoming.mail(size=bounds.mail_bytes, line=bounds.line_bytes, room=room)
        except MailRefused as problem:
            return str(problem)
        self._storing = True
        try:
            return await self._keep(transaction, raw)
        except PostroomError as problem:
            return reply_to(problem)
        except Exception:  # whatever it is, the peer must keep the mail
            log.exception("smtp_intake_failed")
            return "451 4.3.0 Something failed here, try again later"
        finally:
            self._storing = False

    async def _keep(self, transaction: _Transaction, raw: bytes) -> str:
        recipients = tuple(transaction.recipients)
        if self._sender is not None and self._house.submission is not None:
            return await self._house.submission.submit(self._sender, recipients, raw)
        envelope = Envelope(mail_from=transaction.mail_from, rcpt_to=recipients, peer=self._peer)
        result = await self._house.intake.accept(envelope, raw)
        return f"250 2.0.0 Message queued as {result.ids[0]}"

    async def smtp_RSET(self, arg: str | None) -> None:
        self._transaction = None
        await self.push("250 2.0.0 Ok")

    # Who is speaking.

    async def smtp_AUTH(self, arg: str | None) -> None:
        try:
            reply = await self._auth(arg)
        except BadCommand as problem:
            reply = str(problem)
        await self.push(reply)

    async def _auth(self, arg: str | None) -> str:
        desk = self._house.submission
        if desk is None:
            return "502 5.5.1 AUTH is not offered"
        if not self._extended:
            return "503 5.5.1 Say EHLO first"
        if self._sender is not None or self._transaction is not None:
            return "503 5.5.1 AUTH comes once, before MAIL"
        user, password = await read_credentials(arg, self._challenge)
        try:
            self._sender = await desk.admit(user, password, client=self._address("peername"), server=self._address("sockname"))
        except (Unauthorized, NotFound):
            self._bad_keys += 1
            if self._bad_keys == _BAD_KEYS:
                self.dismiss("421 4.7.0 Too many wrong keys, closing")
            return "535 5.7.8 The user is an inbox's address, the password a key that may use it"
        except PostroomError as problem:
            return reply_to(problem)
        return "235 2.7.0 Ok"

    async def _challenge(self, text: str) -> str:
        await super().push(f"334 {text}")
        self._reset_timeout()
        return (await self._incoming.readuntil()).decode("utf-8", "replace").strip()

    def _address(self, which: str) -> tuple[str, int] | None:
        found = cast(asyncio.Transport, self.transport).get_extra_info(which)
        return None if not found else (str(found[0]), int(found[1]))

    # Not offered here.

    async def smtp_STARTTLS(self, arg: str | None) -> None:
        await self.push("502 5.5.1 STARTTLS is not offered")

    async def smtp_EXPN(self, arg: str | None) -> None:
        await self.push("502 5.5.1 EXPN is not offered")

    async def smtp_VRFY(self, arg: str | None) -> None:
        await self.push("252 2.5.0 Send mail to find out" if arg else "501 5.5.4 Syntax: VRFY address")

    async def smtp_HELP(self, arg: str | None) -> None:
        await self.push("214 2.0.0 EHLO HELO MAIL RCPT DATA RSET NOOP VRFY QUIT")


# For each connection aiosmtpd lists every attribute of these two to find its commands and hooks: most of what one costs.


class _NoHooks:
    """aiosmtpd's handler, which has nothing to say here."""

    def __dir__(self) -> list[str]:
        return []


_COMMANDS = [name for name in vars(SMTP) | vars(Conversation) if name.startswith("smtp_")]
