"""The `dsh` host: sessions of the DeepSeek Harness, one runtime process for each agent.

A session that is live takes the notices as a turn; one on disk is resumed first; one that is nowhere is
created, with what was said in its thread before. Delivered means the turn that holds our message ended
well: nothing less is durable. An idle runtime is closed, its sessions stay on disk.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from postroom import config, limits
from postroom.errors import PostroomError
from postroom.model.ports import TokenIssuer
from postroom.model.session import Delivery, Liveness
from postroom.sessions.hosts.command import PASSED_ON
from postroom.sessions.hosts.dsh_runtime import Runtime, RuntimeAnswer

PATCH: Final = """\
# Written by postroom whenever it starts this runtime; changes are lost.
# Switched off: the copy of each session that goes to the model's provider, the list of plugins, telemetry.
- {{id: session-log-deepseek, disabled: true}}
- {{id: plugin-package-inventory-deepseek, disabled: true}}
- {{id: session-telemetry-otel, disabled: true}}
- {{id: mcp-resources, disabled: true}}
- insert:
    - id: mcp-postroom
      name: '@deepseek-ai/dsh-mcp-client'
      config:
        serverName: postroom
        transport: streamable-http
        url: '{url}/mcp'
        headers: {{ Authorization: !!js '`Bearer ${{process.env.POSTROOM_AGENT_TOKEN}}`' }}
        toolCallTimeoutMs: 60000
"""
_ENOUGH_S: Final = limits.SESSION_TOKEN_S * 0.8  # the runtime's token ends with the hour; it is renewed before
log = structlog.get_logger("postroom.sessions.dsh")


def installed() -> tuple[str, ...]:
    """The command that starts DSH: the runtime of the `dsh` extra, else `dsh` on the path; () without either."""
    if importlib.util.find_spec("deepseek_harness_runtime") is not None:
        from deepseek_harness_runtime import resolve_bundled_launch_args

        return tuple(resolve_bundled_launch_args())
    found = shutil.which("dsh")
    return (found,) if found else ()


@dataclass(slots=True, kw_only=True)
class Kept:
    """A running runtime, the key its tools use, and how busy it is."""

    runtime: Runtime
    key_id: str
    started: float
    busy: int = 0


class DshHost:
    """Runs agents' sessions. `folder` holds a DSH home and a workspace for each agent."""

    def __init__(
        self,
        command: tuple[str, ...],
        agents: Mapping[str, config.Agent],
        issuer: TokenIssuer,
        url: Callable[[], str],
        *,
        folder: Path,
        sessions: config.Sessions,
    ) -> None:
        self._command = command
        self._agents = agents
        self._issuer = issuer
        self._url = url
        self._folder = folder
        self._sessions = sessions
        self._kept: dict[str, Kept] = {}
        self._starting: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._closing: set[asyncio.Task[None]] = set()

    async def deliver(self, delivery: Delivery) -> bool:
        """True when a turn took the notices and ended well."""
        try:
            kept = await self._runtime(delivery)
        except PostroomError as problem:
            log.warning("dsh_not_started", agent=delivery.agent, reason=problem.message)
            return False
        kept.busy += 1
        try:
            async with asyncio.timeout(limits.SESSION_TURN_S):
                ended = await self._turn(kept.runtime, delivery)
        except TimeoutError:
            log.warning("dsh_turn_timed_out", session_id=delivery.session_id)
            return False
        except PostroomError as problem:
            log.warning("dsh_turn_failed", session_id=delivery.session_id, reason=problem.message)
            return False
        finally:
            kept.busy -= 1
            self._let_go(delivery.agent_id, kept)
        log.info("dsh_turn_ended", session_id=delivery.session_id, how=ended)
        return ended == "completed"

    async def liveness(self, session_id: str) -> Liveness:
        """Live in a runtime of ours, or on disk in an agent's home."""
        if any(session_id in kept.runtime.opened and kept.runtime.alive for kept in self._kept.values()):
            return Liveness.LIVE
        found = await asyncio.to_thread(lambda: any(self._folder.glob(f"*/home/sessions/**/{session_id}*")))
        return Liveness.PERSISTED if found else Liveness.UNKNOWN

    async def close(self) -> None:
        """Close every runtime, whatever it does: what no turn took is offered again."""
        await asyncio.gather(*(self._end(agent_id, kept) for agent_id, kept in list(self._kept.items())))
        await asyncio.gather(*self._closing)

    async def _turn(self, runtime: Runtime, delivery: Delivery) -> str:
        seed = delivery.seed
        if delivery.session_id not in runtime.opened and not await self._resume(runtime, delivery.session_id):
            seed = seed or (await delivery.rebuild() if delivery.rebuild is not None else None)
        parts = [*([seed] if seed else []), *(notice.text for notice in delivery.notices)]
        return await runtime.turn(delivery.session_id, "\n\n".join(parts))

    async def _resume(self, runtime: Runtime, session_id: str) -> bool:
        """Bring the session back from disk; False when there is none. Raises when another process has it."""
        try:
            await runtime.call("session/resume", {"sessionId": session_id})
        except RuntimeAnswer as problem:
            if "already open" in problem.message:
                return True
            if "not found" in problem.message:
                return False
            raise
        runtime.opened.add(session_id)
        return True

    async def _runtime(self, delivery: Delivery) -> Kept:
        """The agent's runtime, started if it does not run."""
        async with self._starting[delivery.agent_id]:
            kept = self._kept.get(delivery.agent_id)
            if kept is not None and kept.runtime.alive:
                return kept
            if kept is not None:
                await self._end(delivery.agent_id, kept)
            token, key_id = await self._issuer.issue(delivery.agent_id, "dsh")
            try:
                runtime = await self._start(delivery, token)
            except BaseException:
                await self._issuer.revoke(key_id)
                raise
            kept = Kept(runtime=runtime, key_id=key_id, started=time.monotonic())
            self._kept[delivery.agent_id] = kept
            return kept

    async def _start(self, delivery: Delivery, token: str) -> Runtime:
        settings = self._agents.get(delivery.agent)
        place = self._folder / delivery.agent_id
        home, workspace = place / "home", Path(settings.cwd) if settings and settings.cwd else place / "workspace"
        for folder in (home, workspace):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        patch = place / "postroom.patch.yml"
        patch.write_text(PATCH.format(url=self._url()), encoding="utf-8")
        passed = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("DEEPSEEK_")}
        environ = passed | {"DSH_HOME": str(home), "DSH_TELEMETRY_MODE": "DISABLED", "POSTROOM_AGENT_TOKEN": token}
        command = [*self._command, "--profile", "sdk", "--patch", str(patch)]
        return await Runtime.start(command, environ=environ, cwd=workspace)

    def _let_go(self, agent_id: str, kept: Kept) -> None:
        """After a turn: close a runtime that has too many sessions or is old; else look again when it has been idle."""
        if kept.busy:
            return
        worn = len(kept.runtime.opened) >= self._sessions.max_live or time.monotonic() - kept.started > _ENOUGH_S
        if worn or not kept.runtime.alive:
            self._retire(agent_id, kept)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self._sessions.idle_dispose_s, self._dispose, agent_id, kept, kept.runtime.turns)

    def _dispose(self, agent_id: str, kept: Kept, turns: int) -> None:
        if not kept.busy and turns == kept.runtime.turns:
            self._retire(agent_id, kept)

    def _retire(self, agent_id: str, kept: Kept) -> None:
        if self._kept.get(agent_id) is kept:
            task = asyncio.create_task(self._close(agent_id, kept))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close(self, agent_id: str, kept: Kept) -> None:
        async with self._starting[agent_id]:
            if not kept.busy:
                await self._end(agent_id, kept)

    async def _end(self, agent_id: str, kept: Kept) -> None:
        """With the agent's lock held: two runtimes must not share a home."""
        if self._kept.get(agent_id) is kept:
            del self._kept[agent_id]
            await kept.runtime.close()
            await self._issuer.revoke(kept.key_id)
