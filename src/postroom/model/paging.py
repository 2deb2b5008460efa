"""Pages and their tokens.

A token is an opaque keyset position tied to the filter it was made for: used with another filter,
cut, or invented, it is `Invalid` (the contract's 400), never a wrong page.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from postroom.errors import Invalid
from postroom.limits import FILTER_ENTRIES, FILTERED_PAGE_MAX, PAGE_DEFAULT, PAGE_MAX

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page, and the token of the next (None on the last)."""

    items: tuple[T, ...]
    next_page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which page, and how large. `limit` None means the default of 50."""

    limit: int | None = None
    page_token: str | None = None
    ascending: bool = False

    def size(self, *, filtered: bool = False) -> int:
        """Rows to return. Raises `Invalid` outside 1…100 (filtered) or 1…1000."""
        if self.limit is None:
            return PAGE_DEFAULT
        most = FILTERED_PAGE_MAX if filtered else PAGE_MAX
        if not 1 <= self.limit <= most:
            raise Invalid(
                f"limit must be between 1 and {most}",
                errors=[{"path": ["limit"], "message": f"must be between 1 and {most}", "code": "out_of_range"}],
            )
        return self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFilter:
    """Which messages or threads. All given conditions must hold.

    `labels`: carries all. `after` is inclusive, `before` exclusive. `senders`, `recipients` and
    `subject`: each entry must match as a case-blind substring (`recipients` looks at to, cc, bcc).
    Raises `Invalid` for too many entries: each is one more condition in the statement.
    """

    labels: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    subject: tuple[str, ...] = ()
    before: int | None = None
    after: int | None = None
    include: frozenset[Literal["spam", "blocked", "unauthenticated", "trash"]] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        for name in ("labels", "senders", "recipients", "subject"):
            if len(getattr(self, name)) > FILTER_ENTRIES:
                message = f"a list is filtered by at most {FILTER_ENTRIES} {name}"
                raise Invalid(message, errors=[{"path": [name], "message": message, "code": "too_many"}])

    @property
    def is_filtered(self) -> bool:
        """True when the page size cap for filtered requests applies."""
        return bool(self.senders or self.recipients or self.subject)


def make_token(scope: str, position: list[Any]) -> str:
    """A token for `position` (JSON values) in the listing named by `scope` (see `scope_of`)."""
    body = json.dumps([_tag(scope), position], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def read_token(scope: str, token: str | None, *kinds: type) -> list[Any] | None:
    """The position in `token`, checked against `scope` and the expected types; None without a token."""
    if token is None:
        return None
    try:
        position: list[Any]
        tag, position = json.loads(base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4)))
        sound = tag == _tag(scope) and isinstance(position, list) and len(position) == len(kinds)
        sound = sound and all(type(value) is kind for value, kind in zip(position, kinds, strict=True))
        sound = sound and not any(type(value) is int and abs(value) >= 2**63 for value in position)
    except (ValueError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise Invalid(
            "the page token is not valid for this list",
            fix="start again without page_token",
            errors=[{"path": ["page_token"], "message": "invalid page token", "code": "invalid_page_token"}],
        )
    return position


def scope_of(*parts: Any) -> str:
    """The name of a listing: everything that decides its rows and their order."""
    return repr(tuple(sorted(part) if isinstance(part, frozenset) else part for part in parts))


def _tag(scope: str) -> str:
    return hashlib.sha256(scope.encode()).hexdigest()[:12]
