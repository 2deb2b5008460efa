"""Allow and block lists: whom an inbox may write to, hear from, and be answered by.

An entry is an address or a domain, for one inbox or for the whole pod. The config's own entries are
shown with the pod's and are read-only. Enforcing the send lists is the gate's; the receive and
reply lists meet arriving mail in `receiving`. Suppressed addresses count as blocked for sending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import and_, bindparam, delete, or_, select

from postroom.errors import Conflict, Invalid, NotFound
from postroom.model.mail import ListEntry
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Principal, require_owner
from postroom.office import tables as t
from postroom.office.desk import Desk, insert_into
from postroom.policy.recipients import canonical_address, canonical_domain, check_entry
from postroom.store.statement import sql
from postroom.store.transaction import Reader, Tx

Direction: TypeAlias = Literal["send", "receive", "reply"]
ListType: TypeAlias = Literal["allow", "block"]

_POD: Final = 0
_REASON_CHARS: Final = 1024
_ENTRY = (t.list_entry.c.entry, t.list_entry.c.type, t.list_entry.c.reason, t.list_entry.c.created_at)
_AT = and_(
    t.list_entry.c.pod == bindparam("pod"),
    t.list_entry.c.inbox == bindparam("inbox"),
    t.list_entry.c.direction == bindparam("direction"),
)
_ALL = sql(select(*_ENTRY).where(and_(_AT, t.list_entry.c.type == bindparam("kind"))).order_by(t.list_entry.c.entry))
_ONE = sql(select(*_ENTRY).where(and_(_AT, t.list_entry.c.entry == bindparam("entry"))))
_INSERT = insert_into(t.list_entry, ("pod", "inbox", "direction", "type", "entry", "reason", "created_at"))
_DELETE = sql(delete(t.list_entry).where(and_(_AT, t.list_entry.c.entry == bindparam("entry"))))
_SEND = sql(
    select(t.list_entry.c.entry)
    .where(
        and_(
            t.list_entry.c.pod == bindparam("pod"),
            or_(t.list_entry.c.inbox == _POD, t.list_entry.c.inbox == bindparam("inbox")),
            t.list_entry.c.direction == "send",
            t.list_entry.c.type == bindparam("kind"),
        )
    )
    .order_by(t.list_entry.c.entry)
)
_SUPPRESSED = sql(select(t.suppression.c.address).where(t.suppression.c.pod == bindparam("pod")))


class Lists(Desk):
    """The verbs on lists. `inbox_id` None means the pod's list."""

    async def send_list(self, principal: Principal, inbox_id: str, kind: ListType) -> tuple[str, ...]:
        """Entries of the send list that applies to this inbox."""
        place = self._place(principal, inbox_id)

        def read(reader: Reader) -> list[tuple[Any, ...]]:
            rows = reader.all(_SEND, pod=place.inbox.pod_id, inbox=place.key, kind=kind)
            return rows + (reader.all(_SUPPRESSED, pod=place.inbox.pod_id) if kind == "block" else [])

        return tuple(dict.fromkeys(row[0] for row in self._store.read_now(read)))

    async def list_entries(
        self, principal: Principal, inbox_id: str | None, direction: Direction, kind: ListType, page: PageRequest
    ) -> Page[ListEntry]:
        """One list in the order of its entries."""
        key = self._list_key(principal, inbox_id)
        size = page.size()
        listing = scope_of("entries", principal.pod_id, key, direction, kind)
        position = read_token(listing, page.page_token, str)
        rows = await self._store.read(
            lambda reader: reader.all(_ALL, pod=principal.pod_id, inbox=key, direction=direction, kind=kind)
        )
        entries = [_entry(row, principal, inbox_id, direction) for row in rows] + self._fixed(
            principal, inbox_id, direction, kind
        )
        onward = sorted((entry for entry in entries if position is None or entry.entry > position[0]), key=_by_entry)
        token = make_token(listing, [onward[size - 1].entry]) if len(onward) > size else None
        return Page(items=tuple(onward[:size]), next_page_token=token)

    async def create_entry(
        self,
        principal: Principal,
        inbox_id: str | None,
        direction: Direction,
        kind: ListType,
        entry: str,
        *,
        reason: str | None = None,
    ) -> ListEntry:
        """Add an entry, or return the one there is. Raises `Conflict` when it stands on the opposite list."""
        require_owner(principal, "change lists")
        key = self._list_key(principal, inbox_id)
        canonical = check_entry(entry)
        if reason is not None and len(reason) > _REASON_CHARS:
            raise Invalid(f"a reason has at most {_REASON_CHARS} characters")
        where = {"pod": principal.pod_id, "inbox": key, "direction": direction}
        now = self._store.clock.now_us()

        def create(tx: Tx) -> tuple[Any, ...]:
            there = tx.one(_ONE, **where, entry=canonical)
            if there is None:
                tx.insert(_INSERT, **where, type=kind, entry=canonical, reason=reason, created_at=now)
                return (canonical, kind, reason, now)
            if there[1] != kind:
                raise Conflict("the entry is on the opposite list", fix="delete it there first")
            return there

        return _entry(await self._store.write(create), principal, inbox_id, direction)

    async def get_entry(
        self, principal: Principal, inbox_id: str | None, direction: Direction, kind: ListType, entry: str
    ) -> ListEntry:
        key = self._list_key(principal, inbox_id)
        canonical = _canonical(entry)
        row = self._store.read_now(
            lambda reader: reader.one(_ONE, pod=principal.pod_id, inbox=key, direction=direction, entry=canonical)
        )
        if row is not None and row[1] == kind:
            return _entry(row, principal, inbox_id, direction)
        for fixed in self._fixed(principal, inbox_id, direction, kind):
            if fixed.entry == canonical:
                return fixed
        raise NotFound("List entry not found")

    async def delete_entry(
        self, principal: Principal, inbox_id: str | None, direction: Direction, kind: ListType, entry: str
    ) -> None:
        require_owner(principal, "change lists")
        found = await self.get_entry(principal, inbox_id, direction, kind, entry)
        if found.read_only:
            raise Conflict("the entry stands in the config", code="cannot_delete", fix="remove it from [gate] in the config file")
        where = {"pod": principal.pod_id, "inbox": self._list_key(principal, inbox_id), "direction": direction}
        await self._store.write(lambda tx: tx.run(_DELETE, **where, entry=found.entry))

    def _list_key(self, principal: Principal, inbox_id: str | None) -> int:
        if inbox_id is not None:
            return self._place(principal, inbox_id).key
        require_owner(principal, "read the lists of the whole house")
        return _POD

    def _fixed(self, principal: Principal, inbox_id: str | None, direction: Direction, kind: ListType) -> list[ListEntry]:
        """The config's entries: `gate.limit` is the send allow list, `gate.blocked` the send block list."""
        if inbox_id is not None or direction != "send":
            return []
        entries: Sequence[str] = self._config.gate.limit if kind == "allow" else self._config.gate.blocked
        return [
            ListEntry(entry=_canonical(entry), direction="send", list_type=kind, pod_id=principal.pod_id, read_only=True)
            for entry in entries
        ]


def _canonical(entry: str) -> str:
    """As entries are stored; what could not be one is found nowhere."""
    rule = entry.strip()
    found = canonical_address(rule) if "@" in rule[1:] else canonical_domain(rule.removeprefix("@"))
    return found or rule


def _by_entry(entry: ListEntry) -> str:
    return entry.entry


def _entry(row: Sequence[Any], principal: Principal, inbox_id: str | None, direction: Direction) -> ListEntry:
    return ListEntry(
        entry=row[0],
        direction=direction,
        list_type=row[1],
        pod_id=principal.pod_id,
        inbox_id=None if inbox_id is None else inbox_id.strip().lower(),
        reason=row[2],
        created_at=row[3],
    )
