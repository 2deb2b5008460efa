"""Query parameters and headers, as the official clients write them.

A list arrives as one JSON array, as a repeated key or as a bare value; all three mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from fastapi import Depends, Header, Query

from postroom.clock import from_iso
from postroom.errors import Invalid
from postroom.limits import KEY_CHARS, PAGE_MAX
from postroom.model.paging import MailFilter, PageRequest

_KEY: Final = re.compile(rf"[A-Za-z0-9\-._~]{{1,{KEY_CHARS}}}")
_Key = Annotated[str | None, Header(alias="Idempotency-Key", json_schema_extra={"pattern": f"^{_KEY.pattern}$"})]
_Hidden = Literal["spam", "blocked", "unauthenticated", "trash"]
Words = Annotated[list[str], Query()]
Moment = Annotated[str | None, Query(json_schema_extra={"format": "date-time"})]
Limit = Annotated[int | None, Query(ge=1, le=PAGE_MAX)]


def words(values: Sequence[str], name: str) -> tuple[str, ...]:
    """The entries of a list parameter, in any of its three spellings."""
    found: list[str] = []
    for value in values:
        found.extend(_entries(value, name))
    return tuple(entry for entry in found if entry.strip())


def moment(value: str | None, name: str) -> int | None:
    """Microseconds of an RFC 3339 moment. Raises `Invalid` on anything else."""
    if value is None:
        return None
    try:
        return from_iso(value)
    except (ValueError, OverflowError):
        raise invalid(name, "not a moment in RFC 3339 with an offset, for example 2026-01-31T08:00:00Z") from None


def invalid(name: str, message: str, code: str = "invalid") -> Invalid:
    """A 400 about one field."""
    return Invalid(f"{name}: {message}", errors=[{"path": [name], "message": message, "code": code}])


def _entries(value: str, name: str) -> list[str]:
    if not value.startswith("["):
        return [value]
    try:
        return msgspec.json.decode(value, type=list[str])
    except msgspec.ValidationError:
        raise invalid(name, "a list of strings is needed") from None
    except (msgspec.DecodeError, RecursionError):
        return [value]


def _page(limit: Limit = None, page_token: str | None = None, ascending: bool | None = None) -> PageRequest:
    return PageRequest(limit=limit, page_token=page_token, ascending=bool(ascending))


def _include(
    include_spam: bool = False,
    include_blocked: bool = False,
    include_unauthenticated: bool = False,
    include_trash: bool = False,
) -> frozenset[_Hidden]:
    named: dict[_Hidden, bool] = {
        "spam": include_spam,
        "blocked": include_blocked,
        "unauthenticated": include_unauthenticated,
        "trash": include_trash,
    }
    return frozenset(label for label, wanted in named.items() if wanted)


def _dates(before: Moment = None, after: Moment = None) -> tuple[int | None, int | None]:
    return moment(before, "before"), moment(after, "after")


_Include = Annotated[frozenset[_Hidden], Depends(_include)]
_Dates = Annotated[tuple[int | None, int | None], Depends(_dates)]


def _messages(
    *,
    include: _Include,
    dates: _Dates,
    labels: Words = [],  # noqa: B006  (the framework reads the default, nobody writes it)
    from_: Annotated[list[str], Query(alias="from")] = [],  # noqa: B006  (as above)
    to: Words = [],  # noqa: B006  (as above)
    subject: Words = [],  # noqa: B006  (as above)
) -> MailFilter:
    return MailFilter(
        labels=_labels(labels),
        senders=words(from_, "from"),
        recipients=words(to, "to"),
        subject=words(subject, "subject"),
        before=dates[0],
        after=dates[1],
        include=include,
    )


def _threads(
    *,
    include: _Include,
    dates: _Dates,
    labels: Words = [],  # noqa: B006  (the framework reads the default, nobody writes it)
    senders: Words = [],  # noqa: B006  (as above)
    recipients: Words = [],  # noqa: B006  (as above)
    subject: Words = [],  # noqa: B006  (as above)
) -> MailFilter:
    return MailFilter(
        labels=_labels(labels),
        senders=words(senders, "senders"),
        recipients=words(recipients, "recipients"),
        subject=words(subject, "subject"),
        before=dates[0],
        after=dates[1],
        include=include,
    )


def _drafts(dates: _Dates, labels: Words = []) -> MailFilter:  # noqa: B006  (as above)
    return MailFilter(labels=_labels(labels), before=dates[0], after=dates[1])


def _search(dates: _Dates) -> MailFilter:
    return MailFilter(before=dates[0], after=dates[1])


def _labels(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(label.strip().lower() for label in words(values, "labels"))


def _idempotency_key(key: _Key = None) -> str | None:
    if key is not None and not _KEY.fullmatch(key):
        raise invalid("Idempotency-Key", f"1 to {KEY_CHARS} characters of A-Z a-z 0-9 - . _ ~")
    return key


Paged = Annotated[PageRequest, Depends(_page)]
MessageFilter = Annotated[MailFilter, Depends(_messages)]
ThreadFilter = Annotated[MailFilter, Depends(_threads)]
DraftFilter = Annotated[MailFilter, Depends(_drafts)]
SearchDates = Annotated[MailFilter, Depends(_search)]
SearchQuery = Annotated[str, Query(min_length=1, max_length=1024)]
IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]
