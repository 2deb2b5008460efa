"""A reader over local peers: what the house's wiring does, with another table of destinations."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postroom.config import Reader as Settings
from postroom.config import ReaderAccount
from postroom.errors import Invalid
from postroom.model.principal import Kind, Principal
from postroom.reader.endpoints import Endpoints
from postroom.reader.grants import Grant, Grants, client_tag
from postroom.reader.reader import Reader
from postroom.safety.redact import Redactor
from postroom.testing import FakeClock

OWNER = Principal(kind=Kind.OWNER)
AGENT = Principal(kind=Kind.AGENT, agent_id="agt_1", name="scout")
CLIENT_ID, CLIENT_SECRET = "client-id-of-the-test", "client-secret-of-the-test"
SECRETS = {"env:ID": CLIENT_ID, "env:SECRET": CLIENT_SECRET, "env:PASSWORD": "imap-password"}
GMAIL = ReaderAccount(id="personal-gmail", provider="gmail", client_id="env:ID", client_secret="env:SECRET")
OUTLOOK = ReaderAccount(id="work-outlook", provider="outlook", client_id="env:ID")


@dataclass
class Allowed:
    """Permissions in memory."""

    accounts: dict[str, frozenset[str]] = field(default_factory=dict)

    def accounts_of(self, principal: Principal) -> frozenset[str]:
        return self.accounts.get(principal.agent_id or "", frozenset())


@dataclass
class Noted:
    """A read log in memory."""

    refs: list[str] = field(default_factory=list)

    async def record(self, principal: Principal, refs: Sequence[str]) -> None:
        self.refs += refs


def local(url: str) -> Mapping[str, Endpoints]:
    """Every destination at one local peer."""
    return {
        "gmail": Endpoints(
            authorize=f"{url}/o/oauth2/v2/auth", token=f"{url}/oauth2/token", device="", api=f"{url}/gmail/v1/users/me"
        ),
        "outlook": Endpoints(
            authorize=f"{url}/{{tenant}}/oauth2/v2.0/authorize",
            token=f"{url}/{{tenant}}/oauth2/v2.0/token",
            device=f"{url}/{{tenant}}/oauth2/v2.0/devicecode",
            api=f"{url}/v1.0/me",
        ),
    }


@dataclass
class Kit:
    reader: Reader
    grants: Grants
    clock: FakeClock
    log: Noted
    allowed: Allowed
    redactor: Redactor
    secrets: dict[str, str]


def kit(folder: Path, url: str, *accounts: ReaderAccount, secrets: Mapping[str, str] = SECRETS, **settings: Any) -> Kit:
    """A reader of `accounts` whose destinations are all at `url`."""
    clock, log, allowed, redactor = FakeClock(), Noted(), Allowed(), Redactor()
    grants = Grants(folder / "reader", bytes(32), lambda: None)
    known = dict(secrets)
    reader = Reader(
        Settings(accounts=accounts or (GMAIL,), timezone="UTC", **settings),
        folder=folder / "reader",
        key=bytes(32),
        permissions=allowed,
        read_log=log,
        redactor=redactor,
        clock=clock,
        endpoints=local(url),
        grants=grants,
        secret=lambda reference: resolved(reference, known),
    )
    return Kit(reader, grants, clock, log, allowed, redactor, known)


async def granted(made: Kit, account: ReaderAccount = GMAIL, refresh_token: str = "refresh-1") -> None:
    """As if the person had authorized the account."""
    tag = client_tag(CLIENT_ID, account.tenant)
    await made.grants.save(account.id, Grant(provider=account.provider, client=tag, refresh_token=refresh_token))


def resolved(reference: str, known: Mapping[str, str]) -> str:
    if reference and reference not in known:
        raise Invalid("this reference leads nowhere")
    return known[reference] if reference else ""


def coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def gmail_message(number: int | str, *, text: str = "Hello", kind: str = "text/plain", **headers: str) -> dict[str, Any]:
    """A message as `messages.get?format=full` tells it."""
    named = {"From": "Ada <ada@customer.example>", "To": "me@example.test", "Subject": f"Mail {number}", **headers}
    return {
        "id": f"m{number}",
        "threadId": f"t{number}",
        "internalDate": "1767225600000",
        "sizeEstimate": 1000,
        "payload": {
            "mimeType": kind,
            "filename": "",
            "headers": [{"name": name, "value": value} for name, value in named.items()],
            "body": {"size": len(text), "data": coded(text)},
        },
    }
