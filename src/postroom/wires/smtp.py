"""Outbound SMTP to the configured relay, on aiosmtplib.

The receiver gets exactly the bytes it is given: only lines of 7-bit text ending in CR LF pass, and
dots are doubled here (RFC 5321 §4.5.2). Every address is parsed again before it reaches a command.
A failure says what the outbox must know: nothing was taken (`temporary`, `permanent`), or the final
dot was sent and the answer never came (`uncertain`). What the relay says is a stranger's text: cut
short, cleaned, and kept apart from our own words.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import aiosmtplib
from aiosmtplib import SMTPException, SMTPResponse, SMTPResponseException

from postroom import config
from postroom.errors import Invalid, TransportFailure
from postroom.mime.addresses import parse_address

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_REPLY_CHARS = 200
_LONE_LINE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n")
_FOREIGN = re.compile(rb"[\x00\x80-\xff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why one recipient was not taken. `text` is the relay's, cleaned and cut; `code` its SMTP code."""

    code: int
    text: str
    permanent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayResult:
    """`accepted`: the relay has the mail for these. `refused`: not for these, each for its reason."""

    accepted: tuple[str, ...]
    refused: Mapping[str, Rejection] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for the relay, in seconds (RFC 5321 §4.5.3.2)."""

    connect_s: float = 30.0
    command_s: float = 120.0
    final_s: float = 600.0
    goodbye_s: float = 2.0


class Relay:
    """One relay, from `[relay]`. `secret` turns the password's reference into the password."""

    def __init__(
        self,
        settings: config.Relay,
        hostname: str,
        secret: Callable[[str], str] = config.resolve_secret,
        *,
        tls_context: ssl.SSLContext | None = None,
        patience: Patience | None = None,
    ) -> None:
        if settings.tls == "off" and settings.host not in _LOOPBACK:
            raise Invalid('relay.tls = "off" is allowed to a loopback relay only', fix='set relay.tls = "starttls"')
        self._settings = settings
        self._hostname = hostname
        self._secret = secret
        self._tls_context = tls_context
        self._patience = patience or Patience()

    async def deliver(self, mail_from: str, rcpt_to: Iterable[str], raw: bytes) -> RelayResult:
        """Give one mail to the relay; `mail_from` "" is the null sender. Raises only `TransportFailure`."""
        _require_clean(raw)
        sender = _command_address(mail_from) if mail_from else ""
        if isinstance(sender, Rejection):
            raise TransportFailure(f"the sender is not a mail address: {sender.text}", kind="permanent")
        forms = {address: _command_address(address) for address in rcpt_to}
        refused = {address: form for address, form in forms.items() if isinstance(form, Rejection)}
        recipients = {address: form for address, form in forms.items() if isinstance(form, str)}
        accepted: list[str] = []
        if recipients:
            async with self._session() as client:
                await self._mail(client, sender, len(raw))
                for address, form in recipients.items():
                    reply = await _ask(client, "RCPT", f"TO:<{form}>")
                    if reply.code in (250, 251):
                        accepted.append(address)
                    else:
                        refused[address] = _rejection(reply)
                if accepted:
                    await self._data(client, raw)
        return RelayResult(accepted=tuple(accepted), refused=refused)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[aiosmtplib.SMTP]:
        """A greeted, encrypted, logged-in connection. What goes wrong inside before the final dot is `temporary`."""
        client = aiosmtplib.SMTP(
            hostname=self._settings.host,
            port=self._settings.port,
            local_hostname=self._hostname,
            timeout=self._patience.command_s,
            use_tls=self._settings.tls == "implicit",
            start_tls=self._settings.tls == "starttls",
            tls_context=self._tls_context,
        )
        try:
            await client.connect(timeout=self._patience.connect_s)
            if self._settings.user:
                await client.login(self._settings.user, self._secret(self._settings.password))
            await self._greet(client)
            yield client
        except (SMTPException, OSError) as problem:
            raise self._failure(problem) from problem
        except Invalid as problem:  # the password's reference leads nowhere
            raise TransportFailure(problem.message, kind="temporary", fix=problem.fix) from None
        finally:
            await self._leave(client)

    async def _greet(self, client: aiosmtplib.SMTP) -> None:
        if client.is_ehlo_or_helo_needed:
            try:
                await client.ehlo()
            except aiosmtplib.SMTPHeloError:
                await client.helo()

    async def _leave(self, client: aiosmtplib.SMTP) -> None:
        with contextlib.suppress(SMTPException, OSError):
            await client.quit(timeout=self._patience.goodbye_s)
        client.close()

    async def _mail(self, client: aiosmtplib.SMTP, sender: str, size: int) -> None:
        options = (f"SIZE={size}",) if client.supports_extension("size") else ()
        reply = await _ask(client, "MAIL", f"FROM:<{sender}>", *options)
        if reply.code != 250:
            raise _refusal("the sender", reply)

    async def _data(self, client: aiosmtplib.SMTP, raw: bytes) -> None:
        reply = await _ask(client, "DATA")
        if reply.code != 354:
            raise _refusal("to begin the mail", reply)
        reply = await self._hand_over(client, raw)
        if not 200 <= reply.code < 300:
            raise _refusal("the mail", reply)

    async def _hand_over(self, client: aiosmtplib.SMTP, raw: bytes) -> SMTPResponse:
        """All but the final dot leaves this process first, so that a loss before it is known to be harmless."""
        protocol, transport = client.protocol, client.transport
        if protocol is None or transport is None:
            raise aiosmtplib.SMTPServerDisconnected("connection lost")
        cast("asyncio.WriteTransport", transport).set_write_buffer_limits(high=0)  # uvloop's are no subclass of it
        stuffed = raw.replace(b"\r\n.", b"\r\n..")
        protocol.write(b"." + stuffed if raw.startswith(b".") else stuffed)
        async with asyncio.timeout(self._patience.final_s):
            await protocol._drain_helper()  # noqa: SLF001 - the name asyncio gives flow control; aiosmtplib has no other
        protocol.write(b".\r\n")
        try:
            reply = await protocol.read_response(timeout=self._patience.final_s)
        except SMTPException:
            reply = SMTPResponse(0, "")
        if not 200 <= reply.code < 600:
            message = f"{self._name} had the whole mail but gave no answer"
            raise TransportFailure(message, kind="uncertain", fix="it may have been delivered")
        return reply

    @property
    def _name(self) -> str:
        return f"the relay {self._settings.host}:{self._settings.port}"

    def _failure(self, problem: Exception) -> TransportFailure:
        """Nothing was taken. A wrong password or certificate is the owner's to repair, so the mail is kept for later."""
        if isinstance(problem, aiosmtplib.SMTPAuthenticationError):
            return _temporary(f"{self._name} refused the login", "check relay.user and relay.password", problem)
        if isinstance(problem, SMTPResponseException):
            return _temporary(f"{self._name} answered {problem.code}", None, problem)
        if isinstance(problem.__cause__ or problem, ssl.SSLError):
            return _temporary(
                f"{self._name} offers no TLS this machine trusts", "check relay.host, relay.tls and its certificate"
            )
        if isinstance(problem, TimeoutError):
            return _temporary(f"{self._name} did not answer in time")
        if isinstance(problem, aiosmtplib.SMTPConnectError):
            return _temporary(f"{self._name} cannot be reached", "check relay.host and relay.port")
        if isinstance(problem, OSError):
            return _temporary(f"the connection to {self._name} was lost")
        return _temporary(f"{self._name} cannot do what relay.tls and relay.user ask for", "check relay.tls, relay.user")


def _temporary(message: str, fix: str | None = None, reply: SMTPResponseException | None = None) -> TransportFailure:
    details = {} if reply is None else {"code": reply.code, "reply": _clean(reply.message)}
    return TransportFailure(message, kind="temporary", fix=fix, details=details)


async def _ask(client: aiosmtplib.SMTP, *words: str) -> SMTPResponse:
    return await client.execute_command(*(word.encode("ascii") for word in words))


def _refusal(what: str, reply: SMTPResponse) -> TransportFailure:
    kind = "permanent" if 500 <= reply.code < 600 else "temporary"
    details = {"code": reply.code, "reply": _clean(reply.message)}
    return TransportFailure(f"the relay refused {what} ({reply.code})", kind=kind, details=details)


def _rejection(reply: SMTPResponse) -> Rejection:
    return Rejection(code=reply.code, text=_clean(reply.message), permanent=500 <= reply.code < 600)


def _clean(text: str) -> str:
    """One short line of printable ASCII."""
    line = " ".join(text[: 4 * _REPLY_CHARS].split())
    return re.sub(r"[^\x20-\x7e]", "?", line)[:_REPLY_CHARS]


def _command_address(address: str) -> str | Rejection:
    """The address as it goes into a command: checked, without a display name, its domain in ASCII."""
    try:
        return parse_address(address).canonical
    except Invalid as problem:
        return Rejection(code=553, text=problem.message, permanent=True)


def _require_clean(raw: bytes) -> None:
    if not raw.endswith(b"\r\n") or _LONE_LINE_END.search(raw) or _FOREIGN.search(raw):
        raise TransportFailure("only 7-bit mail whose lines end in CR LF can leave", kind="permanent")
