"""The reader: who may read which account, one read, and the owner's verbs on accounts.

An agent reads the accounts the owner allowed it; any other is to it as if it did not exist. What an agent
was shown is noted in the read log before it is handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from postroom.clock import Clock
from postroom.config import Reader as Settings
from postroom.config import ReaderAccount, resolve_secret
from postroom.model.ports import ReadLog
from postroom.model.principal import Principal, require_owner
from postroom.reader import faults
from postroom.reader.body import ReadMessage, bounded
from postroom.reader.endpoints import OFFICIAL, Endpoints
from postroom.reader.grants import Grants
from postroom.reader.reading import Reading, position
from postroom.reader.request import ReadRequest, check_single, search_of
from postroom.safety.redact import Redactor

if TYPE_CHECKING:
    import ssl

    from postroom.reader.account import Account
    from postroom.reader.authorization import Authorization, Prompt

State = Literal["ready", "authorization_required", "authorizing"]


class Permissions(Protocol):
    """Which accounts the owner opened to an agent (`access`)."""

    def accounts_of(self, principal: Principal) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountInfo:
    """An account as listed: nothing secret."""

    id: str
    provider: str
    address: str
    state: State


class Reader:
    """The accounts of one house. `endpoints` and `tls` are replaced by tests only."""

    def __init__(
        self,
        settings: Settings,
        *,
        folder: Path,
        key: bytes,
        permissions: Permissions,
        read_log: ReadLog,
        redactor: Redactor,
        clock: Clock,
        endpoints: Mapping[str, Endpoints] = OFFICIAL,
        tls: ssl.SSLContext | None = None,
        grants: Grants | None = None,
        secret: Callable[[str], str] = resolve_secret,
    ) -> None:
        self.settings = settings
        self._accounts = {account.id: account for account in settings.accounts}
        self._permissions = permissions
        self._read_log = read_log
        self._redactor = redactor
        self._clock = clock
        self._endpoints = endpoints
        self._tls = tls
        self._grants = grants or Grants(folder, key)
        self._secret = secret
        self._secrets_seen: set[str] = set()
        self._open: dict[str, Account] = {}
        self._running: dict[str, Authorization] = {}

    def readable(self, principal: Principal) -> list[str]:
        """The ids the caller may read, in the config's order."""
        if not self.settings.enabled:
            return []
        if principal.is_owner:
            return list(self._accounts)
        allowed = self._permissions.accounts_of(principal)
        return [account for account in self._accounts if account in allowed]

    def exists(self, account: str) -> bool:
        """Whether the config names the account."""
        return account in self._accounts

    def accounts(self, principal: Principal) -> list[AccountInfo]:
        """The caller's accounts and whether they can be read."""
        return [
            AccountInfo(id=name, provider=account.provider, address=account.address, state=self._state(account))
            for name in self.readable(principal)
            for account in (self._accounts[name],)
        ]

    async def read(self, principal: Principal, request: ReadRequest) -> Reading:
        """List or read. Raises `MAIL_…` errors."""
        account = self._chosen(principal, request.account)
        reading = await (self._list(account, request) if request.lists else self._one(account, request))
        await self._read_log.record(principal, [f"reader:{account.id}:{message.id}" for message in reading.messages])
        return reading

    async def check(self, principal: Principal, account_id: str) -> AccountInfo:
        """Ask the provider for one message, to see that the account works."""
        require_owner(principal, "check mail accounts")
        account = self._chosen(principal, account_id)
        await self._list(account, ReadRequest(account=account_id, limit=1))
        return AccountInfo(id=account.id, provider=account.provider, address=account.address, state=self._state(account))

    async def authorize(self, principal: Principal, account_id: str, *, device: bool) -> Prompt | None:
        """Begin an authorization; what the person is to do. None for an account that needs none."""
        require_owner(principal, "authorize mail accounts")
        account = self._chosen(principal, account_id)
        opened = self._opened(account)
        if opened.flow is None or opened.oauth is None:
            return None
        if device and not opened.oauth.has_device_flow:
            raise faults.argument(
                "device", f"{account.provider} lets no device without a browser read mail", "authorize in a browser"
            )
        await self.stop(principal, account_id)
        running = self._running[account_id] = opened.flow.start(device=device)
        return await asyncio.shield(running.prompt)

    async def authorization(self, principal: Principal, account_id: str, wait_s: float = 0) -> str:
        """`none`, `pending` or `authorized`, after at most `wait_s`; raises why an authorization failed."""
        require_owner(principal, "authorize mail accounts")
        running = self._running.get(self._chosen(principal, account_id).id)
        if running is None:
            return "none"
        if wait_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await running.ended.wait()
        if running.problem is not None:
            raise running.problem
        return running.state

    async def stop(self, principal: Principal, account_id: str) -> None:
        """End an authorization that still runs."""
        require_owner(principal, "authorize mail accounts")
        running = self._running.get(account_id)
        if running is not None and running.task is not None and not running.task.done():
            running.task.cancel()
            await running.ended.wait()

    async def revoke(self, principal: Principal, account_id: str) -> bool:
        """Forget the grant; True when there was one. The provider's own list of apps is the person's to clear."""
        require_owner(principal, "revoke mail accounts")
        account = self._chosen(principal, account_id)
        await self.stop(principal, account_id)
        self._running.pop(account.id, None)
        opened = self._open.get(account.id)
        if opened is not None and opened.tokens is not None:
            opened.tokens.forget()
        return await self._grants.forget(account.id)

    async def close(self) -> None:
        """End what runs and every connection."""
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for opened in self._open.values():
            await opened.close()
        self._open.clear()

    async def _list(self, account: ReaderAccount, request: ReadRequest) -> Reading:
        search = search_of(request, self.settings)
        scope = request.scope(account.id, search.limit)
        cursor, offset = position(scope, request.page_token)
        opened = self._opened(account)
        async with opened.gate:
            found = await opened.provider.list(search, cursor)
        seen = [each for each in found.messages if _within(each.received, search.after, search.before)][offset:]
        return Reading(
            account=account.id,
            limit=search.limit,
            asked=request.limit,
            messages=await self._bounded(seen),
            scope=scope,
            cursor=cursor,
            offset=offset,
            next_cursor=found.next_cursor,
        )

    async def _one(self, account: ReaderAccount, request: ReadRequest) -> Reading:
        check_single(request)
        opened = self._opened(account)
        async with opened.gate:
            message = await opened.provider.read(request.message_id)
        return Reading(account=account.id, limit=1, asked=None, messages=await self._bounded([message]))

    async def _bounded(self, messages: Sequence[Any]) -> tuple[ReadMessage, ...]:
        """Converting is work for a thread: the loop serves others meanwhile."""
        settings, redactor = self.settings, self._redactor
        return await asyncio.to_thread(lambda: tuple(bounded(message, settings, redactor) for message in messages))

    def _chosen(self, principal: Principal, name: str) -> ReaderAccount:
        ids = self.readable(principal)
        if not name and len(ids) > 1:
            raise faults.account_required(ids)
        chosen = name or next(iter(ids), "")
        if chosen not in ids:
            raise faults.account_unknown()
        return self._accounts[chosen]

    def _opened(self, account: ReaderAccount) -> Account:
        from postroom.reader.account import Surroundings, open_account

        if account.id not in self._open:
            around = Surroundings(
                settings=self.settings, grants=self._grants, clock=self._clock, secret=self._resolved, tls=self._tls
            )
            self._open[account.id] = open_account(account, self._endpoints.get(account.provider), around)
        return self._open[account.id]

    def _resolved(self, reference: str) -> str:
        """The secret behind a reference, known from now on to whatever must never show it."""
        value = self._secret(reference)
        if value not in self._secrets_seen:
            self._secrets_seen.add(value)
            self._redactor.add_secret(value)
        return value

    def _state(self, account: ReaderAccount) -> State:
        if account.provider == "imap" or self._grants.has(account.id):
            return "ready"
        running = self._running.get(account.id)
        return "authorizing" if running is not None and running.state == "pending" else "authorization_required"


def _within(received: int, after: int | None, before: int | None) -> bool:
    seconds = received // 1_000_000
    return (after is None or seconds >= after) and (before is None or seconds < before)
