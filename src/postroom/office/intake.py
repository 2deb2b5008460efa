"""Mail in, up to the 250: who may be written to, whose name may not be borrowed, and one commit.

`accept` stores the bytes as they came and the envelope, nothing else; reading them is `ingest`'s.
When it returns, the mail is on disk. Mail that comes in by SMTP is from outside whatever its From
says, so one of our own domains there is refused (this also refuses a list that reflects our own
posts back). The scan for that is bounded and reads no body.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import and_, bindparam, select

from postroom.config import Config
from postroom.errors import Invalid, Refused, TooLarge
from postroom.limits import MAIL_BYTES
from postroom.mime.parse import Head, scan_head
from postroom.model.hostname import ascii_domain
from postroom.model.principal import DEFAULT_POD
from postroom.office import tables as t
from postroom.office.desk import insert_into
from postroom.office.local import LocalDomains
from postroom.office.rows import to_json
from postroom.store.engine import Store
from postroom.store.statement import sql
from postroom.store.transaction import Reader, Tx

_COLUMNS = ("pod", "blob", "mail_from", "rcpt_to", "peer", "origin", "size", "attempts", "received_at", "rfc_id")
_INSERT = insert_into(t.intake, _COLUMNS)
_TAKES_MAIL = sql(select(t.inbox.c.id).where(and_(t.inbox.c.address == bindparam("address"), t.inbox.c.status == "active")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What SMTP said about a mail. `mail_from` is "" for the null sender `<>`."""

    mail_from: str
    rcpt_to: tuple[str, ...]
    peer: str = ""
    authenticated: str | None = None
    origin: Literal["smtp", "local"] = "smtp"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeResult:
    """The mail is stored and queued under these ids."""

    ids: tuple[int, ...]


class Intake:
    """The door's side of arriving mail."""

    def __init__(self, store: Store, config: Config, domains: LocalDomains | None = None) -> None:
        self._store = store
        self._domains = domains or LocalDomains(store, config)
        self._wake: Callable[[], None] = _nobody
        self._accepting = 0

    @property
    def busy(self) -> bool:
        """True while mail is being accepted."""
        return self._accepting > 0

    def on_mail(self, wake: Callable[[], None]) -> None:
        """Call `wake` on the loop after each commit that queued mail."""
        self._wake = wake

    def knows(self, address: str) -> bool:
        """True when an active inbox has exactly this address; quick enough for every RCPT."""
        return self._store.read_now(lambda reader: takes_mail(reader, address))

    async def accept(self, envelope: Envelope, raw: bytes) -> IntakeResult:
        """Store a mail for its recipients. Raises `Refused`, `Invalid`, `TooLarge`, `StorageFailure`; else it is on disk."""
        head = self._checked(envelope, raw)
        self._accepting += 1
        try:
            return IntakeResult(ids=(await self._queue(envelope, raw, head.message_id),))
        finally:
            self._accepting -= 1

    async def _queue(self, envelope: Envelope, raw: bytes, rfc_id: str | None) -> int:
        sha = await self._store.blobs.put(raw)
        now = self._store.clock.now_us()

        def store_mail(tx: Tx) -> int:
            self._store.blobs.link(tx, sha, raw)
            tx.after_commit(self._wake)
            return queue_mail(tx, sha=sha, size=len(raw), envelope=envelope, rfc_id=rfc_id, at=now)

        return await self._store.write(store_mail)

    def _checked(self, envelope: Envelope, raw: bytes) -> Head:
        """What its header says. Raises for a mail that may not come in."""
        if not envelope.rcpt_to:
            raise Invalid("a mail needs at least one recipient")
        if len(raw) > MAIL_BYTES:
            raise TooLarge(f"a mail has at most {MAIL_BYTES} bytes")
        head = scan_head(raw)
        if envelope.authenticated is not None or envelope.origin == "local":
            return head
        if _domain(envelope.mail_from) in self._domains:
            raise _borrowed("the sender of the envelope (MAIL FROM)", _domain(envelope.mail_from))
        for address in head.authors:
            if _domain(address) in self._domains:
                raise _borrowed("the From header", _domain(address))
        return head


def takes_mail(reader: Reader, address: str) -> bool:
    """True when an active inbox has exactly this address."""
    return reader.one(_TAKES_MAIL, address=address.lower()) is not None


def queue_mail(tx: Tx, *, sha: str, size: int, envelope: Envelope, rfc_id: str | None, at: int) -> int:
    """Put a mail whose bytes are stored into the queue; answers its id. `rfc_id` is its Message-ID."""
    return tx.insert(
        _INSERT,
        pod=DEFAULT_POD,
        blob=sha,
        mail_from=envelope.mail_from,
        rcpt_to=to_json(envelope.rcpt_to),
        peer=envelope.peer,
        origin=envelope.origin,
        size=size,
        attempts=0,
        received_at=at,
        rfc_id=rfc_id,
    )


def local_recipients(addresses: Sequence[str], domains: Collection[str]) -> tuple[str, ...]:
    """Those of `addresses` that are delivered inside, lower-cased."""
    return tuple(dict.fromkeys(address.lower() for address in addresses if _domain(address) in domains))


def _domain(address: str) -> str:
    domain = address.rpartition("@")[2].rstrip(">").rstrip(".")
    return ascii_domain(domain) or domain.lower()


def _borrowed(where: str, domain: str) -> Refused:
    return Refused(
        f"{where} names {domain}, a domain delivered here; mail from outside may not use it",
        code="local_domain_from_outside",
        fix="agents send through their tools or the HTTP API, which know who they are",
    )


def _nobody() -> None:
    """Until ingest runs, queued mail waits."""
