"""One account opened: its provider and, where it has one, its authorization."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from postroom.clock import Clock
from postroom.config import Reader as Settings
from postroom.config import ReaderAccount
from postroom.errors import Invalid
from postroom.reader import faults
from postroom.reader.authorization import Flow
from postroom.reader.endpoints import Endpoints
from postroom.reader.exchange import Exchange
from postroom.reader.gmail import Gmail
from postroom.reader.grants import Grants
from postroom.reader.imap import Imap
from postroom.reader.oauth import OAuth
from postroom.reader.outlook import Outlook
from postroom.reader.remote import MailProvider
from postroom.reader.tokens import Tokens
from postroom.wires.imap import ImapWire
from postroom.wires.pinned import PinnedHttp

_READS = 4  # of one account at a time; the others wait their turn


@dataclass(slots=True, kw_only=True)
class Account:
    """`oauth`, `tokens`, `flow` and `http` are None for IMAP, which is opened with a password."""

    provider: MailProvider
    oauth: OAuth | None = None
    tokens: Tokens | None = None
    flow: Flow | None = None
    http: PinnedHttp | None = None
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READS))

    async def close(self) -> None:
        """End its connections."""
        if self.http is not None:
            await self.http.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every account needs of the house. `tls` is for tests, whose servers no public authority vouches for."""

    settings: Settings
    grants: Grants
    clock: Clock
    secret: Callable[[str], str]
    tls: ssl.SSLContext | None = None


def open_account(account: ReaderAccount, endpoints: Endpoints | None, around: Surroundings) -> Account:
    """The account; nothing is connected yet. `endpoints` is None for IMAP."""
    if endpoints is None:
        return Account(provider=_imap(account, around))
    settings = around.settings
    endpoints = endpoints.of_tenant(account.tenant)
    http = PinnedHttp(endpoints.allowed, max_bytes=settings.max_provider_response_bytes, timeout_s=settings.request_timeout_s)
    oauth = OAuth(account, endpoints, http, secret=around.secret, clock=around.clock, default_ttl_s=settings.access_token_ttl_s)
    tokens = Tokens(account.id, oauth, around.grants, around.clock)
    exchange = Exchange(provider=account.provider, account=account.id, base=endpoints.api, http=http, tokens=tokens)
    provider: MailProvider = Gmail(exchange) if account.provider == "gmail" else Outlook(exchange, endpoints.api)
    flow = Flow(oauth, tokens.keep, provider=account.provider, account=account.id, timeout_s=settings.authorization_timeout_s)
    return Account(provider=provider, oauth=oauth, tokens=tokens, flow=flow, http=http)


def _imap(account: ReaderAccount, around: Surroundings) -> MailProvider:
    settings = around.settings

    def password() -> str:
        try:
            return around.secret(account.password)
        except Invalid:
            raise faults.credential_missing(account.id, "password") from None

    wire = ImapWire(
        account.host,
        account.port,
        account.user,
        password,
        max_bytes=settings.max_provider_response_bytes,
        timeout_s=settings.request_timeout_s,
        tls=around.tls,
    )
    return Imap(wire, max_chars=settings.max_raw_body_chars, max_bytes=settings.max_provider_response_bytes)
