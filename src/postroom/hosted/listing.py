"""One list over several inboxes, where the service has a list for each.

A page is merged from one page of each inbox. The token says for each where it stands: the service's own token and
how many rows of that page were given already; so it is as good for the next page as the service's tokens are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from postroom.errors import Invalid
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of

T = TypeVar("T")
_DONE: Final = -1
Path: TypeAlias = tuple[str, ...]
PageOf: TypeAlias = Callable[[Path, PageRequest], Awaitable[Page[T]]]


async def merged(
    inboxes: Sequence[Path], page: PageRequest, page_of: PageOf[T], *, newest: Callable[[T], int] | None = None, what: str
) -> Page[T]:
    """A page of all. `newest` is what rows are sorted by, the largest first; None takes them in turn, as a search ranks them."""
    if len(inboxes) == 1:
        return await page_of(inboxes[0], page)
    size = page.size()
    scope = scope_of("hosted", what, tuple(inboxes), size, page.ascending)
    stands = _stands(scope, page.page_token, len(inboxes))
    pages = await asyncio.gather(*(_one(inbox, at, page, page_of) for inbox, at in zip(inboxes, stands, strict=True)))
    sign = 1 if page.ascending else -1
    rows = [
        (sign * newest(row) if newest else rank, number, row)
        for number, (found, at) in enumerate(zip(pages, stands, strict=True))
        for rank, row in enumerate(found.items[max(at[1], 0) :])
    ]
    rows.sort(key=lambda entry: entry[:2])
    taken = rows[:size]
    counts = Counter(number for _, number, _ in taken)
    after = [_advanced(at, found, counts[number]) for number, (at, found) in enumerate(zip(stands, pages, strict=True))]
    more = any(at[1] != _DONE for at in after)
    return Page(items=tuple(row for *_, row in taken), next_page_token=make_token(scope, [after]) if more else None)


def _stands(scope: str, token: str | None, count: int) -> list[list[Any]]:
    """Where each inbox's list stands. Raises `Invalid` for a token that is not one of ours."""
    given = read_token(scope, token, list)
    stands: list[list[Any]] = given[0] if given else [["", 0] for _ in range(count)]
    if len(stands) != count or any(not isinstance(at, list) or [*map(type, at)] != [str, int] for at in stands):
        raise Invalid("the page token is not valid for this list", fix="start again without page_token")
    return stands


async def _one(inbox: Path, at: list[Any], page: PageRequest, page_of: PageOf[T]) -> Page[T]:
    if at[1] == _DONE:
        return Page(items=())
    return await page_of(inbox, PageRequest(limit=page.size(), page_token=at[0] or None, ascending=page.ascending))


def _advanced(at: list[Any], found: Page[T], taken: int) -> list[Any]:
    token, given = at
    if given == _DONE:
        return at
    if given + taken < len(found.items):
        return [token, given + taken]
    return [found.next_page_token, 0] if found.next_page_token else ["", _DONE]
