"""Allow and block lists: whom an inbox may write to, hear from, and be answered by.

An entry is an address or a domain, for one inbox or for the whole pod. Entries of the config's gate
section are the owner's file: they are not rows here, and the gate adds them itself. Enforcing
the send lists is the gate's; the receive and reply lists meet arriving mail in `receiving`.
"""

from __future__ import annotations

from typing import Literal

from sqlalchemy import and_, bindparam, or_, select

from postroom.model.principal import Principal
from postroom.office import tables as t
from postroom.office.desk import Desk
from postroom.store.statement import sql

_SEND = sql(
    select(t.list_entry.c.entry)
    .where(
        and_(
            t.list_entry.c.pod == bindparam("pod"),
            or_(t.list_entry.c.inbox == 0, t.list_entry.c.inbox == bindparam("inbox")),
            t.list_entry.c.direction == "send",
            t.list_entry.c.type == bindparam("kind"),
        )
    )
    .order_by(t.list_entry.c.entry)
)
_SUPPRESSED = sql(select(t.suppression.c.address).where(t.suppression.c.pod == bindparam("pod")))


class Lists(Desk):
    """The verbs on lists."""

    async def send_list(self, principal: Principal, inbox_id: str, kind: Literal["allow", "block"]) -> tuple[str, ...]:
        """Entries of the send list that applies to this inbox; suppressed addresses count as blocked."""
        place = self._place(principal, inbox_id)
        rows = self._store.read_now(lambda reader: reader.all(_SEND, pod=place.inbox.pod_id, inbox=place.key, kind=kind))
        entries = [row[0] for row in rows]
        if kind == "block":
            entries += [row[0] for row in self._store.read_now(lambda reader: reader.all(_SUPPRESSED, pod=place.inbox.pod_id))]
        return tuple(dict.fromkeys(entries))
