"""Figures of the house (`client.metrics`), its pod and one inbox: events, rates, usage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from fastapi import Depends, Query

from postroom.clock import MICROS, to_iso
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import Moment, Words, invalid, moment, words
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.scopes import Within
from postroom.interfaces.rest.shapes import Shape
from postroom.model import event as kinds
from postroom.model.metrics import BUCKETS, DAY_S, REACH_S, Span

routes = router("/metrics", "metrics")
_WHAT: Final = "metrics"
_EVENTS: Final = tuple(sorted(kinds.PUBLIC))
_RATES: Final = ("bounce", "complaint")
_USAGE: Final = ("storage_bytes", "message_count", "thread_count", "inbox_count", "pod_count", "domain_count")
_HOUR_S: Final = 3600
Seconds = Annotated[int | None, Query(ge=1, le=REACH_S)]
Most = Annotated[int | None, Query(ge=1, le=BUCKETS)]


class Count(Shape):
    timestamp: str
    count: int


class Value(Shape):
    timestamp: str
    value: int


class Rate(Shape):
    """`rate` is absent where nothing was sent."""

    timestamp: str
    rate: float | None = None
    sent: int


class Cut:
    """Which points of a series, and in which order."""

    def __init__(self, limit: Most = None, descending: bool | None = None) -> None:
        self._limit = limit
        self._descending = bool(descending)

    def of(self, points: Sequence[Any]) -> list[Any]:
        """The first ones in the order asked for."""
        ordered = list(reversed(points)) if self._descending else list(points)
        return ordered[: self._limit]


def _times(here: Here, start: Moment = None, end: Moment = None) -> Callable[..., Span]:
    def span(period_s: int, before_s: int = 0) -> Span:
        return Span.of(
            now=here.clock.now_us(), start=moment(start, "start"), end=moment(end, "end"), period_s=period_s, before_s=before_s
        )

    return span


Times = Annotated[Callable[..., Span], Depends(_times)]
Cutting = Annotated[Cut, Depends()]


@routes.get("/events")
async def query_events(
    *,
    here: Here,
    caller: Caller,
    within: Within,
    times: Times,
    cut: Cutting,
    event_types: Words = [],  # noqa: B006  (the framework reads the default, nobody writes it)
    period: Seconds = None,
) -> dict[str, list[Count]]:
    wanted = _chosen(event_types, "event_types", _EVENTS)
    span = times(period) if period else times(DAY_S)
    step = span if period else Span(start=span.start, end=span.end, period_us=1)
    found = await here.verb("count_events", _WHAT)(caller, within, wanted, step)
    return {name: [Count(timestamp=to_iso(at), count=count) for at, count in cut.of(found[name])] for name in wanted}


@routes.get("/rates")
async def query_rates(
    *,
    here: Here,
    caller: Caller,
    within: Within,
    times: Times,
    cut: Cutting,
    rate_types: Words = [],  # noqa: B006  (as above)
    period: Seconds = None,
    window: Seconds = None,
) -> dict[str, list[Rate]]:
    wanted = _chosen(rate_types, "rate_types", _RATES)
    period_s, window_s = period or _HOUR_S, window or max(DAY_S, period or 0)
    if window_s % period_s:
        raise invalid("window", "window must be a whole multiple of period")
    span = times(period_s, window_s)
    found = await here.verb("sent_and_returned", _WHAT)(caller, within, wanted, span, window_s * MICROS)
    return {name: [_rate(*point) for point in cut.of(found[name])] for name in wanted}


@routes.get("/usage")
async def query_usage(
    *,
    here: Here,
    caller: Caller,
    within: Within,
    times: Times,
    cut: Cutting,
    usage_types: Words = [],  # noqa: B006  (as above)
    period: Seconds = None,
) -> dict[str, list[Value]]:
    wanted = _chosen(usage_types, "usage_types", _USAGE)
    found = await here.verb("usage", _WHAT)(caller, within, wanted, times(period or _HOUR_S))
    return {name: [Value(timestamp=to_iso(at), value=value) for at, value in cut.of(found[name])] for name in wanted}


def _chosen(values: Sequence[str], name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(words(values, name))) or known
    if not set(known).issuperset(chosen):
        raise invalid(name, f"use some of {', '.join(known)}", "invalid_value")
    return chosen


def _rate(at: int, sent: int, returned: int) -> Rate:
    return Rate(timestamp=to_iso(at), rate=round(returned / sent, 6) if sent else None, sent=sent)
