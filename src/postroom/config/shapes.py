"""What a person can set, section by section, with the defaults. A test holds these against the sample and the promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


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
