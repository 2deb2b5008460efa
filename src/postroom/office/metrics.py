"""Figures: events counted, bounce and complaint rates, and what is kept, from the event log and the tables.

An owner sees the whole pod, an agent its own inboxes. What was deleted is no longer counted as kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, bindparam, func, select

from postroom.model.event import BOUNCED, COMPLAINED, SENT
from postroom.model.metrics import Span
from postroom.model.principal import Principal
from postroom.office import tables as t
from postroom.office.desk import Desk
from postroom.office.rows import key_list
from postroom.store.schema import event
from postroom.store.statement import Statement, in_list, sql
from postroom.store.transaction import Reader

Points = Mapping[str, Sequence[tuple[int, int]]]
RATES: Final = {"bounce": BOUNCED, "complaint": COMPLAINED}
_CHUNK: Final = 5000
_KEPT: Final[Mapping[str, tuple[Any, Any, ColumnElement[Any]]]] = {
    "message_count": (t.message.c.created_at, t.message.c.inbox, func.count()),
    "storage_bytes": (t.message.c.created_at, t.message.c.inbox, func.coalesce(func.sum(t.message.c.size), 0)),
    "thread_count": (t.thread.c.created_at, t.thread.c.inbox, func.count()),
    "inbox_count": (t.inbox.c.created_at, t.inbox.c.id, func.count()),
}


def _whose(by: str) -> ColumnElement[bool]:
    columns = {"pod": event.c.pod, "agent": event.c.agent, "inbox": event.c.inbox}
    return and_(columns[by] == bindparam("whose"), event.c.at >= bindparam("start"), event.c.at < bindparam("end"))


@lru_cache(maxsize=3)
def _counts_sql(by: str) -> Statement:
    start_of = (event.c.at - event.c.at % bindparam("width")).label("bucket")
    inner = select(event.c.kind, start_of).where(event.c.kind.in_(in_list("kinds")), _whose(by)).subquery()
    counted = select(inner.c.kind, inner.c.bucket, func.count()).group_by(inner.c.kind, inner.c.bucket)
    return sql(counted.order_by(inner.c.bucket))


@lru_cache(maxsize=3)
def _recipients_sql(by: str) -> Statement:
    query = select(event.c.seq, event.c.kind, event.c.at, event.c.snapshot)
    query = query.where(event.c.seq > bindparam("seq"), event.c.kind.in_(in_list("kinds")), _whose(by))
    return sql(query.order_by(event.c.seq).limit(bindparam("most")))


@lru_cache(maxsize=8)
def _kept_before_sql(what: str) -> Statement:
    at, inbox, figure = _KEPT[what]
    return sql(select(figure).where(inbox.in_(key_list("keys")), at < bindparam("start")))


@lru_cache(maxsize=8)
def _kept_sql(what: str) -> Statement:
    at, inbox, _ = _KEPT[what]
    since = (at - at % bindparam("width")).label("bucket")
    size = (t.message.c.size if what == "storage_bytes" else at).label("size")
    inner = select(since, size).where(inbox.in_(key_list("keys")), at >= bindparam("start"), at < bindparam("end")).subquery()
    total = func.sum(inner.c.size) if what == "storage_bytes" else func.count()
    return sql(select(inner.c.bucket, total).group_by(inner.c.bucket).order_by(inner.c.bucket))


class Metrics(Desk):
    """The verbs on figures. `inbox_id` None: everything the caller may see."""

    async def count_events(self, principal: Principal, inbox_id: str | None, kinds: Sequence[str], span: Span) -> Points:
        """How many of each kind in each step that had any."""
        by, whose = self._whose(principal, inbox_id)
        params = {"whose": whose, "kinds": list(kinds), "start": span.start, "end": span.end, "width": span.period_us}
        rows = await self._store.read(lambda reader: reader.all(_counts_sql(by), **params))
        return {kind: [(bucket, count) for name, bucket, count in rows if name == kind] for kind in kinds}

    async def sent_and_returned(
        self, principal: Principal, inbox_id: str | None, rates: Sequence[str], span: Span, window_us: int
    ) -> Mapping[str, Sequence[tuple[int, int, int]]]:
        """At each step of the grid: recipients sent to and recipients returned over the window before it."""
        by, whose = self._whose(principal, inbox_id)
        kinds = [SENT, *(RATES[rate] for rate in rates)]
        params = {"whose": whose, "kinds": kinds, "start": span.start - window_us, "end": span.end}
        steps = {kind: Counter[int]() for kind in kinds}
        seq = 0
        while rows := await self._recipients(by, params | {"seq": seq}):
            for _, kind, at, snapshot in rows:
                steps[kind][at // span.period_us] += len(json.loads(snapshot).get("recipients", ()))
            seq = rows[-1][0]
        within = {kind: _over(steps[kind], window_us // span.period_us, span) for kind in kinds}
        return {rate: [(at, within[SENT](at), within[RATES[rate]](at)) for at in span.grid()] for rate in rates}

    async def _recipients(self, by: str, params: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        return await self._store.read(lambda reader: reader.all(_recipients_sql(by), most=_CHUNK, **params))

    async def usage(self, principal: Principal, inbox_id: str | None, names: Sequence[str], span: Span) -> Points:
        """What was kept at each step of the grid."""
        keys = self._scope(principal, inbox_id).keys
        still = {"pod_count": 1, "domain_count": len(self.domains)}

        def read(reader: Reader) -> dict[str, list[tuple[int, int]]]:
            found = {}
            for name in names:
                if name in still:
                    found[name] = [(at, still[name]) for at in span.grid()]
                    continue
                before = reader.scalar(_kept_before_sql(name), keys=keys, start=span.start)
                more = reader.all(_kept_sql(name), keys=keys, start=span.start, end=span.end, width=span.period_us)
                found[name] = _running(int(before), [(at, int(size)) for at, size in more], span)
            return found

        return await self._store.read(read)

    def _whose(self, principal: Principal, inbox_id: str | None) -> tuple[str, str | None]:
        named = inbox_id if inbox_id is not None else principal.inbox_scope
        if named is not None:
            return "inbox", self._place(principal, named).inbox.inbox_id
        return ("pod", principal.pod_id) if principal.is_owner else ("agent", principal.agent_id)


def _over(steps: Counter[int], width: int, span: Span) -> Callable[[int], int]:
    """The count of the `width` steps that end at a moment of the grid."""
    first = span.start // span.period_us - width
    totals = [0, *accumulate(steps[step] for step in range(first, span.end // span.period_us + 1))]

    def within(at: int) -> int:
        last = at // span.period_us - first
        return totals[last] - totals[last - width]

    return within


def _running(total: int, more: Sequence[tuple[int, int]], span: Span) -> list[tuple[int, int]]:
    left = list(more)
    points = []
    for at in span.grid():
        while left and left[0][0] < at:
            total += left.pop(0)[1]
        points.append((at, total))
    return points
