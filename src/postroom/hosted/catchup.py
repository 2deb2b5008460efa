"""Reading what was missed: by listing, from where the last listing got, to the end.

Every connection begins with it and polling is nothing else. It begins a little before the place it reached, because
the service's index lags, and whatever comes twice is told once. The first look at an inbox that was there before only
marks where news begins, by the service's own clock. Reports of failures are found by the labels on what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from postroom.clock import MICROS
from postroom.errors import Forbidden, NotFound
from postroom.hosted.api import Api, Json, Unexpected
from postroom.hosted.arrivals import Arrivals, of_failure, of_message
from postroom.hosted.inboxes import Followed, Inboxes
from postroom.hosted.shapes import filter_query, moment_of, objects_of, text_of
from postroom.model import event as kinds
from postroom.model.paging import MailFilter
from postroom.store.engine import Store

OVERLAP_S: Final = 600
FAILURES_S: Final = 7 * 86400  # of what was sent, how far back a report is looked for
_ROWS: Final = "100"
_PAGES: Final = 10_000
_LABELS: Final = {kind: kind.removeprefix("message.") for kind in kinds.FAILURES}
log = structlog.get_logger("postroom.hosted")


class CatchUp:
    """`wanted` are the kinds of events that are told."""

    def __init__(self, store: Store, api: Api, inboxes: Inboxes, arrivals: Arrivals, wanted: Sequence[str]) -> None:
        self._store = store
        self._api = api
        self._inboxes = inboxes
        self._arrivals = arrivals
        self._wanted = wanted
        restricted = [kind.rpartition(".")[2] for kind in wanted if kind in kinds.RESTRICTED]
        self._include = {f"include_{label}": "true" for label in restricted}

    async def all(self) -> int:
        """Read every inbox that belongs to an agent; how much was new. Raises what keeps the service from being asked."""
        return sum([await self._safely(place) for place in self._inboxes.followed()])

    async def _safely(self, place: Followed) -> int:
        try:
            return await self._one(place)
        except (NotFound, Forbidden) as problem:  # deleted, or out of the key's reach: no reason to miss the others' mail
            log.warning("inbox_not_read", inbox=place.address, code=problem.code)
            return 0

    async def _one(self, place: Followed) -> int:
        if place.floor_at is None:
            await self._arrivals.begin(place, await self._newest(place))
            return 0
        return await self._received(place, place.floor_at) + await self._failed(place, place.floor_at)

    async def _newest(self, place: Followed) -> int:
        """Just after the newest message there is, sent or received."""
        rows = objects_of(await self._list(place, {"limit": "1"}), "messages")
        return max((moment_of(row, "timestamp") for row in rows), default=-1) + 1

    async def _received(self, place: Followed, floor_at: int) -> int:
        after = max(floor_at, place.seen_at - OVERLAP_S * MICROS)
        query = {"limit": _ROWS, "ascending": "true", **self._include, **_after(after)}
        new, seen = 0, set[str]()
        for _ in range(_PAGES):
            page = await self._list(place, query)
            rows = objects_of(page, "messages")
            found = [arrival for row in rows if (arrival := of_message(row, self._wanted)) is not None]
            reached = max((moment_of(row, "timestamp") for row in rows), default=0)
            new += await self._arrivals.take(place, [one for one in found if one.at >= floor_at], reached=reached)
            token = text_of(page, "next_page_token")
            if not token:
                return new
            if token in seen:
                break
            seen.add(token)
            query["page_token"] = token
        raise Unexpected("a list has no end")

    async def _failed(self, place: Followed, floor_at: int) -> int:
        new = 0
        after = max(floor_at, self._store.clock.now_us() - FAILURES_S * MICROS)
        for kind in kinds.FAILURES:
            query = {"limit": _ROWS, **filter_query(MailFilter(labels=(_LABELS[kind],), after=after), threads=False)}
            rows = objects_of(await self._list(place, query), "messages")
            new += await self._arrivals.take(place, [of_failure(row, kind) for row in reversed(rows)])
        return new

    async def _list(self, place: Followed, query: dict[str, str]) -> Json:
        return await self._api.call("GET", "inboxes", place.address, "messages", query=query)


def _after(at_us: int) -> dict[str, str]:
    return filter_query(MailFilter(after=at_us), threads=False)
