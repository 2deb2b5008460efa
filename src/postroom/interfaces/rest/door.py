"""What every route needs: the backend's verbs, the gate, and who is asking.

The surface that mounts this application has authenticated already; here a request without a
principal is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, cast

from fastapi import Depends, Request

from postroom.access.access import Access
from postroom.clock import Clock, to_iso
from postroom.errors import NotFound, Unauthorized
from postroom.interfaces.rest.absent import not_offered
from postroom.model.outgoing import Submission
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.model.request import SendRequest


class Gate(Protocol):
    """The only way to send."""

    async def submit(self, principal: Principal, request: SendRequest, key: str | None) -> Submission: ...


class Signer(Protocol):
    """Makes links that need no credential and expire."""

    def url(self, base: str, path: str) -> tuple[str, int]:
        """An absolute link to what `path` names, and when it expires (microseconds)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The rooms behind `/v0`."""

    mail: Mail
    gate: Gate
    access: Access
    signer: Signer
    clock: Clock
    domains: tuple[str, ...]

    def verb(self, name: str, what: str) -> Callable[..., Awaitable[Any]]:
        """A verb of the backend beyond the core of `Mail`; a backend without it answers `NotFound`."""
        found = getattr(self.mail, name, None)
        if found is None:
            raise NotFound(not_offered(what))
        return cast("Callable[..., Awaitable[Any]]", found)

    async def address(self, caller: Principal, inbox_id: str) -> str:
        """The inbox's id as the office writes it, whatever the case it was asked for in."""
        return (await self.mail.get_inbox(caller, inbox_id)).inbox_id

    def link(self, request: Request, *parts: str) -> dict[str, str]:
        """`download_url` and `expires_at` for the bytes named by `parts`."""
        url, expires = self.signer.url(str(request.base_url).removesuffix("v0/"), "/".join(parts))
        return {"download_url": url, "expires_at": to_iso(expires)}


def _door(request: Request) -> Door:
    door: Door = request.app.state.door
    return door


def _caller(request: Request) -> Principal:
    principal = request.scope.get("state", {}).get("principal")
    if not isinstance(principal, Principal):
        raise Unauthorized("this needs a key", code="missing_authorization", fix="send Authorization: Bearer am_…")
    return principal


Here = Annotated[Door, Depends(_door)]
Caller = Annotated[Principal, Depends(_caller)]
