"""Changes of labels in one inbox, read from the event log, newest first."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import and_, bindparam, or_, select

from postroom.model.event import LABEL_ADDED, LABEL_REMOVED
from postroom.model.mail import LabelEvent
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Principal
from postroom.office.desk import Desk
from postroom.store.schema import event
from postroom.store.statement import Statement, sql

_COLUMNS = (event.c.seq, event.c.event_id, event.c.kind, event.c.pod, event.c.inbox, event.c.ref, event.c.snapshot, event.c.at)


@lru_cache(maxsize=4)
def _list(*, after: bool, ascending: bool) -> Statement:
    # An earlier inbox at the same address was another one.
    of_inbox = and_(event.c.inbox == bindparam("inbox"), event.c.at >= bindparam("since"))
    query = select(*_COLUMNS).where(of_inbox, or_(event.c.kind == LABEL_ADDED, event.c.kind == LABEL_REMOVED))
    if after:
        query = query.where(event.c.seq > bindparam("mark") if ascending else event.c.seq < bindparam("mark"))
    return sql(query.order_by(event.c.seq if ascending else event.c.seq.desc()).limit(bindparam("most")))


class LabelEvents(Desk):
    """The verb on them."""

    async def list_inbox_events(self, principal: Principal, inbox_id: str, page: PageRequest) -> Page[LabelEvent]:
        inbox = self._place(principal, inbox_id).inbox
        size = page.size()
        listing = scope_of("inbox events", inbox.inbox_id, page.ascending)
        position = read_token(listing, page.page_token, int)
        params: dict[str, Any] = {"inbox": inbox.inbox_id, "since": inbox.created_at, "most": size + 1}
        if position is not None:
            params["mark"] = position[0]
        statement = _list(after=position is not None, ascending=page.ascending)
        rows = await self._store.read(lambda reader: reader.all(statement, **params))
        token = make_token(listing, [rows[size - 1][0]]) if len(rows) > size else None
        return Page(items=tuple(_noun(row) for row in rows[:size]), next_page_token=token)


def _noun(row: tuple[Any, ...]) -> LabelEvent:
    _, event_id, kind, pod, inbox, ref, snapshot, at = row
    return LabelEvent(
        event_id=event_id, kind=kind, pod_id=pod, inbox_id=inbox, message_id=ref, label=json.loads(snapshot)["label"], at=at
    )
