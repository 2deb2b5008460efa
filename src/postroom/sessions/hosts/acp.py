"""The `acp` host: sessions of any agent that speaks the Agent Client Protocol, one process of it for each agent.

A session that is live takes the notices as a turn; one the agent kept is loaded first, where the agent can; else a
new one is told what was said in its thread before. Delivered means that the turn ended. The ids of sessions are the
agent's own, so which is which is written down once a turn was taken.
"""

from __future__ import annotations

import asyncio
import glob
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import structlog

from postroom import config
from postroom.errors import PostroomError, TransportFailure
from postroom.model.ports import TokenIssuer
from postroom.model.session import Delivery, Liveness
from postroom.sessions.hosts import acp_tools, child
from postroom.sessions.hosts.acp_tools import Tools
from postroom.sessions.hosts.kept import Ends, Kept, KeptProcesses

if TYPE_CHECKING:
    from postroom.sessions.hosts.acp_agent import Agent

_WIRE: Final = "postroom.sessions.hosts.acp_agent"
_TAKEN: Final = frozenset({"end_turn", "max_tokens", "max_turn_requests"})  # else it was cancelled, or taken back as refused
log = structlog.get_logger("postroom.sessions.acp")


def installed() -> bool:
    """Whether the protocol's library is here (the `acp` extra)."""
    return importlib.util.find_spec("acp") is not None


class AcpHost:
    """Runs `agents.NAME.command`. `folder` holds a workspace for each agent and the ids of its sessions."""

    def __init__(
        self,
        agents: Mapping[str, config.Agent],
        issuer: TokenIssuer,
        url: Callable[[], str],
        *,
        folder: Path,
        sessions: config.Sessions,
        reading: Iterable[str],
    ) -> None:
        """`reading` names those of our tools that only read."""
        self._agents = agents
        self._issuer = issuer
        self._url = url
        self._folder = folder
        self._readable = acp_tools.titles(reading)
        self._names = Names(folder)
        self._processes = KeptProcesses(self._start, sessions)

    async def deliver(self, delivery: Delivery) -> bool:
        """True when a turn took the notices."""
        try:
            async with self._processes.busy(delivery) as kept:
                stopped = await self._turn(kept, delivery)
        except PostroomError as problem:
            log.warning("acp_not_taken", session_id=delivery.session_id, reason=problem.message)
            return False
        log.info("acp_turn_ended", session_id=delivery.session_id, how=stopped)
        return stopped in _TAKEN

    async def liveness(self, session_id: str) -> Liveness:
        """Live in a process of ours, or kept by an agent that can bring it back."""
        if self._processes.live(session_id):
            return Liveness.LIVE
        known = await asyncio.to_thread(self._names.known, session_id)
        return Liveness.PERSISTED if known else Liveness.UNKNOWN

    async def close(self) -> None:
        """Close every process, whatever it does: what no turn took is offered again."""
        await self._processes.close()

    async def _turn(self, kept: Kept[Agent], delivery: Delivery) -> str:
        agent, seed = kept.process, delivery.seed
        session = agent.opened.get(delivery.session_id)
        if session is None:
            tools = await self._tools(kept, delivery)
            session = await self._brought_back(agent, delivery, tools)
        if session is None:
            session = await agent.new(tools)
            seed = seed or (await delivery.rebuild() if delivery.rebuild is not None else None)
        parts = [*([seed] if seed else []), *(notice.text for notice in delivery.notices)]
        stopped = await agent.prompt(session, "\n\n".join(parts), within_s=child.turn_s(self._agents.get(delivery.agent)))
        if stopped in _TAKEN:  # a new session whose first turn failed is not used again: nobody knows what it was told
            agent.opened[delivery.session_id] = session
            if agent.keeps:
                await asyncio.to_thread(self._names.put, delivery.agent_id, delivery.session_id, session)
        return stopped

    async def _brought_back(self, agent: Agent, delivery: Delivery, tools: Tools) -> str | None:
        """The agent's id of the session, live again; None when it has none or cannot."""
        named = await asyncio.to_thread(self._names.get, delivery.agent_id, delivery.session_id) if agent.keeps else None
        if named is None or not await agent.bring_back(named, tools):
            return None
        agent.opened[delivery.session_id] = named
        return named

    async def _tools(self, kept: Kept[Agent], delivery: Delivery) -> Tools:
        """Our tools for this session, by a token that ends with the process."""
        token, key_id = await self._issuer.issue(delivery.agent_id, delivery.session_id)
        kept.ends.push_async_callback(self._issuer.revoke, key_id)
        inbox = delivery.inbox_id if "@" in delivery.inbox_id else None
        return Tools(daemon=self._url(), token=token, inbox=inbox)

    async def _start(self, delivery: Delivery, ends: Ends) -> Agent:
        settings = self._agents.get(delivery.agent, config.Agent())
        workspace = await asyncio.to_thread(self._workspace, settings, delivery.agent_id)
        wire = await asyncio.to_thread(importlib.import_module, _WIRE)
        environ = child.environment(settings.environment)
        agent: Agent = await wire.Agent.start(settings.command, environ=environ, cwd=workspace, readable=self._readable)
        ends.push_async_callback(agent.close)
        return agent

    def _workspace(self, settings: config.Agent, agent_id: str) -> Path:
        """Where the agent works: the folder of its config, which must be there, else one of its own."""
        if settings.cwd:
            place = Path(settings.cwd).absolute()
            if not place.is_dir():
                raise TransportFailure(f"{place} is no folder for the agent to work in", kind="permanent")
            return place
        place = self._folder / agent_id / "workspace"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place


class Names:
    """What the agents call our sessions: a small file for each, beside the agent's workspace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, agent_id: str, session_id: str) -> str | None:
        """None when it is not known, or not readable: the session is made anew then."""
        try:
            return self._file(agent_id, session_id).read_text(encoding="utf-8") or None
        except (OSError, ValueError):
            return None

    def put(self, agent_id: str, session_id: str, named: str) -> None:
        """Write it down whole. What cannot be written is forgotten with the process."""
        file = self._file(agent_id, session_id)
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = file.with_name(file.name + "~")
            draft.write_text(named, encoding="utf-8")
            draft.replace(file)
        except OSError as problem:
            log.warning("acp_session_not_noted", session_id=session_id, reason=problem.strerror)

    def known(self, session_id: str) -> bool:
        """Whether some agent has this session."""
        return any(self._folder.glob(f"*/sessions/{glob.escape(_file_name(session_id))}"))

    def _file(self, agent_id: str, session_id: str) -> Path:
        return self._folder / agent_id / "sessions" / _file_name(session_id)


def _file_name(session_id: str) -> str:
    return quote(session_id, safe="")
