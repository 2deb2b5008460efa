"""Leases: a name held by one holder until a moment passes; who dies lets go by doing nothing."""

from __future__ import annotations

from sqlalchemy import and_, bindparam, delete, or_

from postroom.clock import MICROS, Clock
from postroom.store import schema
from postroom.store.statement import sql, upsert
from postroom.store.transaction import Tx

_lease = schema.lease.c
_TAKE = upsert(
    schema.lease,
    ["name", "holder", "expires_at"],
    key=["name"],
    update=["holder", "expires_at"],
    where=lambda offered: or_(_lease.holder == offered.holder, _lease.expires_at <= bindparam("now")),
)
_RELEASE = sql(delete(schema.lease).where(and_(_lease.name == bindparam("name"), _lease.holder == bindparam("holder"))))


class Leases:
    """Who may do a thing that one may do at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def take(self, tx: Tx, name: str, holder: str, ttl_s: float) -> bool:
        """Hold `name` for `ttl_s` from now; the same holder renews. False while another holds it."""
        now = self._clock.now_us()
        return tx.run(_TAKE, name=name, holder=holder, expires_at=now + int(ttl_s * MICROS), now=now) == 1

    def release(self, tx: Tx, name: str, holder: str) -> None:
        """Let go; nothing happens when `holder` does not hold it."""
        tx.run(_RELEASE, name=name, holder=holder)
