"""Domains: adding one, the DNS records to set for it, looking whether they are set.

A domain works as soon as it is added: its mail server is the owner's, and nothing here waits for
the DNS. The config's domains are listed too and stay. Seen by everybody, changed by the owner.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, select, tuple_, update

from postroom.errors import Conflict, Forbidden, Invalid, NotFound, PostroomError, TransportFailure
from postroom.model.domain import Domain, DomainFlags
from postroom.model.event import DOMAIN_VERIFIED
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import DEFAULT_POD, Principal, require_owner
from postroom.office import tables as t
from postroom.office.desk import Desk, insert_into
from postroom.office.dns_records import is_reserved, judge, missing, questions, records_of, zone_file
from postroom.office.rows import to_json
from postroom.policy.recipients import canonical_domain
from postroom.store.statement import Statement, insert_or_ignore, sql
from postroom.store.transaction import Reader, Tx
from postroom.wires.dns import Lookup, Resolver

_WHAT: Final = "manage domains"
_COLUMNS = (
    t.domain.c.id,
    t.domain.c.name,
    t.domain.c.pod,
    t.domain.c.feedback,
    t.domain.c.inbound,
    t.domain.c.subdomains,
    t.domain.c.found,
    t.domain.c.verified_at,
    t.domain.c.created_at,
    t.domain.c.updated_at,
)
_FIELDS: Final = (
    "pod",
    "name",
    "feedback",
    "inbound",
    "subdomains",
    "tracking",
    "found",
    "verified_at",
    "created_at",
    "updated_at",
)
_INSERT = insert_into(t.domain, _FIELDS)
_ENTER = insert_or_ignore(t.domain, _FIELDS)
_ONE = sql(select(*_COLUMNS).where(t.domain.c.name == bindparam("name")))
_UPDATE = sql(
    update(t.domain)
    .where(t.domain.c.name == bindparam("name"))
    .values(
        feedback=bindparam("new_feedback"),
        inbound=bindparam("new_inbound"),
        subdomains=bindparam("new_subdomains"),
        found=bindparam("new_found"),
        verified_at=bindparam("new_verified_at"),
        updated_at=bindparam("at"),
    )
)
_DELETE = sql(delete(t.domain).where(t.domain.c.name == bindparam("name")))
_INBOXES_AT = sql(select(func.count()).select_from(t.inbox).where(t.inbox.c.address.like(bindparam("ending"), escape="\\")))


@lru_cache(maxsize=4)
def _list_sql(*, after: bool, ascending: bool) -> Statement:
    at, key = t.domain.c.created_at, t.domain.c.id
    query = select(*_COLUMNS)
    if after:
        mark = tuple_(bindparam("after_at"), bindparam("after_id"))
        query = query.where(tuple_(at, key) > mark if ascending else tuple_(at, key) < mark)
    order = (at, key) if ascending else (at.desc(), key.desc())
    return sql(query.order_by(*order).limit(bindparam("most")))


class Domains(Desk):
    """The verbs on domains. A domain's id is its name."""

    _resolver: Lookup | None = None

    def looked_up_by(self, resolver: Lookup | None) -> None:
        """Who answers questions about records; None is the configured name server, or the system's."""
        self._resolver = resolver

    async def list_domains(self, principal: Principal, page: PageRequest) -> Page[Domain]:
        await self._enter_fixed()
        size = page.size()
        listing = scope_of("domains", page.ascending)
        position = read_token(listing, page.page_token, int, int)
        statement = _list_sql(after=position is not None, ascending=page.ascending)
        onward = {} if position is None else {"after_at": position[0], "after_id": position[1]}
        rows = await self._store.read(lambda reader: reader.all(statement, most=size + 1, **onward))
        token = make_token(listing, [rows[size - 1][8], rows[size - 1][0]]) if len(rows) > size else None
        return Page(items=tuple(self._domain_noun(row) for row in rows[:size]), next_page_token=token)

    async def create_domain(self, principal: Principal, name: str, flags: DomainFlags) -> Domain:
        """Deliver this domain inside from now on. Raises `Invalid` for what is no domain, `Forbidden` for one there is."""
        require_owner(principal, _WHAT)
        await self._enter_fixed()
        canonical = canonical_domain(name)
        if canonical is None or "." not in canonical:
            message = "that is no domain with a dot in it"
            raise Invalid(message, errors=[{"path": ["domain"], "message": message, "code": "invalid_value"}])
        now = self._store.clock.now_us()

        def create(tx: Tx) -> None:
            if tx.one(_ONE, name=canonical) is not None:
                raise Forbidden("that domain is already here", code="already_exists", fix="list domains to see it")
            tx.insert(_INSERT, **_row(canonical, flags, now))
            tx.after_commit(self._local.refresh)

        await self._store.write(create)
        return self._get(canonical)

    async def get_domain(self, principal: Principal, name: str) -> Domain:
        await self._enter_fixed()
        return self._get(canonical_domain(name) or name.strip().lower())

    async def update_domain(self, principal: Principal, name: str, changes: Mapping[str, bool]) -> Domain:
        """Change flags. A record that is now needed and was not before has to be found first."""
        require_owner(principal, _WHAT)
        if not changes:
            raise Invalid("nothing to change", fix="give feedback_enabled, inbound_enabled or subdomains_enabled")
        domain = await self.get_domain(principal, name)
        old = domain.flags
        flags = DomainFlags(**{"feedback": old.feedback, "inbound": old.inbound, "subdomains": old.subdomains} | dict(changes))
        now = self._store.clock.now_us()

        def change(tx: Tx) -> None:
            row = tx.one(_ONE, name=domain.name)
            if row is None:
                raise _unknown()
            found = json.loads(row[6])
            stays = is_reserved(domain.name) or missing(found, flags) is None
            _write(tx, domain.name, flags, found, verified_at=row[7] if stays else None, at=now)

        await self._store.write(change)
        return self._get(domain.name)

    async def delete_domain(self, principal: Principal, name: str) -> None:
        """Take it away. Raises `Conflict` while inboxes are at it, and for the config's own."""
        require_owner(principal, _WHAT)
        domain = await self.get_domain(principal, name)
        if domain.name in self._local.fixed:
            raise Conflict("this domain stands in the config", code="cannot_delete", fix="take it out of office.domains there")

        def drop(tx: Tx) -> None:
            ending = "%@" + domain.name.replace("_", "\\_")
            if tx.scalar(_INBOXES_AT, ending=ending):
                raise Conflict("there are inboxes at this domain", code="cannot_delete", fix="delete them first")
            tx.run(_DELETE, name=domain.name)
            tx.after_commit(self._local.refresh)

        await self._store.write(drop)

    async def verify_domain(self, principal: Principal, name: str) -> Domain:
        """Look at its DNS records now. The first time all are there is an event."""
        require_owner(principal, _WHAT)
        domain = await self.get_domain(principal, name)
        found = {} if is_reserved(domain.name) else await self._look(domain)
        verified = is_reserved(domain.name) or missing(found, domain.flags) is None
        now = self._store.clock.now_us()

        def settle(tx: Tx) -> None:
            row = tx.one(_ONE, name=domain.name)
            if row is None:
                raise _unknown()
            _write(tx, domain.name, domain.flags, found, verified_at=(row[7] or now) if verified else None, at=now)
            if verified and row[7] is None:
                tx.emit(DOMAIN_VERIFIED, domain.name, at=now, pod_id=row[2])

        await self._store.write(settle)
        return self._get(domain.name)

    async def domain_zone_file(self, principal: Principal, name: str) -> str:
        domain = await self.get_domain(principal, name)
        return zone_file(domain.name, domain.records)

    async def _look(self, domain: Domain) -> dict[str, tuple[str, str | None]]:
        asked = questions(domain.name, domain.flags)
        self._resolver = self._resolver or Resolver("system" if self._config.inbound.dns == "off" else self._config.inbound.dns)
        resolver = self._resolver
        try:
            answers = await asyncio.gather(*(resolver.lookup(where, kind) for kind, where in asked.values()))  # type: ignore[arg-type]  # MX or TXT
        except TransportFailure:
            raise PostroomError("the DNS did not answer", code="unprocessable", fix="try again later") from None
        except ImportError:
            raise PostroomError(
                "looking up DNS records needs the extra `authentication`",
                code="unprocessable",
                fix="pip install postroom[authentication]",
            ) from None
        return {record: judge(record, answer) for record, answer in zip(asked, answers, strict=True)}

    async def _enter_fixed(self) -> None:
        """The config's domains have rows like the others, made when they are first asked for."""
        names = self._local.fixed
        present = self._store.read_now(lambda reader: [name for name in names if reader.one(_ONE, name=name) is not None])
        if len(present) < len(names):
            rows = [_row(name, DomainFlags(), self._store.clock.now_us()) for name in names if name not in present]
            await self._store.write(lambda tx: _enter(tx, rows))

    def _get(self, name: str) -> Domain:
        def read(reader: Reader) -> Domain:
            row = reader.one(_ONE, name=name)
            if row is None:
                raise _unknown()
            return self._domain_noun(row)

        return self._store.read_now(read)

    def _domain_noun(self, row: tuple[Any, ...]) -> Domain:
        flags = DomainFlags(feedback=bool(row[3]), inbound=bool(row[4]), subdomains=bool(row[5]))
        found = json.loads(row[6])
        verified, looked = row[7] is not None, bool(found)
        return Domain(
            name=row[1],
            pod_id=row[2],
            status="VERIFIED" if verified else "PENDING" if looked else "NOT_STARTED",
            flags=flags,
            records=records_of(row[1], flags, found, self._config.relay.host),
            reason=missing(found, flags) if looked and not verified else None,
            created_at=row[8],
            updated_at=row[9],
        )


def _row(name: str, flags: DomainFlags, now: int) -> dict[str, Any]:
    return {
        "pod": DEFAULT_POD,
        "name": name,
        "feedback": int(flags.feedback),
        "inbound": int(flags.inbound),
        "subdomains": int(flags.subdomains),
        "tracking": 0,
        "found": "{}",
        "verified_at": None,
        "created_at": now,
        "updated_at": now,
    }


def _enter(tx: Tx, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        tx.run(_ENTER, **row)


def _write(tx: Tx, name: str, flags: DomainFlags, found: Mapping[str, Any], *, verified_at: int | None, at: int) -> None:
    tx.run(
        _UPDATE,
        name=name,
        new_feedback=int(flags.feedback),
        new_inbound=int(flags.inbound),
        new_subdomains=int(flags.subdomains),
        new_found=to_json(found),
        new_verified_at=verified_at,
        at=at,
    )


def _unknown() -> NotFound:
    return NotFound("Domain not found", fix="list domains to see the ones there are")
