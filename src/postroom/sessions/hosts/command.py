"""The `command` host: one child process per delivery, argv and never a shell.

The child reads `{session_id, thread_id, inbox_id, agent, seed, notices: [...]}` as JSON on stdin and
gets a short-lived token of its agent in `POSTROOM_TOKEN`, revoked when it ends. Exit status 0 says
that a turn took the notices. Its output goes to the log only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict

import structlog

from postroom import config, limits
from postroom.model.ports import TokenIssuer
from postroom.model.session import Delivery, Liveness
from postroom.sessions.hosts import child as children

OUTPUT_BYTES = 64 * limits.KIB
log = structlog.get_logger("postroom.sessions.command")


class CommandHost:
    """Runs `agents.NAME.command` for each delivery."""

    def __init__(self, agents: Mapping[str, config.Agent], issuer: TokenIssuer, url: Callable[[], str]) -> None:
        self._agents = agents
        self._issuer = issuer
        self._url = url
        self._live: set[str] = set()

    async def deliver(self, delivery: Delivery) -> bool:
        """True when the child took the notices (exit 0)."""
        settings = self._agents.get(delivery.agent)
        if settings is None or not settings.command:
            log.warning("no_command", agent=delivery.agent)
            return False
        token, key_id = await self._issuer.issue(delivery.agent_id, delivery.session_id)
        self._live.add(delivery.session_id)
        try:
            return await self._run(settings, delivery, token)
        finally:
            self._live.discard(delivery.session_id)
            await self._issuer.revoke(key_id)

    async def liveness(self, session_id: str) -> Liveness:
        """Live while its child runs; the program keeps its own memory, if any."""
        return Liveness.LIVE if session_id in self._live else Liveness.UNKNOWN

    async def close(self) -> None:
        """Nothing is kept open between deliveries."""

    async def _run(self, settings: config.Agent, delivery: Delivery, token: str) -> bool:
        environment = children.environment(settings.environment)
        environment |= {"POSTROOM_URL": self._url(), "POSTROOM_TOKEN": token, "POSTROOM_SESSION": delivery.session_id}
        try:
            child = await asyncio.create_subprocess_exec(
                *settings.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                cwd=settings.cwd or None,
                start_new_session=True,
            )
        except OSError as problem:
            log.warning("command_not_started", agent=delivery.agent, reason=problem.strerror)
            return False
        try:
            async with asyncio.timeout(children.turn_s(settings)):
                output = await _talk(child, _message(delivery))
                status = await child.wait()
        except TimeoutError:
            log.warning("command_timed_out", agent=delivery.agent, session_id=delivery.session_id)
            return False
        finally:
            await children.end(child)
        log.info("command_ended", agent=delivery.agent, session_id=delivery.session_id, status=status, output_bytes=len(output))
        return status == 0


def _message(delivery: Delivery) -> bytes:
    document = {
        "session_id": delivery.session_id,
        "thread_id": delivery.thread_id,
        "inbox_id": delivery.inbox_id,
        "agent": delivery.agent,
        "seed": delivery.seed,
        "notices": [asdict(notice) for notice in delivery.notices],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


async def _talk(child: asyncio.subprocess.Process, message: bytes) -> bytes:
    """Write the message and drain the output, keeping its first bytes. A child that doesn't read is not an error."""
    if child.stdin is None or child.stdout is None:
        raise RuntimeError("the child was started without pipes")
    stdin, stdout = child.stdin, child.stdout

    async def write() -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(message)
            await stdin.drain()
        stdin.close()

    async def drain() -> bytes:
        kept = bytearray()
        while chunk := await stdout.read(65536):
            kept += chunk[: max(0, OUTPUT_BYTES - len(kept))]
        return bytes(kept)

    _, output = await asyncio.gather(write(), drain())
    return output
