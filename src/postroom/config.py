"""One TOML file and the environment become one frozen `Config`.

Any key can be set as `POSTROOM_SECTION__KEY` (lists and tables as JSON). An unknown key is an
error naming the nearest known one. Secrets are references (`env:NAME`, `file:PATH`,
`keyring:NAME`), resolved where they are used and never echoed. Defaults are a promise (a test).
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from postroom.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """The agents' email. `url` empty = our own office; else AgentMail (or another postroom) there."""

    url: str = ""
    key: str = ""
    inbox: str = ""
    auto_create_inbox: bool = True
    timeout_s: float = 30
    max_retries: int = 2
    domains: tuple[str, ...] = ("postroom.localhost",)
    webhook_hosts: tuple[str, ...] = ()
    attachment_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """The mail server that takes outbound mail; `tls = "off"` is allowed to loopback only."""

    host: str = ""
    port: int = 587
    tls: Literal["starttls", "implicit", "off"] = "starttls"
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What may leave. `limit` not empty: anyone else is refused unasked.

    `bcc`: may agents name hidden recipients. The caps count what an agent asked to send within 24 hours; 0: no cap.
    """

    read_only: bool = False
    approval: Literal["always", "risk"] = "always"
    limit: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    expires_h: float = 24
    harness_approvals: Literal["auto", "on", "off"] = "auto"
    bcc: bool = False
    max_sends_per_day: int = 500
    max_new_recipients_per_day: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a model is shown of a body, in characters. `kingfisher`: that scanner too looks for secrets (an extra)."""

    max_body_chars: int = 8000
    kingfisher: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """How mail arrives, whether it wakes an idle session, and who says whether its sender is genuine.

    `authserv_id`: believe the Authentication-Results of the mail server in front that signs with this name.
    `dns`: "off", "system" or `HOST:PORT` of a name server: check SPF, DKIM and DMARC here.
    """

    mode: Literal["websocket", "poll", "off"] = "websocket"
    poll_interval_s: float = 30
    wake_idle_agent: bool = False
    event_types: tuple[str, ...] = ("message.received",)
    authserv_id: str = ""
    dns: str = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Sessions as a function of threads."""

    threads: bool = True
    prefix: str = "agentmail-"
    fallback_session: str = "agentmail-inbox"
    idle_dispose_s: float = 900
    max_live: int = 50
    followup_sweep_s: float = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent's settings; the agent itself is made by `postroom agent add`.

    `host`: "" (pull), "dsh", "acp" or "command"; `wake` unset means `inbound.wake_idle_agent`. What a host starts
    gets few names of our environment, and those in `environment`; a turn longer than `turn_s` is given up.
    """

    host: str = ""
    wake: bool | None = None
    profile: Literal["observer", "correspondent", "clerk"] = "correspondent"
    inbox: str = ""
    command: tuple[str, ...] = ()
    cwd: str = ""
    environment: tuple[str, ...] = ()
    turn_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """Mail between agents."""

    notify_command: tuple[str, ...] = ()
    max_records: int = 0
    max_age_days: float = 0
    max_bytes: int = 0
    max_sends_per_minute: int = 600
    stream_limit: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAccount:
    """One account a person lets agents read.

    `client_id`, `client_secret` and `password` are references. Nothing here can say where a request of
    Gmail or Outlook goes; an IMAP account *is* its host.
    """

    id: str
    provider: Literal["gmail", "outlook", "imap"]
    address: str = ""
    client_id: str = ""
    client_secret: str = ""
    tenant: str = "common"
    host: str = ""
    port: int = 993
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The read-only window on a person's mail."""

    enabled: bool = True
    accounts: tuple[ReaderAccount, ...] = ()
    timezone: str = ""
    default_limit: int = 10
    max_limit: int = 50
    max_result_chars: int = 60000
    max_provider_response_bytes: int = 16777216
    max_raw_body_chars: int = 100000
    max_normalized_body_chars: int = 20000
    access_token_ttl_s: float = 3000
    authorization_timeout_s: float = 300
    request_timeout_s: float = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """`url` empty = SQLite in the data folder; else `postgresql://…`."""

    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a person can set."""

    office: Office = field(default_factory=Office)
    relay: Relay = field(default_factory=Relay)
    gate: Gate = field(default_factory=Gate)
    view: View = field(default_factory=View)
    inbound: Inbound = field(default_factory=Inbound)
    sessions: Sessions = field(default_factory=Sessions)
    agents: Mapping[str, Agent] = field(default_factory=dict)
    mailbox: Mailbox = field(default_factory=Mailbox)
    reader: Reader = field(default_factory=Reader)
    store: Storage = field(default_factory=Storage)


def load(path: Path | None, environ: Mapping[str, str] | None = None) -> Config:
    """Read `path` (None: defaults) and the environment. Raises `Invalid` naming the key at fault."""
    document: dict[str, Any] = {}
    if path is not None:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Invalid(f"there is no config file at {path}", fix="check --config or POSTROOM_CONFIG") from None
        except OSError as problem:
            raise Invalid(f"{path} cannot be read: {problem.strerror}", fix="check --config or POSTROOM_CONFIG") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise Invalid(f"{path} is not valid TOML: {problem}") from None
    _overlay(document, os.environ if environ is None else environ)
    config: Config = _build(Config, document, "")
    _check(config)
    return config


def resolve_secret(reference: str, environ: Mapping[str, str] | None = None) -> str:
    """The value behind `env:NAME`, `file:PATH` or `keyring:NAME`; "" stays "". Raises `Invalid`, never echoing a value."""
    if not reference:
        return ""
    scheme, _, name = reference.partition(":")
    if scheme == "env" and name:
        value = (os.environ if environ is None else environ).get(name)
        if value is None:
            raise Invalid(f"the environment variable {name} is not set")
        return value
    if scheme == "file" and name:
        try:
            return Path(name).expanduser().read_text(encoding="utf-8").strip()
        except OSError as problem:
            raise Invalid(f"the secret file {name} cannot be read: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise Invalid(f"the secret file {name} is not UTF-8 text") from None
    if scheme == "keyring" and name:
        import keyring

        value = keyring.get_password("postroom", name)
        if value is None:
            raise Invalid(f"the keyring holds no entry postroom/{name}")
        return value
    raise Invalid("a secret is given by reference", fix="write env:NAME, file:PATH or keyring:NAME")


def _overlay(document: dict[str, Any], environ: Mapping[str, str]) -> None:
    sections = {entry.name for entry in fields(Config)}
    for name, value in environ.items():
        if not name.startswith("POSTROOM_") or "__" not in name:
            continue
        path = name.removeprefix("POSTROOM_").lower().split("__")
        if path[0] not in sections:
            raise Invalid(f"{name} names no section of the config{_nearest(path[0], sections)}")
        table = document
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = _EnvText(value)


class _EnvText(str):
    """A value from the environment: text that still has to become its key's type."""

    __slots__ = ()


def _build(kind: Any, table: Any, at: str) -> Any:
    if not isinstance(table, Mapping):
        raise Invalid(f"{at or 'the config'} must be a table")
    hints = get_type_hints(kind)
    known = {entry.name for entry in fields(kind)}
    for key in table:
        if key not in known:
            raise Invalid(f"unknown config key {_join(at, key)}{_nearest(key, known)}")
    values = {key: _convert(hints[key], value, _join(at, key)) for key, value in table.items()}
    for entry in fields(kind):
        if entry.name not in values and entry.default is MISSING and entry.default_factory is MISSING:
            raise Invalid(f"{_join(at, entry.name)} is required")
    return kind(**values)


def _convert(hint: Any, value: Any, at: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(value, _EnvText) and (origin in (tuple, Mapping) or is_dataclass(hint) or _is_mapping(origin)):
        value = _from_json(value, at)
    if is_dataclass(hint):
        return _build(hint, value, at)
    if _is_mapping(origin):
        return {key: _convert(args[1], item, _join(at, key)) for key, item in _table(value, at).items()}
    if origin is tuple:
        if not isinstance(value, list):
            raise Invalid(f"{at} must be a list")
        return tuple(_convert(args[0], item, f"{at}[{index}]") for index, item in enumerate(value))
    if origin in (types.UnionType, Union):
        return None if value is None else _convert(next(arg for arg in args if arg is not type(None)), value, at)
    if origin is Literal:
        if str(value) not in args:
            raise Invalid(f"{at} must be one of {', '.join(args)}")
        return str(value)
    return _scalar(hint, value, at)


def _scalar(hint: Any, value: Any, at: str) -> Any:
    if isinstance(value, _EnvText) and hint is not str:
        value = _from_json(value.lower() if hint is bool else value, at)
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is _EnvText:
        return str(value)
    if type(value) is not hint:
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise Invalid(f"{at} must be {words[hint]}")
    if hint in (int, float) and value < 0:
        raise Invalid(f"{at} must not be negative")
    if hint in (int, float) and not value <= _LARGEST:  # not a number is no limit either
        raise Invalid(f"{at} must be a number below {_LARGEST}")
    return value


_NAME_SERVER = re.compile(r"(\d{1,3}(\.\d{1,3}){3}|\[[0-9A-Fa-f:]+\]):\d{1,5}")


_LARGEST = 2**53
# Where 0 would mean "never ends", "never shows" or "always": a slip, not a wish.
_NEVER_ZERO = (
    "office.timeout_s", "gate.expires_h", "view.max_body_chars", "inbound.poll_interval_s", "sessions.max_live",
    "sessions.followup_sweep_s", "mailbox.stream_limit", "reader.max_result_chars",
    "reader.max_provider_response_bytes", "reader.max_raw_body_chars", "reader.max_normalized_body_chars",
    "reader.authorization_timeout_s", "reader.request_timeout_s",
)  # fmt: skip
_EXPIRES_H = 87600
_LABEL = r"(?!-)[\w-]{1,63}(?<!-)"
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def _check_host(name: str, entry: str) -> None:
    host, _, port = entry.rpartition(":")
    if not host or not port.isdigit() or entry != entry.lower() or (":" in host and not host.startswith("[")):
        raise Invalid(f"office.{name} takes host:port in lower case", fix='for example "127.0.0.1:3000" or "[::1]:3000"')


def _check(config: Config) -> None:
    relay = config.relay
    if relay.host and relay.tls == "off" and relay.host not in ("127.0.0.1", "::1", "localhost"):
        raise Invalid('relay.tls = "off" is allowed to a loopback relay only', fix='set relay.tls = "starttls"')
    _check_hosted(config.office)
    for name in ("webhook_hosts", "attachment_hosts"):
        for entry in getattr(config.office, name):
            _check_host(name, entry)
    if not 1 <= relay.port <= 65535:
        raise Invalid("relay.port must be between 1 and 65535")
    if config.gate.expires_h > _EXPIRES_H:
        raise Invalid(f"gate.expires_h must be at most {_EXPIRES_H}, ten years")
    if not config.office.domains:
        raise Invalid("office.domains must name at least one domain")
    for domain in config.office.domains:
        if not _DOMAIN.fullmatch(domain):
            raise Invalid(f"office.domains: {domain!r} is not a domain", fix='for example "agents.example.org"')
    for name in _NEVER_ZERO:
        section, _, key = name.partition(".")
        if not getattr(getattr(config, section), key):
            raise Invalid(f"{name} must be more than 0")
    for name, agent in config.agents.items():
        if agent.turn_s == 0:
            raise Invalid(f"agents.{name}.turn_s must be more than 0")
        if agent.host == "acp" and not agent.command:
            raise Invalid(f"agents.{name}.command is required: what to start", fix='for example ["opencode", "acp"]')
    if config.store.url and not config.store.url.startswith(("postgresql://", "postgres://")):
        raise Invalid("store.url must be empty or start with postgresql://")
    if config.inbound.dns not in ("off", "system") and not _NAME_SERVER.fullmatch(config.inbound.dns):
        raise Invalid('inbound.dns must be "off", "system" or the address of a name server', fix="for example 192.0.2.53:53")
    _check_reader(config.reader)


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


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _table(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{at} must be a table")
    return value


def _from_json(value: str, at: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        raise Invalid(f"{at}: the environment's value is not valid JSON for this key") from None


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _nearest(key: str, known: set[str]) -> str:
    near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.4)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"
