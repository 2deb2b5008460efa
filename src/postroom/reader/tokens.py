"""The access token of one account: at most one refresh at a time, done before it runs out.

Whoever needs a token while it is being refreshed waits for that refresh. It runs in a task of its own:
a caller that gives up must not lose the refresh token a provider has just rotated.
"""

from __future__ import annotations

import asyncio
from typing import Final

from postroom.clock import MICROS, Clock
from postroom.reader import faults
from postroom.reader.grants import Grant, Grants
from postroom.reader.oauth import Access, OAuth

_MARGIN_S: Final = 120  # a token is not used in its last two minutes


class Tokens:
    """Tokens of one account, made from its grant."""

    def __init__(self, account: str, oauth: OAuth, grants: Grants, clock: Clock) -> None:
        self._account = account
        self._oauth = oauth
        self._grants = grants
        self._clock = clock
        self._access: Access | None = None
        self._refreshing: asyncio.Task[Access] | None = None

    async def current(self) -> str:
        """A token that is good for a while. Raises `MAIL_AUTHORIZATION_REQUIRED`, `MAIL_OAUTH_FAILED`."""
        access = self._access
        if access is not None and access.expires_at - self._clock.now_us() > _MARGIN_S * MICROS:
            return access.token
        return await self._renewed()

    async def instead_of(self, refused: str) -> str:
        """Another token than the one the API refused, unless somebody has it already."""
        if self._access is not None and self._access.token == refused:
            self._access = None
        return await self.current()

    async def keep(self, grant: Grant, access: Access) -> None:
        """Begin anew with a fresh grant."""
        self._access = access
        await self._grants.save(self._account, grant)

    def forget(self) -> None:
        """The grant is gone."""
        self._access = None

    async def _renewed(self) -> str:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(), name=f"refresh-{self._account}")
            self._refreshing.add_done_callback(self._refreshed)
        return (await asyncio.shield(self._refreshing)).token

    def _refreshed(self, task: asyncio.Task[Access]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # those who waited were told

    async def _refresh(self) -> Access:
        grant = await self._grants.load(self._account)
        if grant is None or not self._oauth.accepts(grant):
            raise faults.authorization_required(self._account)
        renewed, access = await self._oauth.refresh(grant)
        if not self._grants.has(self._account):  # revoked meanwhile
            raise faults.authorization_required(self._account)
        if renewed is not grant:
            await self._grants.save(self._account, renewed)
        self._access = access
        return access
