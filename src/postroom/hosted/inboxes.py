"""Which inboxes of the account there are, and whose each is.

The service knows inboxes, this house knows agents: an inbox belongs to one agent by a row here, and to nobody
else's word. An agent without one gets one once, by one rule for the whole process: the configured inbox, else the
account's only free one, else, where the account has none, a new one. What several could be meant by is never
guessed. A failure is not remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from sqlalchemy import bindparam, select, update

from postroom.config import Config
from postroom.errors import Invalid
from postroom.hosted import tables
from postroom.hosted.api import Api, Json
from postroom.hosted.shapes import inbox_of, needed, objects_of
from postroom.model.mail import Inbox
from postroom.model.principal import DEFAULT_POD, Kind, Principal, require_inbox
from postroom.store.engine import Store, Tx
from postroom.store.statement import insert_or_ignore, sql

AUTO: Final = "postroom-first-inbox"  # the client id of the one made unasked, so that it is made once
_LISTED: Final = "100"

_t = tables.hosted_inbox
_c = _t.c
_COLUMNS = (_c.address, _c.owner_agent, _c.display_name, _c.floor_at, _c.seen_at, _c.created_at)
_ONE = sql(select(*_COLUMNS).where(_c.address == bindparam("address")))
_OWNED = sql(select(*_COLUMNS).where(_c.owner_agent == bindparam("agent_id")).order_by(_c.id))
_FOLLOWED = sql(select(*_COLUMNS).where(_c.owner_agent.is_not(None)).order_by(_c.id))
_ADD = insert_or_ignore(_t, ("pod", "address", "owner_agent", "display_name", "floor_at", "seen_at", "created_at"))
_OWN = sql(update(_t).where(_c.address == bindparam("at_address")).values(owner_agent=bindparam("new_owner")))
_NAME = sql(update(_t).where(_c.address == bindparam("at_address")).values(display_name=bindparam("new_name")))

Directory: TypeAlias = Callable[[str], Awaitable[Principal | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """An inbox of an agent, and how far it was read. `floor_at` None: it was never looked at."""

    address: str
    owner_agent: str | None
    display_name: str | None
    floor_at: int | None
    seen_at: int
    created_at: int


class Inboxes:
    """`directory` makes the principal of an agent's id (None: it is gone)."""

    def __init__(self, store: Store, api: Api, config: Config, directory: Directory) -> None:
        self._store = store
        self._api = api
        self._config = config
        self._directory = directory
        self._resolving = asyncio.Lock()
        self.claimed: Callable[[], None] = _nobody

    def followed(self) -> list[Followed]:
        """Every inbox that belongs to an agent."""
        return [_noun(row) for row in self._store.read_now(lambda reader: reader.all(_FOLLOWED))]

    def find(self, address: str) -> Followed | None:
        """The row of an inbox, if this house has one."""
        row = self._store.read_now(lambda reader: reader.one(_ONE, address=address))
        return None if row is None else _noun(row)

    async def owned(self, principal: Principal) -> list[Inbox]:
        """An agent's inboxes, without a request where it has one. An agent that has none is given one if that is plain."""
        agent_id = principal.agent_id or ""
        if not self._owned(agent_id):
            try:
                await self.resolve(agent_id)
            except Invalid:
                return []
        found = [row.address for row in self._owned(agent_id)]
        return [self._known(address) for address in found if principal.inbox_scope in (None, address)]

    def own(self, principal: Principal, inbox_id: str) -> str:
        """The address, if the caller may use it as far as this house can tell. Raises `NotFound`."""
        address = inbox_id.strip().lower()
        if principal.kind is Kind.AGENT or principal.inbox_scope is not None:
            row = self.find(address)
            require_inbox(principal, None if row is None and principal.agent_id else self._known(address))
        elif principal.pod_id != DEFAULT_POD:
            require_inbox(principal, None)
        return address

    async def get(self, principal: Principal, inbox_id: str) -> Inbox:
        """The inbox as it is now. For postroom's own work what is known here is enough, and needs no request."""
        address = self.own(principal, inbox_id)
        if principal.kind is Kind.SYSTEM and self.find(address) is not None:
            return self._known(address)
        inbox = self.noun(await self._api.call("GET", "inboxes", address))
        row = self.find(address)
        if row is not None and row.display_name != inbox.display_name:
            await self._store.write(lambda tx: tx.run(_NAME, at_address=address, new_name=inbox.display_name))
        return inbox

    def noun(self, said: Json) -> Inbox:
        """The service's inbox as this house's."""
        row = self.find(needed(said, "inbox_id").lower())
        return inbox_of(said, pod_id=DEFAULT_POD, owner_agent=None if row is None else row.owner_agent)

    async def claim(self, inbox: Inbox, agent_id: str, *, fresh: bool = False) -> Inbox:
        """Make it the agent's. `fresh`: it was made just now, so all its mail is news. Raises `Invalid` when it is another's."""
        address, now = inbox.inbox_id, self._store.clock.now_us()
        before = self.find(address)
        if before is not None and before.owner_agent not in (None, agent_id) and await self._directory(before.owner_agent or ""):
            raise Invalid(f"{address} belongs to another agent", fix="name another inbox")

        def take(tx: Tx) -> None:
            tx.run(
                _ADD,
                pod=DEFAULT_POD,
                address=address,
                owner_agent=agent_id,
                display_name=inbox.display_name,
                floor_at=0 if fresh else None,
                seen_at=0,
                created_at=now,
            )
            tx.run(_OWN, at_address=address, new_owner=agent_id)

        await self._store.write(take)
        self.claimed()
        return replace(inbox, owner_agent=agent_id)

    async def resolve(self, agent_id: str) -> Inbox:
        """The inbox of an agent that named none: one answer, found once. Raises `Invalid` when it is not plain."""
        async with self._resolving:
            if owned := self._owned(agent_id):
                return self._known(owned[0].address)
            wanted = await self._configured(agent_id)
            if wanted:
                return await self.claim(Inbox(inbox_id=wanted, pod_id=DEFAULT_POD), agent_id)
            found = await self._api.call("GET", "inboxes", query={"limit": _LISTED})
            listed = [self.noun(entry) for entry in objects_of(found, "inboxes")]
            if not listed:
                return await self._first(agent_id)
            free = [inbox for inbox in listed if not await self._taken(inbox)]
            if len(free) != 1 or "next_page_token" in found:
                raise _unclear(free)
            return await self.claim(free[0], agent_id)

    async def _first(self, agent_id: str) -> Inbox:
        if not self._config.office.auto_create_inbox:
            raise Invalid(
                "the account has no inbox, and office.auto_create_inbox is off",
                code="no_inbox",
                fix="make one and name it as office.inbox, or turn office.auto_create_inbox on",
            )
        made = await self._api.call("POST", "inboxes", body={"client_id": AUTO})
        return await self.claim(self.noun(made), agent_id, fresh=True)

    async def _configured(self, agent_id: str) -> str:
        """The inbox the config gives this agent: its own, else the office's if nobody has it."""
        agent = await self._directory(agent_id)
        settings = self._config.agents.get((agent.name if agent else None) or "")
        if settings is not None and settings.inbox:
            return settings.inbox.lower()
        address = self._config.office.inbox.lower()
        return address if address and not await self._taken(self._known(address)) else ""

    async def _taken(self, inbox: Inbox) -> bool:
        row = self.find(inbox.inbox_id)
        return row is not None and row.owner_agent is not None and await self._directory(row.owner_agent) is not None

    def _owned(self, agent_id: str) -> list[Followed]:
        return [_noun(row) for row in self._store.read_now(lambda reader: reader.all(_OWNED, agent_id=agent_id))]

    def _known(self, address: str) -> Inbox:
        row = self.find(address)
        if row is None:
            return Inbox(inbox_id=address, pod_id=DEFAULT_POD)
        return Inbox(
            inbox_id=row.address,
            pod_id=DEFAULT_POD,
            display_name=row.display_name,
            owner_agent=row.owner_agent,
            created_at=row.created_at,
            updated_at=row.created_at,
        )


def _unclear(free: list[Inbox]) -> Invalid:
    if not free:
        return Invalid(
            "every inbox of the account belongs to another agent",
            code="inbox_needed",
            fix="name one that is to be made: postroom agent add NAME --inbox ADDRESS",
        )
    shown = ", ".join(inbox.inbox_id for inbox in free[:10])
    return Invalid(
        f"the account has more than one free inbox: {shown}",
        code="inbox_needed",
        fix="set office.inbox or agents.NAME.inbox, or add the agent with --inbox ADDRESS",
    )


def _noun(row: tuple[Any, ...]) -> Followed:
    address, owner, name, floor_at, seen_at, created_at = row
    return Followed(
        address=address, owner_agent=owner, display_name=name, floor_at=floor_at, seen_at=seen_at, created_at=created_at
    )


def _nobody() -> None:
    """Until the office runs, nobody listens."""
