"""Access's statements, compiled once, and the row a credential stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, delete, insert, select, update

from postroom.access.tables import agent, agent_account, api_key, house_secret
from postroom.model.principal import Kind, Principal
from postroom.store.engine import Reader
from postroom.store.statement import insert_or_ignore, sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A stored key with the principal it makes. `expires_at` and `revoked_at` in microseconds, or None."""

    secret_hash: bytes
    expires_at: int | None
    revoked_at: int | None
    principal: Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInfo:
    """An agent as its owner sees it."""

    agent_id: str
    name: str
    profile: str
    created_at: int
    pod_id: str


BRIDGE = "bridge"  # as a key's kind: an agent's key, kept by the plugin in a person's harness
_NEW_KEY = ("pod", "key_id", "secret_hash", "kind", "agent_id", "session_id", "name", "created_at", "expires_at")
_AGENT = (agent.c.agent_id, agent.c.name, agent.c.profile, agent.c.created_at, agent.c.pod)
_PRESENT = agent.c.removed_at.is_(None)
_LIVE = api_key.c.revoked_at.is_(None)


def _revoke(*which: ColumnElement[bool]) -> Any:
    return sql(update(api_key).where(_LIVE, *which).values(revoked_at=bindparam("now")))


CREDENTIAL = sql(
    select(
        api_key.c.secret_hash,
        api_key.c.expires_at,
        api_key.c.revoked_at,
        api_key.c.kind,
        api_key.c.pod,
        api_key.c.agent_id,
        api_key.c.key_id,
        api_key.c.session_id,
        api_key.c.inbox_scope,
        agent.c.name,
        agent.c.profile,
    )
    .select_from(api_key.outerjoin(agent, and_(agent.c.agent_id == api_key.c.agent_id, _PRESENT)))
    .where(api_key.c.key_id == bindparam("key_id"))
)
ADD_KEY = sql(insert(api_key).values({name: bindparam(name) for name in _NEW_KEY}))
REVOKE_KEY = _revoke(api_key.c.key_id == bindparam("which"))
REVOKE_OF_AGENT = _revoke(api_key.c.agent_id == bindparam("which"))
REVOKE_OWNERS = _revoke(
    api_key.c.kind == Kind.OWNER.value, api_key.c.pod == bindparam("which"), api_key.c.name == bindparam("named")
)
KEYS_OF_AGENT = sql(select(api_key.c.key_id).where(api_key.c.agent_id == bindparam("agent_id"), _LIVE))
OWNER_KEYS = sql(
    select(api_key.c.key_id).where(
        api_key.c.kind == Kind.OWNER.value, api_key.c.pod == bindparam("pod"), api_key.c.name == bindparam("named"), _LIVE
    )
)

ADD_AGENT = sql(insert(agent).values({name: bindparam(name) for name in ("pod", "agent_id", "name", "profile", "created_at")}))
AGENTS = sql(select(*_AGENT).where(agent.c.pod == bindparam("pod"), _PRESENT).order_by(agent.c.name))
AGENT_NAMED = sql(select(*_AGENT).where(agent.c.pod == bindparam("pod"), agent.c.name == bindparam("name"), _PRESENT))
AGENT_BY_ID = sql(select(*_AGENT).where(agent.c.agent_id == bindparam("agent_id"), _PRESENT))
REMOVED_AGENT = sql(
    select(agent.c.agent_id).where(
        agent.c.pod == bindparam("pod"), agent.c.name == bindparam("name"), agent.c.removed_at.is_not(None)
    )
)
RETURN_AGENT = sql(
    update(agent)
    .where(agent.c.agent_id == bindparam("which"))
    .values(profile=bindparam("new_profile"), created_at=bindparam("now"), removed_at=None)
)
REMOVE_AGENT = sql(update(agent).where(agent.c.agent_id == bindparam("which")).values(removed_at=bindparam("now")))

ALLOW_ACCOUNT = insert_or_ignore(agent_account, ("pod", "agent_id", "account", "created_at"))
DENY_ACCOUNT = sql(
    delete(agent_account).where(
        agent_account.c.agent_id == bindparam("agent_id"), agent_account.c.account == bindparam("account")
    )
)
DENY_ACCOUNTS = sql(delete(agent_account).where(agent_account.c.agent_id == bindparam("agent_id")))
ACCOUNTS = sql(
    select(agent_account.c.account).where(agent_account.c.agent_id == bindparam("agent_id")).order_by(agent_account.c.account)
)
READERS = sql(
    select(agent_account.c.account, agent.c.name)
    .select_from(agent_account.join(agent, and_(agent.c.agent_id == agent_account.c.agent_id, _PRESENT)))
    .where(agent_account.c.pod == bindparam("pod"))
    .order_by(agent_account.c.account, agent.c.name)
)

KEEP_SECRET = insert_or_ignore(house_secret, ("pod", "name", "value"))
SECRET = sql(select(house_secret.c.value).where(house_secret.c.pod == bindparam("pod"), house_secret.c.name == bindparam("name")))


def find_credential(reader: Reader, key_id: str) -> Credential | None:
    """The key of that id; None also for an agent's key whose agent is gone."""
    row = reader.one(CREDENTIAL, key_id=key_id)
    if row is None:
        return None
    secret_hash, expires_at, revoked_at, kind, pod, agent_id, _, session_id, inbox_scope, name, profile = row
    if kind != Kind.OWNER.value and name is None:
        return None
    principal = Principal(
        kind=Kind.AGENT if kind == BRIDGE else Kind(kind),
        pod_id=pod,
        agent_id=agent_id,
        name=name,
        key_id=key_id,
        profile=profile or "correspondent",
        session_id=session_id,
        inbox_scope=inbox_scope,
        bridge=kind == BRIDGE,
    )
    return Credential(secret_hash=bytes(secret_hash), expires_at=expires_at, revoked_at=revoked_at, principal=principal)


def agent_info(row: tuple[Any, ...]) -> AgentInfo:
    """An agent from a row of `AGENTS` and its like."""
    agent_id, name, profile, created_at, pod = row
    return AgentInfo(agent_id=agent_id, name=name, profile=profile, created_at=created_at, pod_id=pod)
