"""What every group of verbs shares: the store, the domains, and the one way from a caller to an inbox.

`Desk` is the base the verbs of `Mail` are mixed over. The check of what a caller may use is
`model.principal`'s; here it meets the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Table, bindparam, insert, select

from postroom.config import Config
from postroom.errors import Invalid, NotFound
from postroom.model.mail import Inbox
from postroom.model.principal import Principal, may_use_inbox, require_inbox
from postroom.office import tables as t
from postroom.office.local import LocalDomains
from postroom.office.rows import INBOX_COLUMNS, inbox_noun
from postroom.store.engine import Store
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader

GET_INBOX = sql(select(*INBOX_COLUMNS).where(t.inbox.c.address == bindparam("address")))
_GET_BY_KEY = sql(select(*INBOX_COLUMNS).where(t.inbox.c.id == bindparam("key")))
_OWNED = sql(select(t.inbox.c.id).where(t.inbox.c.owner_agent == bindparam("agent")))
_IN_POD = sql(select(t.inbox.c.id).where(t.inbox.c.pod == bindparam("pod")))


class Place(NamedTuple):
    """An inbox the caller may use, and its key."""

    key: int
    inbox: Inbox


class Scope(NamedTuple):
    """Which inboxes a listing covers. `name` says so independently of how many there are by now."""

    keys: tuple[int, ...]
    name: str


class Desk:
    """The store and the names every verb needs."""

    def __init__(self, store: Store, config: Config, domains: LocalDomains | None = None) -> None:
        self._store = store
        self._config = config
        self._local = domains or LocalDomains(store, config)

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains delivered inside (lower case)."""
        return self._local.names

    def _place(self, principal: Principal, inbox_id: str) -> Place:
        """The inbox, if the caller may use it. Raises `NotFound`."""
        address = inbox_id.strip().lower()
        return self._store.read_now(lambda reader: place_of(reader, principal, address))

    def _scope(self, principal: Principal, inbox_id: str | None) -> Scope:
        """The inboxes a listing covers; one that is named must be the caller's."""
        named = inbox_id if inbox_id is not None else principal.inbox_scope
        if named is not None:
            place = self._place(principal, named)
            return Scope((place.key,), place.inbox.inbox_id)
        if principal.is_owner:
            rows = self._store.read_now(lambda reader: reader.all(_IN_POD, pod=principal.pod_id))
            return Scope(tuple(row[0] for row in rows), principal.pod_id)
        rows = self._store.read_now(lambda reader: reader.all(_OWNED, agent=principal.agent_id))
        return Scope(tuple(row[0] for row in rows), principal.agent_id or "")


def place_of(reader: Reader, principal: Principal, address: str) -> Place:
    """The inbox at `address`, if the caller may use it. Raises `NotFound`."""
    row = reader.one(GET_INBOX, address=address)
    inbox = require_inbox(principal, None if row is None else inbox_noun(row))
    return Place(0 if row is None else row[0], inbox)


def place_of_key(reader: Reader, principal: Principal, key: int, what: str) -> Place:
    """The inbox with this key; `NotFound` names `what` was looked for when the caller may not use it."""
    row = reader.one(_GET_BY_KEY, key=key)
    inbox = None if row is None else inbox_noun(row)
    if row is None or inbox is None or not may_use_inbox(principal, inbox):
        raise NotFound(f"{what} not found")
    return Place(row[0], inbox)


def check_uuid(value: str, field: str) -> str:
    """A UUID in its usual form. Raises `Invalid`."""
    try:
        return str(UUID(value))
    except ValueError:
        raise Invalid("Invalid UUID", errors=[{"path": [field], "message": "Invalid UUID", "code": "invalid_uuid"}]) from None


def insert_into(table: Table, columns: Sequence[str]) -> Statement:
    """INSERT of the named columns, each a parameter."""
    return sql(insert(table).values({name: bindparam(name) for name in columns}))
