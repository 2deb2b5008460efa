"""The verbs `/api` calls, as Protocols: the rooms behind it are built and handed over by the app."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from postroom.access.queries import AgentInfo
from postroom.model.outgoing import Boundary, Outgoing, State
from postroom.model.paging import Page, PageRequest
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.model.session import Notice, SessionRow, Waiting


class Agents(Protocol):
    """Agents and their tokens (`access`)."""

    async def add_agent(self, principal: Principal, name: str, profile: str = ..., /) -> tuple[AgentInfo, str]: ...
    async def list_agents(self, principal: Principal, /) -> Sequence[AgentInfo]: ...
    async def rotate(self, principal: Principal, name: str, /) -> str: ...
    async def remove(self, principal: Principal, name: str, /) -> AgentInfo: ...
    async def allow_account(self, principal: Principal, name: str, account: str, /) -> Sequence[str]: ...
    async def deny_account(self, principal: Principal, name: str, account: str, /) -> Sequence[str]: ...
    async def readers(self, principal: Principal, /) -> Mapping[str, Sequence[str]]: ...


class Gate(Protocol):
    """What wanted to leave, and its decisions (`gate`)."""

    async def list(self, principal: Principal, *, states: Sequence[State] = ..., page: PageRequest) -> Page[Outgoing]: ...
    async def show(self, principal: Principal, outgoing_id: str, /) -> Outgoing: ...
    async def raw(self, principal: Principal, outgoing_id: str, /) -> bytes: ...
    async def history(self, principal: Principal, outgoing_id: str, /) -> Sequence[Mapping[str, Any]]: ...
    async def approve(self, principal: Principal, outgoing_id: str, digest: str, /) -> Outgoing: ...
    async def refuse(self, principal: Principal, outgoing_id: str, comment: str = ..., /) -> Outgoing: ...


class Sessions(Protocol):
    """Sessions and what is pending for them (`sessions`)."""

    async def list(self, principal: Principal, /) -> Sequence[SessionRow]: ...
    async def pending(self, principal: Principal, session_id: str, ack: int | None = ..., /) -> Sequence[Notice]: ...
    async def waiting(
        self, principal: Principal, /, *, client: str = ..., again: bool = ..., wait_s: float = ...
    ) -> Sequence[Waiting]: ...
    async def wake(self, principal: Principal, session_id: str, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """Everything behind `/api`; see `app.api_app`."""

    access: Agents
    mail: Mail
    gate: Gate
    sessions: Sessions
    accepting: Callable[[], bool]
    boundary: Callable[[Principal], tuple[Boundary, str]]
    queues: Callable[[], Awaitable[Mapping[str, int]]]
