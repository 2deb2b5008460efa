"""API keys an owner makes besides the one in the data folder: for the whole house, or for one inbox.

A key for the house is an owner's key. A key for one inbox is a token of the agent that owns the
inbox, so whatever it sends passes the gate; an inbox no agent owns has no keys. Every right of its
kind goes with a key: a map of finer permissions is not kept, so it is not accepted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import and_, bindparam, insert, select, tuple_, update

from postroom.access.tables import agent, api_key
from postroom.access.token import new_token
from postroom.errors import Conflict, Forbidden, Invalid, NotFound
from postroom.limits import KEY_CHARS
from postroom.model.mail import Inbox
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Kind, Principal, require_owner
from postroom.store.engine import Reader, Store, Tx
from postroom.store.statement import Statement, sql

_OWNER_KEY = "owner.key"
_PREFIX_CHARS = 14  # `am_key_` and seven digits of the id: enough to recognise a key, no part of its secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as listed; its secret is known to nobody. `inbox_id` is set for a key of one inbox."""

    key_id: str
    prefix: str
    name: str
    pod_id: str
    inbox_id: str | None
    agent_id: str | None
    created_at: int
    used_at: int | None
    expires_at: int | None


_SHOWN = (
    api_key.c.id,
    api_key.c.key_id,
    api_key.c.name,
    api_key.c.pod,
    api_key.c.inbox_scope,
    api_key.c.agent_id,
    api_key.c.created_at,
    api_key.c.used_at,
    api_key.c.expires_at,
)
_LISTED = and_(api_key.c.pod == bindparam("pod"), api_key.c.revoked_at.is_(None), api_key.c.session_id.is_(None))
_ONE = sql(select(*_SHOWN).where(_LISTED, api_key.c.key_id == bindparam("key_id")))
_RENAME = sql(update(api_key).where(api_key.c.key_id == bindparam("which")).values(name=bindparam("new_name")))
_AGENT = sql(select(agent.c.agent_id).where(agent.c.agent_id == bindparam("agent_id")))
_NEW = ("pod", "key_id", "secret_hash", "kind", "agent_id", "inbox_scope", "name", "created_at", "expires_at")
_ADD = sql(insert(api_key).values({name: bindparam(name) for name in _NEW}))


@lru_cache(maxsize=8)
def _list(*, scoped: bool, after: bool, ascending: bool) -> Statement:
    position = tuple_(api_key.c.created_at, api_key.c.id)
    query = select(*_SHOWN).where(_LISTED)
    if scoped:
        query = query.where(api_key.c.inbox_scope == bindparam("inbox"))
    if after:
        mark = tuple_(bindparam("after_at"), bindparam("after_id"))
        query = query.where(position > mark if ascending else position < mark)
    order = (api_key.c.created_at, api_key.c.id)
    return sql(query.order_by(*(order if ascending else (column.desc() for column in order))).limit(bindparam("most")))


class ApiKeys:
    """The owner's verbs on keys. `inbox` narrows each to the keys of that inbox."""

    def __init__(self, store: Store, revoke: Callable[[str], Awaitable[None]]) -> None:
        """`revoke` ends a key and forgets what is remembered of it."""
        self._store = store
        self._revoke = revoke

    async def create(
        self, principal: Principal, *, name: str = "", inbox: Inbox | None = None, expires_at: int | None = None
    ) -> tuple[ApiKey, str]:
        """A new key and its text, which is shown this once. An inbox without an agent ⇒ `Conflict`."""
        require_owner(principal, "create keys")
        text, token = new_token()
        now = self._store.clock.now_us()
        if expires_at is not None and expires_at <= now:
            raise Invalid("expires_at lies in the past", errors=[{"path": ["expires_at"], "message": "past", "code": "invalid"}])
        row = {
            "pod": principal.pod_id,
            "key_id": token.key_id,
            "secret_hash": token.secret_hash,
            "kind": (Kind.AGENT if inbox else Kind.OWNER).value,
            "agent_id": _agent_of(inbox),
            "inbox_scope": inbox.inbox_id if inbox else None,
            "name": _checked(name or "unnamed"),
            "created_at": now,
            "expires_at": expires_at,
        }

        def add(tx: Tx) -> ApiKey:
            if inbox is not None and tx.one(_AGENT, agent_id=inbox.owner_agent) is None:
                raise _no_agent()
            tx.insert(_ADD, **row)
            return _found(tx, principal, token.key_id, inbox)

        return await self._store.write(add), text

    async def list(self, principal: Principal, page: PageRequest, inbox: Inbox | None = None) -> Page[ApiKey]:
        """Keys that work, newest first; those issued to single sessions are not among them."""
        require_owner(principal, "list keys")
        size = page.size()
        listing = scope_of("api_keys", principal.pod_id, inbox.inbox_id if inbox else None, page.ascending)
        position = read_token(listing, page.page_token, int, int)
        params: dict[str, Any] = {"pod": principal.pod_id, "most": size + 1}
        if position is not None:
            params |= {"after_at": position[0], "after_id": position[1]}
        if inbox is not None:
            params["inbox"] = inbox.inbox_id
        statement = _list(scoped=inbox is not None, after=position is not None, ascending=page.ascending)
        rows = await self._store.read(lambda reader: reader.all(statement, **params))
        token = make_token(listing, [rows[size - 1][6], rows[size - 1][0]]) if len(rows) > size else None
        return Page(items=tuple(_noun(row) for row in rows[:size]), next_page_token=token)

    async def get(self, principal: Principal, key_id: str, inbox: Inbox | None = None) -> ApiKey:
        require_owner(principal, "read keys")
        return self._store.read_now(lambda reader: _found(reader, principal, key_id, inbox))

    async def rename(self, principal: Principal, key_id: str, name: str, inbox: Inbox | None = None) -> ApiKey:
        require_owner(principal, "change keys")
        new_name = _checked(name)

        def rename(tx: Tx) -> ApiKey:
            if _found(tx, principal, key_id, inbox).name == _OWNER_KEY:
                raise Forbidden("the key in the data folder keeps its name")
            tx.run(_RENAME, which=key_id, new_name=new_name)
            return _found(tx, principal, key_id, inbox)

        return await self._store.write(rename)

    async def delete(self, principal: Principal, key_id: str, inbox: Inbox | None = None) -> None:
        """The key stops working. The one in the data folder is replaced there, not here."""
        require_owner(principal, "delete keys")
        if (await self.get(principal, key_id, inbox)).name == _OWNER_KEY:
            raise Forbidden(
                "the key in the data folder cannot be deleted here",
                code="cannot_delete",
                fix=f"delete {_OWNER_KEY} in the data folder and start again for a new one",
            )
        await self._revoke(key_id)


def _agent_of(inbox: Inbox | None) -> str | None:
    if inbox is None:
        return None
    if inbox.owner_agent is None:
        raise _no_agent()
    return inbox.owner_agent


def _no_agent() -> Conflict:
    return Conflict(
        "this inbox belongs to no agent, so there is nobody a key for it could stand for",
        fix="give the inbox to an agent (`postroom agent add NAME --inbox ADDRESS`), or use a key of the house",
    )


def _checked(name: str) -> str:
    if len(name) > KEY_CHARS or name == _OWNER_KEY or not name.isprintable():
        message = f"1 to {KEY_CHARS} printable characters, and not {_OWNER_KEY}"
        raise Invalid(f"name: {message}", errors=[{"path": ["name"], "message": message, "code": "invalid"}])
    return name


def _found(reader: Reader, principal: Principal, key_id: str, inbox: Inbox | None) -> ApiKey:
    row = reader.one(_ONE, pod=principal.pod_id, key_id=key_id)
    if row is None or (inbox is not None and row[4] != inbox.inbox_id):
        raise NotFound("API key not found", fix="list the keys to see the ones that work")
    return _noun(row)


def _noun(row: tuple[Any, ...]) -> ApiKey:
    _, key_id, name, pod, inbox_id, agent_id, created_at, used_at, expires_at = row
    return ApiKey(
        key_id=key_id,
        prefix=f"am_{key_id}"[:_PREFIX_CHARS],
        name=name,
        pod_id=pod,
        inbox_id=inbox_id,
        agent_id=agent_id,
        created_at=created_at,
        used_at=used_at,
        expires_at=expires_at,
    )
