"""Searching mail. Newest first: that order is stable while mail arrives, and costs the same in any office.

Mail marked spam, blocked, unauthenticated or trash is never found. A thread is found by its newest
message that matches; the match shows in `highlights`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import and_, select

from postroom.errors import Invalid
from postroom.model.mail import Message, Thread
from postroom.model.paging import MailFilter, Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Principal
from postroom.office import tables as t
from postroom.office.desk import Desk, Scope
from postroom.office.labels import ALL_HIDDEN
from postroom.office.messages import FULL, message_nouns
from postroom.office.rows import key_list, strings
from postroom.office.threads import BY_KEYS, thread_nouns
from postroom.store.statement import sql
from postroom.store.transaction import Reader

_QUERY_CHARS: Final = 1000
_STEP: Final = 100
_PASSAGE: Final = 60

_FOUND = sql(
    select(
        t.message.c.id,
        t.message.c.thread,
        t.message.c.timestamp,
        t.message.c.fold_from,
        t.message.c.fold_recipients,
        t.message.c.fold_subject,
    ).where(
        and_(t.message.c.id.in_(key_list("keys")), t.message.c.hidden.bitwise_and(ALL_HIDDEN) == 0),
    )
)
_ADDRESSES = sql(select(t.inbox.c.address).where(t.inbox.c.id.in_(key_list("keys"))))
_PARTS = sql(
    select(t.message.c.id, t.message.c.from_, t.message.c.to_, t.message.c.cc, t.message.c.subject, t.message.c.text).where(
        t.message.c.id.in_(key_list("keys"))
    )
)


class Search(Desk):
    """The verbs that search."""

    async def search_messages(
        self, principal: Principal, inbox_id: str, query: str, page: PageRequest, filter: MailFilter
    ) -> Page[Message]:
        scope = self._scope(principal, inbox_id)
        size = page.size(filtered=True)
        listing = scope_of("search messages", scope.name, query, filter)
        before = _position(listing, page)
        accept = _accept(filter)

        def read(reader: Reader) -> Page[Message]:
            found = self._matches(reader, scope, _checked(query), before=before, most=size + 1, accept=accept)
            keys = [row[0] for row in found[:size]]
            rows = {row[0]: row[:19] for row in reader.all(FULL, keys=keys)}
            messages = message_nouns(reader, [rows[key] for key in keys], inbox_id.strip().lower())
            shown = _highlights(reader, keys, query)
            items = tuple(replace(item, highlights=shown.get(key)) for key, item in zip(keys, messages, strict=True))
            return Page(items=items, next_page_token=make_token(listing, [keys[-1]]) if len(found) > size else None)

        return await self._store.read(read)

    async def search_threads(
        self, principal: Principal, inbox_id: str | None, query: str, page: PageRequest, filter: MailFilter
    ) -> Page[Thread]:
        scope = self._scope(principal, inbox_id)
        size = page.size(filtered=True)
        listing = scope_of("search threads", scope.name, query, filter)
        before = _position(listing, page)

        def read(reader: Reader) -> Page[Thread]:
            found = self._first_of_threads(reader, scope, _checked(query), before=before, most=size + 1, accept=_accept(filter))
            best = {row[1]: row[0] for row in found[:size]}
            rows = {row[0]: row for row in reader.all(BY_KEYS, keys=list(best))}
            threads = thread_nouns(reader, [rows[key] for key in best])
            shown = _highlights(reader, list(best.values()), query)
            items = tuple(replace(item, highlights=shown.get(key)) for key, item in zip(best.values(), threads, strict=True))
            token = make_token(listing, [found[size - 1][0]]) if len(found) > size else None
            return Page(items=items, next_page_token=token)

        return await self._store.read(read)

    def _first_of_threads(
        self, reader: Reader, scope: Scope, query: str, *, before: int | None, most: int, accept: Callable[[Sequence[Any]], bool]
    ) -> list[tuple[Any, ...]]:
        """For each thread its newest match, unless an earlier page (whose matches are newer) had that thread."""
        seen: set[int] = set()
        if before is not None:
            newer = self._matches(reader, scope, query, before=None, most=None, accept=accept, down_to=before)
            seen = {row[1] for row in newer}
        fresh: dict[int, tuple[Any, ...]] = {}
        while len(fresh) < most:
            found = self._matches(reader, scope, query, before=before, most=_STEP, accept=accept)
            for row in found:
                if row[1] not in seen and len(fresh) < most:
                    fresh.setdefault(row[1], row)
            if len(found) < _STEP:
                break
            before = found[-1][0]
        return list(fresh.values())

    def _matches(
        self,
        reader: Reader,
        scope: Scope,
        query: str,
        *,
        before: int | None,
        most: int | None,
        accept: Callable[[Sequence[Any]], bool],
        down_to: int = 0,
    ) -> list[tuple[Any, ...]]:
        """Visible matches, newest first: at most `most`, none below `down_to`."""
        inboxes = _addresses(reader, scope)
        kept: list[tuple[Any, ...]] = []
        while most is None or len(kept) < most:
            keys = self._store.search.find(reader, query, inboxes=inboxes, limit=_STEP, before_id=before)
            rows = {row[0]: row for row in reader.all(_FOUND, keys=keys)} if keys else {}
            kept += [rows[key] for key in keys if key >= down_to and key in rows and accept(rows[key])]
            if len(keys) < _STEP or keys[-1] < down_to:
                break
            before = keys[-1]
        return kept if most is None else kept[:most]


def _accept(filter: MailFilter) -> Callable[[Sequence[Any]], bool]:
    """Does a row of _FOUND meet the filter's bounds and substrings?"""

    def accept(row: Sequence[Any]) -> bool:
        if (filter.after is not None and row[2] < filter.after) or (filter.before is not None and row[2] >= filter.before):
            return False
        wanted = ((filter.senders, row[3]), (filter.recipients, row[4]), (filter.subject, row[5]))
        return all(text.casefold() in folded for texts, folded in wanted for text in texts)

    return accept


def _position(listing: str, page: PageRequest) -> int | None:
    position = read_token(listing, page.page_token, int)
    return None if position is None else int(position[0])


def _checked(query: str) -> str:
    if not query.strip() or len(query) > _QUERY_CHARS:
        rule = f"a query has 1 to {_QUERY_CHARS} characters"
        raise Invalid(rule, errors=[{"path": ["q"], "message": rule, "code": "out_of_range"}])
    return query


def _addresses(reader: Reader, scope: Scope) -> list[str]:
    return [row[0] for row in reader.all(_ADDRESSES, keys=scope.keys)]


def _highlights(reader: Reader, keys: Sequence[int], query: str) -> dict[int, dict[str, tuple[str, ...]]]:
    """Where the query's words stand in each message, between `**`."""
    words = [re.escape(word) for word in re.findall(r"\w+", query)]
    if not words or not keys:
        return {}
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(words)})\w*|{'|'.join(words)}", re.IGNORECASE)
    shown: dict[int, dict[str, tuple[str, ...]]] = {}
    for key, from_, to, cc, subject, text in reader.all(_PARTS, keys=keys):
        fields = {"from": from_, "recipients": ", ".join((*strings(to), *strings(cc))), "subject": subject, "text": text}
        passages = {name: passage for name, value in fields.items() if (passage := _passage(value, pattern))}
        shown[key] = {name: (passage,) for name, passage in passages.items()}
    return shown


def _passage(value: str | None, pattern: re.Pattern[str]) -> str | None:
    """The words around the first match, every match marked; None without one."""
    first = pattern.search(value) if value else None
    if first is None or value is None:
        return None
    start, end = max(0, first.start() - _PASSAGE), first.end() + _PASSAGE
    return pattern.sub(lambda match: f"**{match[0]}**", " ".join(value[start:end].split()))
