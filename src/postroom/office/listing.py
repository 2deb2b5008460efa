"""The pieces of a filtered, paged listing: conditions, keyset positions, parameters.

Every listing walks one inbox in the order of an index; over several inboxes it is the merge of
theirs, so its cost follows the page and not the house. Statements are built per shape of the request
(how many labels, which bounds) and kept; only values travel. A label few messages carry is looked up
first, a common one is checked along the walk. Filters are case-blind substrings: a caller who
expects whole words finds those too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, bindparam, distinct, func, select, tuple_

from postroom.model.paging import MailFilter
from postroom.office import tables as t
from postroom.office.labels import hiding_mask
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader

_RARE: Final = 300  # messages with a label, up to which looking them up first is the quicker way

_COUNT = sql(
    select(func.count()).select_from(
        select(t.message_label.c.message)
        .where(and_(t.message_label.c.inbox == bindparam("inbox"), t.message_label.c.label == bindparam("label")))
        .limit(_RARE + 1)
        .subquery()
    )
)

Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What decides a listing's SQL. Counts say how many values of a kind are asked for; `rare` is about `label0`."""

    labels: int = 0
    rare: bool = False
    senders: int = 0
    recipients: int = 0
    subject: int = 0
    before: bool = False
    after: bool = False
    onward: bool = False
    ascending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One request for rows. `build` makes a shape's statement; it has the parameters `inbox` and `most`."""

    build: Callable[[Shape], Statement]
    filter: MailFilter
    position: Row | None
    ascending: bool

    def rows(self, reader: Reader, inboxes: Sequence[int], most: int, order_of: Callable[[Row], tuple[int, int]]) -> list[Row]:
        """The first `most` rows after the position, over all these inboxes."""
        values = self._values()
        found: list[Row] = []
        for inbox in inboxes:
            asked = dict.fromkeys(label.strip().lower() for label in self.filter.labels)
            labels, rare = _rarest_first(reader, inbox, list(asked))
            named = {f"label{number}": label for number, label in enumerate(labels)}
            found += reader.all(self.build(self._shape(len(labels), rare=rare)), **values, **named, inbox=inbox, most=most)
        if len(inboxes) > 1:
            found.sort(key=order_of, reverse=not self.ascending)
        return found[:most]

    def _shape(self, labels: int, *, rare: bool) -> Shape:
        asked = self.filter
        return Shape(
            labels=labels,
            rare=rare,
            senders=len(asked.senders),
            recipients=len(asked.recipients),
            subject=len(asked.subject),
            before=asked.before is not None,
            after=asked.after is not None,
            onward=self.position is not None,
            ascending=self.ascending,
        )

    def _values(self) -> dict[str, Any]:
        asked = self.filter
        values: dict[str, Any] = {"mask": hiding_mask(asked.include)}
        for name in ("senders", "recipients", "subject"):
            values |= {f"{name}{number}": _pattern(text) for number, text in enumerate(getattr(asked, name))}
        values |= {name: getattr(asked, name) for name in ("before", "after") if getattr(asked, name) is not None}
        if self.position is not None:
            values |= {"from_at": self.position[0], "from_id": self.position[1]}
        return values


def carries(owner: Any, key: Any, label: Any, numbers: range) -> list[ColumnElement[bool]]:
    """What `key` names carries each of these of the asked labels.

    Counted, not one EXISTS for each: PostgreSQL plans those as joins, and twenty of them for seconds.
    """
    if not numbers:
        return []
    asked = label.in_([bindparam(f"label{number}") for number in numbers])
    return [select(func.count(distinct(label))).where(owner == key, asked).scalar_subquery() == len(numbers)]


def contains(column: Any, name: str, count: int) -> list[ColumnElement[bool]]:
    """The folded column holds each of the `count` values as a substring."""
    return [_boolean(column.like(bindparam(f"{name}{number}"), escape="\\")) for number in range(count)]


def within(column: Any, shape: Shape) -> list[ColumnElement[bool]]:
    """`after` is inclusive, `before` exclusive."""
    conditions = []
    if shape.after:
        conditions.append(_boolean(column >= bindparam("after")))
    if shape.before:
        conditions.append(_boolean(column < bindparam("before")))
    return conditions


def beyond(at: Any, key: Any, shape: Shape) -> list[ColumnElement[bool]]:
    """The rows after the position, in the listing's order."""
    if not shape.onward:
        return []
    position, here = tuple_(at, key), tuple_(bindparam("from_at"), bindparam("from_id"))
    return [_boolean(position > here if shape.ascending else position < here)]


def in_order(at: Any, key: Any, shape: Shape) -> tuple[Any, Any]:
    return (at, key) if shape.ascending else (at.desc(), key.desc())


def _rarest_first(reader: Reader, inbox: int, labels: Sequence[str]) -> tuple[list[str], bool]:
    """The labels with the least used first, and whether that one is rare."""
    counted = sorted((reader.scalar(_COUNT, inbox=inbox, label=label), label) for label in labels)
    return [label for _, label in counted], bool(counted) and counted[0][0] <= _RARE


def _boolean(condition: Any) -> ColumnElement[bool]:
    typed: ColumnElement[bool] = condition
    return typed


def _pattern(text: str) -> str:
    escaped = text.casefold().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
