"""The pieces of a filtered, paged listing: conditions, keyset positions, parameters.

Statements are built per shape of the request (how many labels, which bounds) and kept; only values
travel. Filters are case-blind substrings: a caller who expects whole words finds those too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, bindparam, select, tuple_

from postroom.model.paging import MailFilter
from postroom.office import tables as t
from postroom.office.desk import Scope
from postroom.office.labels import hiding_mask
from postroom.office.rows import key_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What decides a listing's SQL. Counts say how many values of a kind are asked for."""

    inboxes: str  # one | some | pod
    labels: int = 0
    senders: int = 0
    recipients: int = 0
    subject: int = 0
    before: bool = False
    after: bool = False
    onward: bool = False
    ascending: bool = False


def shape_of(scope: Scope, filter: MailFilter, *, onward: bool, ascending: bool) -> Shape:
    keys = scope.keys
    return Shape(
        inboxes="pod" if keys is None else "one" if len(keys) == 1 else "some",
        labels=len(filter.labels),
        senders=len(filter.senders),
        recipients=len(filter.recipients),
        subject=len(filter.subject),
        before=filter.before is not None,
        after=filter.after is not None,
        onward=onward,
        ascending=ascending,
    )


def parameters(scope: Scope, filter: MailFilter, position: Sequence[Any] | None) -> dict[str, Any]:
    """The values for a statement of the matching shape."""
    values: dict[str, Any] = {"mask": hiding_mask(filter.include), "pod": scope.pod}
    if scope.keys is not None:
        values |= {"inbox": scope.keys[0]} if len(scope.keys) == 1 else {"inboxes": scope.keys}
    values |= {f"label{number}": label.strip().lower() for number, label in enumerate(filter.labels)}
    for name in ("senders", "recipients", "subject"):
        values |= {f"{name}{number}": _pattern(text) for number, text in enumerate(getattr(filter, name))}
    values |= {name: getattr(filter, name) for name in ("before", "after") if getattr(filter, name) is not None}
    if position is not None:
        values |= {"from_at": position[0], "from_id": position[1]}
    return values


def in_scope(column: Any, shape: Shape) -> ColumnElement[bool]:
    """The inbox column lies in the scope."""
    if shape.inboxes == "one":
        return _boolean(column == bindparam("inbox"))
    if shape.inboxes == "some":
        return _boolean(column.in_(key_list("inboxes")))
    return _boolean(column.in_(select(t.inbox.c.id).where(t.inbox.c.pod == bindparam("pod"))))


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


def _boolean(condition: Any) -> ColumnElement[bool]:
    typed: ColumnElement[bool] = condition
    return typed


def _pattern(text: str) -> str:
    escaped = text.casefold().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
