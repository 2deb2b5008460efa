"""What types alone cannot say of a config: values that contradict each other, mean nothing or could do harm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields

from postroom.config.shapes import Agent, Config, Office, Reader, ReaderAccount, Relay
from postroom.errors import Invalid

_NAME_SERVER = re.compile(r"(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:]+\]):\d{1,5}")

# Where 0 would mean "never ends", "never shows" or "always": a slip, not a wish.
_NEVER_ZERO = (
    "office.timeout_s", "gate.expires_h", "view.max_body_chars", "inbound.poll_interval_s", "sessions.max_live",
    "sessions.followup_sweep_s", "mailbox.stream_limit", "reader.max_result_chars",
    "reader.max_provider_response_bytes", "reader.max_raw_body_chars", "reader.max_normalized_body_chars",
    "reader.authorization_timeout_s", "reader.request_timeout_s",
)  # fmt: skip
# What an agent may be told of; failures it is told of anyway.
INBOUND_EVENTS = (
    "message.received", "message.received.spam", "message.received.blocked", "message.received.unauthenticated",
    "message.bounced", "message.complained", "message.rejected",
)  # fmt: skip
_EXPIRES_H = 87600
_LABEL = r"(?!-)[\w-]{1,63}(?<!-)"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def check(config: Config) -> None:
    """Raises `Invalid` for the first value that cannot be meant."""
    _check_relay(config.relay)
    _check_office(config.office)
    if config.gate.expires_h > _EXPIRES_H:
        raise Invalid(f"gate.expires_h must be at most {_EXPIRES_H}, ten years")
    for name in _NEVER_ZERO:
        section, _, key = name.partition(".")
        if not getattr(getattr(config, section), key):
            raise Invalid(f"{name} must be more than 0")
    for name, agent in config.agents.items():
        _check_agent(agent, f"agents.{name}")
    if config.store.url and not config.store.url.startswith(("postgresql://", "postgres://")):
        raise Invalid("store.url must be empty or start with postgresql://")
    if config.inbound.dns not in ("off", "system") and not _NAME_SERVER.fullmatch(config.inbound.dns):
        raise Invalid('inbound.dns must be "off", "system" or the address of a name server', fix="for example 192.0.2.53:53")
    for kind in config.inbound.event_types:
        if kind not in INBOUND_EVENTS:
            raise Invalid(f"inbound.event_types: {kind!r} is none of {', '.join(INBOUND_EVENTS)}")
    _check_reader(config.reader)


def _check_relay(relay: Relay) -> None:
    if relay.host and relay.tls == "off" and relay.host not in ("127.0.0.1", "::1", "localhost"):
        raise Invalid('relay.tls = "off" is allowed to a loopback relay only', fix='set relay.tls = "starttls"')
    if not 1 <= relay.port <= 65535:
        raise Invalid("relay.port must be between 1 and 65535")


def _check_office(office: Office) -> None:
    _check_hosted(office)
    for name in ("webhook_hosts", "attachment_hosts"):
        for entry in getattr(office, name):
            _check_host(name, entry)
    if not office.domains:
        raise Invalid("office.domains must name at least one domain")
    for domain in office.domains:
        if not _DOMAIN.fullmatch(domain):
            raise Invalid(f"office.domains: {domain!r} is not a domain", fix='for example "agents.example.org"')


def _check_host(name: str, entry: str) -> None:
    host, _, port = entry.rpartition(":")
    if not host or not port.isdigit() or entry != entry.lower() or (":" in host and not host.startswith("[")):
        raise Invalid(f"office.{name} takes host:port in lower case", fix='for example "127.0.0.1:3000" or "[::1]:3000"')


def _check_agent(agent: Agent, at: str) -> None:
    if agent.turn_s == 0:
        raise Invalid(f"{at}.turn_s must be more than 0")
    if agent.host == "acp" and not agent.command:
        raise Invalid(f"{at}.command is required: what to start", fix='for example ["opencode", "acp"]')


_ORIGIN = re.compile(r"https://([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|\[[0-9A-Fa-f:]+\])(:\d{1,5})?/?")
_LOOPBACK_ORIGIN = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(:\d{1,5})?/?")


def _check_hosted(office: Office) -> None:
    """The key goes where `url` says and nowhere else, so `url` is an origin and nothing more."""
    if not office.url:
        return
    if not (_ORIGIN.fullmatch(office.url) or _LOOPBACK_ORIGIN.fullmatch(office.url)):
        raise Invalid(
            "office.url is https://HOST or https://HOST:PORT and no more; http:// is for loopback",
            fix='for example "https://api.agentmail.to"',
        )
    if office.key.partition(":")[0] not in ("env", "file", "keyring"):
        raise Invalid("office.key is given by reference", fix="write env:NAME, file:PATH or keyring:NAME")


# What each provider's account may and must say; every other key of an account is an error there.
_ACCOUNT_KEYS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "gmail": (frozenset({"client_id", "client_secret"}), frozenset({"client_id"})),
    "outlook": (frozenset({"client_id", "client_secret", "tenant"}), frozenset({"client_id"})),
    "imap": (frozenset({"host", "port", "user", "password"}), frozenset({"host", "user", "password"})),
}
_REFERENCES = ("client_id", "client_secret", "password")
_ACCOUNT_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TENANT = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*|[0-9A-Fa-f:]+")


def _check_reader(reader: Reader) -> None:
    if not 1 <= reader.default_limit <= reader.max_limit:
        raise Invalid("reader.default_limit must be between 1 and reader.max_limit")
    if reader.timezone:
        import zoneinfo

        try:
            zoneinfo.ZoneInfo(reader.timezone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise Invalid("reader.timezone names no time zone", fix="for example Europe/Berlin, or empty") from None
    seen: set[str] = set()
    for index, account in enumerate(reader.accounts):
        _check_account(account, f"reader.accounts[{index}]")
        if account.id in seen:
            raise Invalid(f"reader.accounts[{index}].id: there are two accounts {account.id}")
        seen.add(account.id)


def _check_account(account: ReaderAccount, at: str) -> None:
    if len(account.id) > 64 or not _ACCOUNT_ID.fullmatch(account.id):
        raise Invalid(f"{at}.id must be lower-case letters and digits, joined by single hyphens")
    may, must = _ACCOUNT_KEYS[account.provider]
    for entry in fields(account):
        given = getattr(account, entry.name)
        if entry.name in ("id", "provider", "address"):
            continue
        if entry.name not in may and given != entry.default:
            raise Invalid(f"{at}.{entry.name} has no meaning for {account.provider}")
        if entry.name in must and not given:
            raise Invalid(f"{at}.{entry.name} is required for {account.provider}")
        if entry.name in _REFERENCES and given and given.partition(":")[0] not in ("env", "file", "keyring"):
            raise Invalid(f"{at}.{entry.name} is given by reference", fix="write env:NAME, file:PATH or keyring:NAME")
    if not _TENANT.fullmatch(account.tenant):
        raise Invalid(f"{at}.tenant must be common, organizations, consumers, a tenant's id or its domain")
    if account.host and not _HOST.fullmatch(account.host):
        raise Invalid(f"{at}.host must be a host name or an address")
    if not 1 <= account.port <= 65535:
        raise Invalid(f"{at}.port must be between 1 and 65535")
