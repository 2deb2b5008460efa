"""The arguments of a read, checked: dates become exact moments, the limit is capped, nothing is dropped silently."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, tzinfo
from typing import Final

from postroom.config import Reader as Settings
from postroom.model.paging import scope_of
from postroom.reader import faults
from postroom.reader.remote import Search

_QUERY_CHARS: Final = 1000
_FOLDER_CHARS: Final = 200
_EMPTY_RANGE = "after must lie before `before`; after is included, before is not"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What a caller asked for, as it came. Empty text is as good as none."""

    account: str = ""
    query: str = ""
    folder: str = ""
    limit: int | None = None
    after: str = ""
    before: str = ""
    unread_only: bool = False
    message_id: str = ""
    page_token: str = ""

    @property
    def lists(self) -> bool:
        """Whether messages are listed, or one is read."""
        return not self.message_id

    def scope(self, account: str, limit: int) -> str:
        """The name of this listing, to which its page tokens are tied."""
        return scope_of("reader", account, self.query, self.folder, limit, self.after, self.before, self.unread_only)


def check_single(request: ReadRequest) -> None:
    """With messageId, whatever chooses among messages contradicts it."""
    for name, value in (
        ("query", request.query),
        ("folder", request.folder),
        ("after", request.after),
        ("before", request.before),
        ("unreadOnly", request.unread_only),
        ("pageToken", request.page_token),
    ):
        if value:
            raise faults.argument(name, f"{name} chooses among messages; messageId names one already", "give one or the other")


def search_of(request: ReadRequest, settings: Settings) -> Search:
    """The search asked for, its limit no more than the highest. Raises `MAIL_ARGUMENT_INVALID`."""
    limit = settings.default_limit if request.limit is None else request.limit
    if limit < 1:
        raise faults.argument("limit", "limit must be 1 or more")
    after = _midnight("after", request.after, settings.timezone)
    before = _midnight("before", request.before, settings.timezone)
    if after is not None and before is not None and after >= before:
        raise faults.argument("after", _EMPTY_RANGE)
    return Search(
        limit=min(limit, settings.max_limit),
        query=_plain("query", request.query, _QUERY_CHARS),
        folder=_plain("folder", request.folder, _FOLDER_CHARS),
        after=after,
        before=before,
        unread=request.unread_only,
    )


def grouped(query: str) -> str:
    """The query in parentheses, so that what is joined to it holds for all of it. Raises for one that would get out."""
    depth, quoted = 0, False
    for char in query:
        quoted ^= char == '"'
        depth += 0 if quoted else (char == "(") - (char == ")")
        if depth < 0:
            break
    if depth or quoted:
        raise faults.argument("query", "parentheses and quotes in query must come in pairs")
    return f"({query})"


def _plain(name: str, value: str, most: int) -> str:
    value = value.strip()
    if len(value) > most:
        raise faults.argument(name, f"{name} is longer than {most} characters")
    if not value.isprintable():
        raise faults.argument(name, f"{name} holds characters that cannot be seen")
    return value


def _midnight(name: str, text: str, timezone: str) -> int | None:
    """The moment a calendar day begins, in epoch seconds."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        if day.isoformat() != text:  # Python reads 20260131 and week dates too
            raise ValueError
        start = datetime.combine(day, time.min)
        return int((start.replace(tzinfo=_zone(timezone)) if timezone else start.astimezone()).timestamp())
    except (ValueError, OverflowError, OSError):
        raise faults.argument(name, f"{name} is a calendar day, YYYY-MM-DD") from None


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)
