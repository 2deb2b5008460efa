"""Whom the house corresponds with: addresses it wrote to, had mail from, and whose mail came with proof.

Only an address that the house wrote to and that was proved may be *trusted*: anybody can put a name into
From, and proof alone says no more than that its owner sent it. An address that is not here at all is a first
contact, and a domain that looks like one the house wrote to, and is another, is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import and_, bindparam, select

from postroom.model.mail import Finding, Inbox
from postroom.model.principal import Principal
from postroom.office import tables as t
from postroom.office.desk import Desk
from postroom.policy.recipients import canonical_address
from postroom.safety.lookalike import domain_findings, looks
from postroom.store.statement import insert_or_ignore, sql, upsert
from postroom.store.transaction import Tx

_KNOWN = sql(
    select(t.correspondent.c.address).where(
        and_(
            t.correspondent.c.pod == bindparam("pod"),
            t.correspondent.c.address == bindparam("address"),
            t.correspondent.c.wrote_at.is_not(None),
            t.correspondent.c.proved_at.is_not(None),
        )
    )
)
_ALIKE = sql(
    select(t.correspondent.c.address).where(
        and_(
            t.correspondent.c.pod == bindparam("pod"),
            t.correspondent.c.looks == bindparam("looks"),
            t.correspondent.c.wrote_at.is_not(None),
        )
    )
)
_HEARD = insert_or_ignore(t.correspondent, ("pod", "address"))
_WROTE = upsert(t.correspondent, ("pod", "address", "looks", "wrote_at"), ("pod", "address"), ("looks", "wrote_at"))
_PROVED = upsert(t.correspondent, ("pod", "address", "proved_at"), ("pod", "address"), ("proved_at",))


class Correspondents(Desk):
    """The verb on correspondents."""

    async def is_authenticated(self, principal: Principal, address: str) -> bool:
        """True when the house wrote to this address and mail from it came with proof."""
        canonical = canonical_address(address)
        if canonical is None:
            return False
        return self._store.read_now(lambda reader: reader.one(_KNOWN, pod=principal.pod_id, address=canonical)) is not None


def note_written(tx: Tx, pod: str, addresses: Iterable[str], *, at: int) -> None:
    """The house wrote to these."""
    known = filter(None, map(canonical_address, addresses))
    tx.many(_WROTE, [{"pod": pod, "address": address, "looks": looks(_domain(address)), "wrote_at": at} for address in known])


def note_proved(tx: Tx, pod: str, address: str, *, at: int) -> None:
    """Mail from this address came with proof."""
    canonical = canonical_address(address)
    if canonical is not None:
        tx.run(_PROVED, pod=pod, address=canonical, proved_at=at)


def note_heard(tx: Tx, inbox: Inbox, address: str) -> tuple[Finding, ...]:
    """Mail from this address came: what is to be said of it, given whom the house knows."""
    canonical = canonical_address(address)
    if canonical is None:
        return ()
    domain = _domain(canonical)
    alike = tx.all(_ALIKE, pod=inbox.pod_id, looks=looks(domain))
    known = (_domain(inbox.inbox_id), *(_domain(row[0]) for row in alike))
    first = tx.run(_HEARD, pod=inbox.pod_id, address=canonical) > 0
    found = (Finding(code="first_contact", detail="no mail went to this address or came from it before"),) if first else ()
    return (*domain_findings(domain, known), *found)


def _domain(address: str) -> str:
    return address.rpartition("@")[2]
