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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from postroom import config
from postroom.errors import PostroomError
from postroom.model.ports import TokenIssuer
from postroom.model.session import Delivery, Liveness
from postroom.sessions.hosts import child
from postroom.sessions.hosts.dsh_runtime import Runtime, RuntimeAnswer
from postroom.sessions.hosts.kept import Ends, KeptProcesses

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
log = structlog.get_logger("postroom.sessions.dsh")


def installed() -> tuple[str, ...]:
    """The command that starts DSH: the runtime of the `dsh` extra, else `dsh` on the path; () without either."""
    if importlib.util.find_spec("deepseek_harness_runtime") is not None:
        from deepseek_harness_runtime import resolve_bundled_launch_args

        return tuple(resolve_bundled_launch_args())
    found = shutil.which("dsh")
    return (found,) if found else ()


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
        self._runtimes = KeptProcesses(self._start, sessions)

    async def deliver(self, delivery: Delivery) -> bool:
        """True when a turn took the notices and ended well."""
        settings = self._agents.get(delivery.agent)
        try:
            async with self._runtimes.busy(delivery) as kept, asyncio.timeout(child.turn_s(settings)):
                ended = await self._turn(kept.process, delivery)
        except TimeoutError:
            log.warning("dsh_turn_timed_out", session_id=delivery.session_id)
            return False
        except PostroomError as problem:
            log.warning("dsh_not_taken", session_id=delivery.session_id, reason=problem.message)
            return False
        log.info("dsh_turn_ended", session_id=delivery.session_id, how=ended)
        return ended == "completed"

    async def liveness(self, session_id: str) -> Liveness:
        """Live in a runtime of ours, or on disk in an agent's home."""
        if self._runtimes.live(session_id):
            return Liveness.LIVE
        found = await asyncio.to_thread(lambda: any(self._folder.glob(f"*/home/sessions/**/{session_id}*")))
        return Liveness.PERSISTED if found else Liveness.UNKNOWN

    async def close(self) -> None:
        """Close every runtime, whatever it does: what no turn took is offered again."""
        await self._runtimes.close()

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

    async def _start(self, delivery: Delivery, ends: Ends) -> Runtime:
        token, key_id = await self._issuer.issue(delivery.agent_id, "dsh")
        ends.push_async_callback(self._issuer.revoke, key_id)
        settings = self._agents.get(delivery.agent, config.Agent())
        place = self._folder / delivery.agent_id
        home, workspace = place / "home", Path(settings.cwd) if settings.cwd else place / "workspace"
        for folder in (home, workspace):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        patch = place / "postroom.patch.yml"
        patch.write_text(PATCH.format(url=self._url()), encoding="utf-8")
        names = (*settings.environment, *(name for name in os.environ if name.startswith("DEEPSEEK_")))
        environ = child.environment(names)
        environ |= {"DSH_HOME": str(home), "DSH_TELEMETRY_MODE": "DISABLED", "POSTROOM_AGENT_TOKEN": token}
        command = [*self._command, "--profile", "sdk", "--patch", str(patch)]
        runtime = await Runtime.start(command, environ=environ, cwd=workspace)
        ends.push_async_callback(runtime.close)
        return runtime
