"""Whom the house corresponds with: addresses it wrote to, and addresses whose mail came with proof.

Only an address that is both may be *trusted*: anybody can put a name into From, and proof alone says
no more than that its owner sent it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import and_, bindparam, select

from postroom.model.principal import Principal
from postroom.office import tables as t
from postroom.office.desk import Desk
from postroom.policy.recipients import canonical_address
from postroom.store.statement import sql, upsert
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
_WROTE = upsert(t.correspondent, ("pod", "address", "wrote_at"), ("pod", "address"), ("wrote_at",))
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
    tx.many(
        _WROTE, [{"pod": pod, "address": address, "wrote_at": at} for address in filter(None, map(canonical_address, addresses))]
    )


def note_proved(tx: Tx, pod: str, address: str, *, at: int) -> None:
    """Mail from this address came with proof."""
    canonical = canonical_address(address)
    if canonical is not None:
        tx.run(_PROVED, pod=pod, address=canonical, proved_at=at)
