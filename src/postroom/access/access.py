"""Authentication, and the owner's verbs on agents.

A credential looked up once is remembered until the commit that changes it: authentication reads
the store only for keys it has not seen. What a node remembers it forgets when another one writes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from postroom import ids
from postroom.access import ownerkey, queries
from postroom.access.keys import ApiKeys
from postroom.access.naming import check_name, check_profile
from postroom.access.queries import AgentInfo, Credential
from postroom.access.token import Token, new_token, read_token, unknown_key
from postroom.clock import MICROS
from postroom.errors import Conflict, Invalid, NotFound, Unauthorized
from postroom.limits import REMEMBERED_KEYS, SESSION_TOKEN_S
from postroom.model.principal import DEFAULT_POD, Kind, Principal, require_owner
from postroom.store.engine import Reader, Store, Tx

_OWNER_KEY = "owner.key"


class Access:
    """Agents, keys and tokens of one house. It is the `TokenIssuer` sessions are given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._remembered: dict[str, Credential] = {}
        self.keys = ApiKeys(store, self.revoke)

    async def authenticate(self, text: str | None) -> Principal:
        """The principal behind a token.

        Raises `Unauthorized` with code `missing_authorization`, `invalid_token_type` or `unknown_api_key`.
        """
        token = read_token(text)
        credential = self._remembered.get(token.key_id) or self._look_up(token.key_id)
        if credential is None or not token.proves(credential.secret_hash):
            raise unknown_key()
        if credential.revoked_at is not None:
            raise unknown_key()
        if credential.expires_at is not None and credential.expires_at <= self._store.clock.now_us():
            raise unknown_key()
        return credential.principal

    async def ensure_owner_key(self, folder: Path) -> None:
        """Make sure `folder` holds the owner's key and the store knows it. Never prints it."""
        text = ownerkey.read(folder)
        if text is None:
            text, token = new_token()
            ownerkey.write(folder, text)
            await self._store.write(lambda tx: self._admit_owner(tx, token))
            return
        try:
            token = read_token(text)
        except Unauthorized:
            raise Invalid(f"{_OWNER_KEY} holds no token", fix=f"delete {_OWNER_KEY} and start again for a new one") from None
        known = self._look_up(token.key_id)
        if known is None:
            await self._store.write(lambda tx: self._admit_owner(tx, token))
        elif known.revoked_at is not None or not known.principal.is_owner or not token.proves(known.secret_hash):
            raise Invalid(
                f"{_OWNER_KEY} holds a key that is not the owner's, or was revoked",
                fix=f"delete {_OWNER_KEY} and start again for a new one",
            )

    async def add_agent(self, principal: Principal, name: str, profile: str = "correspondent") -> tuple[AgentInfo, str]:
        """A new agent and its token, which is shown this once. Name taken ⇒ `Conflict`.

        A name that was removed comes back as the agent it was, with the inboxes it owned.
        """
        require_owner(principal, "add agents")
        check_name(name)
        check_profile(profile)
        text, token = new_token()
        now = self._store.clock.now_us()

        def add(tx: Tx) -> AgentInfo:
            if tx.one(queries.AGENT_NAMED, pod=principal.pod_id, name=name) is not None:
                raise Conflict(f"there is already an agent {name}", fix="choose another name, or rotate its token")
            agent_id = _enter_agent(tx, principal.pod_id, name, profile, now=now)
            _add_key(tx, token, pod=principal.pod_id, name=name, agent_id=agent_id, now=now)
            return _named(tx, principal.pod_id, name)

        return await self._store.write(add), text

    async def list_agents(self, principal: Principal) -> list[AgentInfo]:
        """All agents of the pod, by name."""
        require_owner(principal, "list agents")
        rows = await self._store.read(lambda reader: reader.all(queries.AGENTS, pod=principal.pod_id))
        return [queries.agent_info(row) for row in rows]

    async def rotate(self, principal: Principal, name: str) -> str:
        """A new token for the agent; every earlier one of it stops working."""
        require_owner(principal, "rotate tokens")
        text, token = new_token()
        now = self._store.clock.now_us()

        def rotate(tx: Tx) -> None:
            agent_id = _named(tx, principal.pod_id, name).agent_id
            self._revoke_agent(tx, agent_id, now)
            _add_key(tx, token, pod=principal.pod_id, name=name, agent_id=agent_id, now=now)

        await self._store.write(rotate)
        return text

    async def add_bridge(self, principal: Principal, name: str) -> str:
        """A key of the agent for the plugin in a person's harness; the agent's other keys go on working."""
        require_owner(principal, "connect harnesses")
        text, token = new_token()
        now = self._store.clock.now_us()

        def add(tx: Tx) -> None:
            agent_id = _named(tx, principal.pod_id, name).agent_id
            _add_key(tx, token, pod=principal.pod_id, name=name, agent_id=agent_id, now=now, kind=queries.BRIDGE)

        await self._store.write(add)
        return text

    async def remove(self, principal: Principal, name: str) -> AgentInfo:
        """Take the agent away with its tokens. Its inboxes and their mail stay, the owner's to read."""
        require_owner(principal, "remove agents")
        now = self._store.clock.now_us()

        def remove(tx: Tx) -> AgentInfo:
            info = _named(tx, principal.pod_id, name)
            self._revoke_agent(tx, info.agent_id, now)
            tx.run(queries.DENY_ACCOUNTS, agent_id=info.agent_id)
            tx.run(queries.REMOVE_AGENT, which=info.agent_id, now=now)
            return info

        return await self._store.write(remove)

    async def allow_account(self, principal: Principal, name: str, account: str) -> tuple[str, ...]:
        """Let an agent read a person's mail account; every account it may read now."""
        require_owner(principal, "open mail accounts to agents")
        now = self._store.clock.now_us()

        def allow(tx: Tx) -> tuple[str, ...]:
            agent_id = _named(tx, principal.pod_id, name).agent_id
            tx.run(queries.ALLOW_ACCOUNT, pod=principal.pod_id, agent_id=agent_id, account=account, created_at=now)
            return _accounts(tx, agent_id)

        return await self._store.write(allow)

    async def deny_account(self, principal: Principal, name: str, account: str) -> tuple[str, ...]:
        """Take that back, with this commit; every account the agent may still read."""
        require_owner(principal, "close mail accounts to agents")

        def deny(tx: Tx) -> tuple[str, ...]:
            agent_id = _named(tx, principal.pod_id, name).agent_id
            tx.run(queries.DENY_ACCOUNT, agent_id=agent_id, account=account)
            return _accounts(tx, agent_id)

        return await self._store.write(deny)

    def accounts_of(self, principal: Principal) -> frozenset[str]:
        """The accounts an agent may read; of anybody else none is noted."""
        agent_id = principal.agent_id
        return self._store.read_now(lambda reader: frozenset(_accounts(reader, agent_id))) if agent_id else frozenset()

    async def readers(self, principal: Principal) -> dict[str, list[str]]:
        """Of every account somebody may read, the names of the agents that may."""
        require_owner(principal, "see who reads mail accounts")
        found: dict[str, list[str]] = {}
        for account, name in await self._store.read(lambda reader: reader.all(queries.READERS, pod=principal.pod_id)):
            found.setdefault(account, []).append(name)
        return found

    async def principal_of(self, agent_id: str) -> Principal | None:
        """The agent itself as a principal, for work done in its name; None when it has been removed."""
        row = self._store.read_now(lambda reader: reader.one(queries.AGENT_BY_ID, agent_id=agent_id))
        if row is None:
            return None
        info = queries.agent_info(row)
        return Principal(kind=Kind.AGENT, pod_id=info.pod_id, agent_id=agent_id, name=info.name, profile=info.profile)

    async def issue(self, agent_id: str, session_id: str) -> tuple[str, str]:
        """A short-lived token of the agent for one session's child process: `(token, key id)`."""
        text, token = new_token()
        now = self._store.clock.now_us()

        def add(tx: Tx) -> None:
            row = tx.one(queries.AGENT_BY_ID, agent_id=agent_id)
            if row is None:
                raise NotFound("this agent has been removed")
            info = queries.agent_info(row)
            _add_key(tx, token, pod=info.pod_id, name=info.name, agent_id=agent_id, now=now, session_id=session_id)

        await self._store.write(add)
        return text, token.key_id

    async def revoke(self, key_id: str) -> None:
        """The key stops working with this commit; revoking twice is fine."""
        now = self._store.clock.now_us()

        def revoke(tx: Tx) -> None:
            tx.run(queries.REVOKE_KEY, which=key_id, now=now)
            self._forget(tx, [key_id])

        await self._store.write(revoke)

    async def house_secret(self, name: str) -> bytes:
        """32 random bytes under that name, made on first use and the same ever after."""
        fresh = secrets.token_bytes(32)

        def keep(tx: Tx) -> bytes:
            tx.run(queries.KEEP_SECRET, pod=DEFAULT_POD, name=name, value=fresh)
            return bytes(tx.scalar(queries.SECRET, pod=DEFAULT_POD, name=name))

        return await self._store.write(keep)

    def forget(self) -> None:
        """Remember no credential: another node may have changed any of them."""
        self._remembered.clear()

    def _look_up(self, key_id: str) -> Credential | None:
        # No await between this read and remembering its result: a revocation's commit comes wholly
        # before (the read sees it) or wholly after (its after_commit forgets what is remembered here).
        credential = self._store.read_now(lambda reader: queries.find_credential(reader, key_id))
        if credential is not None:
            if len(self._remembered) >= REMEMBERED_KEYS:
                self._remembered.clear()
            self._remembered[key_id] = credential
        return credential

    def _admit_owner(self, tx: Tx, token: Token) -> None:
        now = self._store.clock.now_us()
        earlier = [row[0] for row in tx.all(queries.OWNER_KEYS, pod=DEFAULT_POD, named=_OWNER_KEY)]
        tx.run(queries.REVOKE_OWNERS, which=DEFAULT_POD, named=_OWNER_KEY, now=now)
        self._forget(tx, earlier)
        _add_key(tx, token, pod=DEFAULT_POD, name=_OWNER_KEY, agent_id=None, now=now)

    def _revoke_agent(self, tx: Tx, agent_id: str, now: int) -> None:
        live = [row[0] for row in tx.all(queries.KEYS_OF_AGENT, agent_id=agent_id)]
        tx.run(queries.REVOKE_OF_AGENT, which=agent_id, now=now)
        self._forget(tx, live)

    def _forget(self, tx: Tx, key_ids: Iterable[str]) -> None:
        gone = tuple(key_ids)

        def forget() -> None:
            for key_id in gone:
                self._remembered.pop(key_id, None)

        tx.after_commit(forget)


def _named(tx: Tx, pod: str, name: str) -> AgentInfo:
    row = tx.one(queries.AGENT_NAMED, pod=pod, name=name)
    if row is None:
        raise NotFound("there is no agent of that name", fix="see `postroom agent list`")
    return queries.agent_info(row)


def _accounts(reader: Reader, agent_id: str) -> tuple[str, ...]:
    return tuple(account for (account,) in reader.all(queries.ACCOUNTS, agent_id=agent_id))


def _enter_agent(tx: Tx, pod: str, name: str, profile: str, *, now: int) -> str:
    removed: str | None = tx.scalar(queries.REMOVED_AGENT, pod=pod, name=name)
    if removed is not None:
        tx.run(queries.RETURN_AGENT, which=removed, new_profile=profile, now=now)
        return removed
    agent_id = ids.new_id(ids.AGENT)
    tx.insert(queries.ADD_AGENT, pod=pod, agent_id=agent_id, name=name, profile=profile, created_at=now)
    return agent_id


def _add_key(
    tx: Tx,
    token: Token,
    *,
    pod: str,
    name: str,
    agent_id: str | None,
    now: int,
    session_id: str | None = None,
    kind: str | None = None,
) -> None:
    tx.insert(
        queries.ADD_KEY,
        pod=pod,
        key_id=token.key_id,
        secret_hash=token.secret_hash,
        kind=kind or (Kind.AGENT if agent_id else Kind.OWNER).value,
        agent_id=agent_id,
        session_id=session_id,
        name=name,
        created_at=now,
        expires_at=now + SESSION_TOKEN_S * MICROS if session_id else None,
    )
