"""Inboxes: making, finding, changing. An inbox's id is its address; addresses are kept in lower case.

Making and changing is the owner's; whoever owns an inbox (an agent) is a column of its row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import and_, bindparam, select, tuple_, update

from postroom.errors import Forbidden, Invalid
from postroom.model.mail import Inbox, NewInbox
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Principal, require_owner
from postroom.office import tables as t
from postroom.office.desk import GET_INBOX, Desk, Scope, insert_into, place_of
from postroom.office.naming import (
    check_client_id,
    check_display_name,
    check_domain,
    check_metadata,
    check_username,
    random_username,
)
from postroom.office.rows import INBOX_COLUMNS, inbox_noun, key_list, to_json
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader, Tx

_COLUMNS = (
    "pod",
    "address",
    "display_name",
    "client_id",
    "status",
    "metadata",
    "owner_agent",
    "created_at",
    "updated_at",
)
_INSERT = insert_into(t.inbox, _COLUMNS)
_BY_CLIENT_ID = sql(
    select(*INBOX_COLUMNS).where(and_(t.inbox.c.pod == bindparam("pod"), t.inbox.c.client_id == bindparam("client_id")))
)
_UPDATE = sql(
    update(t.inbox)
    .where(t.inbox.c.id == bindparam("key"))
    .values(
        display_name=bindparam("new_display_name"),
        status=bindparam("new_status"),
        metadata=bindparam("new_metadata"),
        updated_at=bindparam("at"),
    )
)


@lru_cache(maxsize=16)
def _list_sql(*, after: bool, ascending: bool) -> Statement:
    position = tuple_(t.inbox.c.created_at, t.inbox.c.id)
    query = select(*INBOX_COLUMNS).where(t.inbox.c.id.in_(key_list("keys")))
    if after:
        mark = tuple_(bindparam("after_at"), bindparam("after_id"))
        query = query.where(position > mark if ascending else position < mark)
    order = (t.inbox.c.created_at, t.inbox.c.id)
    return sql(query.order_by(*(order if ascending else (column.desc() for column in order))).limit(bindparam("most")))


class Inboxes(Desk):
    """The verbs on inboxes."""

    async def list_inboxes(self, principal: Principal, page: PageRequest) -> Page[Inbox]:
        return await self._inbox_page(self._scope(principal, None), page, None)

    async def search_inboxes(self, principal: Principal, query: str, page: PageRequest) -> Page[Inbox]:
        """Inboxes whose address or display name has a word starting with each word of `query`."""
        words = query.casefold().split()
        if not 2 <= len(query.strip()) <= 256:
            raise Invalid(
                "q must have 2 to 256 characters", errors=[{"path": ["q"], "message": "2 to 256", "code": "out_of_range"}]
            )
        return await self._inbox_page(self._scope(principal, None), page, words)

    async def create_inbox(self, principal: Principal, new: NewInbox) -> Inbox:
        """Create, or return the one already made with the same `client_id`."""
        require_owner(principal, "create inboxes")
        client_id = check_client_id(new.client_id)
        domain = check_domain(new.domain, self.domains) if new.domain else self.domains[0]
        username = check_username(new.username) if new.username else None
        row = {
            "pod": principal.pod_id,
            "display_name": check_display_name(new.display_name),
            "client_id": client_id,
            "status": new.status,
            "metadata": to_json(check_metadata(new.metadata)),
            "owner_agent": new.owner_agent,
        }
        now = self._store.clock.now_us()

        def create(tx: Tx) -> Inbox:
            if client_id is not None:
                made = tx.one(_BY_CLIENT_ID, pod=principal.pod_id, client_id=client_id)
                if made is not None:
                    return inbox_noun(made)
            address = _free_address(tx, username, domain)
            tx.insert(_INSERT, **row, address=address, created_at=now, updated_at=now)
            return place_of(tx, principal, address).inbox

        return await self._store.write(create)

    async def get_inbox(self, principal: Principal, inbox_id: str) -> Inbox:
        return self._place(principal, inbox_id).inbox

    async def update_inbox(self, principal: Principal, inbox_id: str, changes: Mapping[str, Any]) -> Inbox:
        """Change `display_name`, `status`, `metadata` (merged; a null value deletes its key, null clears all)."""
        require_owner(principal, "change inboxes")
        known = {key: changes[key] for key in ("display_name", "status", "metadata") if key in changes}
        if not known:
            raise Invalid("nothing to change", fix="give display_name, status or metadata")
        if known.get("status", "active") not in ("active", "paused"):
            raise Invalid(
                "status is active or paused", errors=[{"path": ["status"], "message": "invalid", "code": "invalid_value"}]
            )
        now = self._store.clock.now_us()

        def change(tx: Tx) -> Inbox:
            key, inbox = place_of(tx, principal, inbox_id.strip().lower())
            tx.run(
                _UPDATE,
                key=key,
                new_display_name=check_display_name(known.get("display_name", inbox.display_name)),
                new_status=known.get("status", inbox.status),
                new_metadata=to_json(_merged(inbox.metadata, known)),
                at=now,
            )
            return place_of(tx, principal, inbox.inbox_id).inbox

        return await self._store.write(change)

    async def _inbox_page(self, scope: Scope, page: PageRequest, words: list[str] | None) -> Page[Inbox]:
        size = page.size(filtered=words is not None)
        listing = scope_of("inboxes", scope.name, page.ascending, words)
        position = read_token(listing, page.page_token, int, int)
        statement = _list_sql(after=position is not None, ascending=page.ascending)
        after_at, after_id = position or (0, 0)

        def read(reader: Reader) -> list[tuple[Any, ...]]:
            most = size + 1 if words is None else 2**31
            onward = {} if position is None else {"after_at": after_at, "after_id": after_id}
            rows = reader.all(statement, keys=scope.keys, most=most, **onward)
            return rows if words is None else [row for row in rows if _has_words(row, words)]

        rows = await self._store.read(read)
        token = make_token(listing, [rows[size - 1][8], rows[size - 1][0]]) if len(rows) > size else None
        return Page(items=tuple(inbox_noun(row) for row in rows[:size]), next_page_token=token)


def _free_address(reader: Reader, username: str | None, domain: str) -> str:
    if username is None:
        while reader.one(GET_INBOX, address=(address := f"{random_username()}@{domain}")) is not None:
            pass
        return address
    address = f"{username}@{domain}"
    if reader.one(GET_INBOX, address=address) is not None:
        raise Forbidden(
            "that address is taken",
            code="already_exists",
            fix="choose another username, or get the inbox that has it",
            details={"suggestions": _suggestions(reader, username, domain)},
        )
    return address


def _suggestions(reader: Reader, username: str, domain: str) -> list[str]:
    candidates = (f"{username[:60]}{number}@{domain}" for number in range(2, 50))
    free = (candidate for candidate in candidates if reader.one(GET_INBOX, address=candidate) is None)
    return [candidate for candidate, _ in zip(free, range(3), strict=False)]


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    if "metadata" not in changes:
        return dict(old)
    new = changes["metadata"]
    if new is None:
        return {}
    return check_metadata({key: value for key, value in {**old, **new}.items() if value is not None})


def _has_words(row: tuple[Any, ...], words: list[str]) -> bool:
    text = f"{row[2]} {row[3] or ''}".casefold()
    parts = "".join(char if char.isalnum() else " " for char in text).split()
    return all(text.startswith(word) or any(part.startswith(word) for part in parts) for word in words)
