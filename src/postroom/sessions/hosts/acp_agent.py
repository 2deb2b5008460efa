"""One ACP agent process and its wire, spoken by the protocol's own library, which importing this loads.

The process and its pipes are ours: the library's would give the child more of our environment and read a line of any
length. What an agent says on the way to its answer is its own affair; it is read and let go, like whatever on its
output is no message. Its stderr is not kept, for it may hold mail.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    McpServerStdio,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from pydantic import ValidationError

from postroom import __version__, limits
from postroom.errors import PostroomError, TransportFailure
from postroom.safety.unicode import one_line
from postroom.sessions.hosts import acp_tools, child
from postroom.sessions.hosts.acp_tools import Tools

_CALL_S: Final = 120.0  # to start, and to open a session with its MCP servers
_CANCEL_S: Final = 5.0  # to end a turn it was told to end
_CLOSE_S: Final = 1.5
_LINE_BYTES: Final = 64 * limits.MIB
_LOGIN: Final = -32000
log = structlog.get_logger("postroom.sessions.acp")
T = TypeVar("T")


class AgentAnswer(PostroomError):
    """The agent answered a call with an error."""

    code = "acp_error"


class Lines:
    """The library's transport over a child's pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the agent was started without pipes")
        self._stdin, self._stdout = process.stdin, process.stdout
        self.silent = False

    async def send(self, message: dict[str, Any]) -> None:
        """Write one message."""
        self._stdin.write(json.dumps(message, default=str).encode() + b"\n")  # the library puts objects into its complaints
        await self._stdin.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message that somebody waits for; None at the end, also after a line that is too long."""
        try:
            while line := await self._stdout.readline():
                message = _message(line)
                if message is not None and message.get("method") != "session/update":
                    return message
        except ValueError:
            log.warning("acp_line_too_long")
        self.silent = True
        return None

    async def close(self) -> None:
        """Say that nothing more comes; an agent ends by itself then."""
        self._stdin.close()

    async def drained(self) -> None:
        """Let go of what is still said, up to the end: a full pipe would keep the agent."""
        with contextlib.suppress(OSError):
            while await self._stdout.read(limits.MIB):
                pass


class Answers:
    """What the agent may ask of us: permissions. Files and terminals are not offered."""

    def __init__(self, readable: Collection[str]) -> None:
        self._readable = readable

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """By `acp_tools`: nobody is here to be asked."""
        allowed = acp_tools.allows(tool_call.title, tool_call.kind, self._readable)
        option = acp_tools.choice(((one.kind, one.option_id) for one in options), allowed=allowed)
        log.info("acp_permission", allowed=allowed and option is not None, kind=tool_call.kind)
        if option is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))


class Agent:
    """A started agent. `opened` are the sessions it has live, ours to its own; `turns` counts what it was asked."""

    def __init__(self, process: asyncio.subprocess.Process, cwd: Path, readable: Collection[str]) -> None:
        self._process = process
        self._cwd = str(cwd)
        self._lines = Lines(process)
        self._wire = connect_to_agent(Answers(readable), self._lines)  # type: ignore[arg-type]  # what we do not offer is absent
        self.opened: dict[str, str] = {}
        self.turns = 0
        self._by_http = False
        self._loads = self._resumes = False
        self._hangs = False

    @classmethod
    async def start(cls, command: Sequence[str], *, environ: Mapping[str, str], cwd: Path, readable: Collection[str]) -> Agent:
        """Start and initialise. Raises `TransportFailure` when it does not come up, `AgentAnswer` when it does not want to."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=dict(environ),
                cwd=cwd,
                limit=_LINE_BYTES,
                start_new_session=True,
            )
        except OSError as problem:
            raise TransportFailure(f"{command[0]} cannot be started: {problem.strerror}", kind="temporary") from None
        agent = cls(process, cwd, readable)
        try:
            await agent._greet()
        except BaseException:  # a cancellation too: what was started is never left running
            await agent.close()
            raise
        return agent

    @property
    def alive(self) -> bool:
        """Whether it can be spoken to: an agent that closed its output, or did not end a turn it was told to end, is gone."""
        return self._process.returncode is None and not self._lines.silent and not self._hangs

    @property
    def keeps(self) -> bool:
        """Whether it can bring a session back that another process of it had."""
        return self._loads or self._resumes

    async def new(self, tools: Tools) -> str:
        """A new session with our tools; its id, which is the agent's own."""
        asked = self._wire.new_session(cwd=self._cwd, mcp_servers=[self._server(tools)])
        return str((await self._answer("session/new", asked)).session_id)

    async def bring_back(self, session: str, tools: Tools) -> bool:
        """Make a session live that it kept; False when it cannot."""
        call = self._wire.load_session if self._loads else self._wire.resume_session
        try:
            await self._answer("session/load", call(session_id=session, cwd=self._cwd, mcp_servers=[self._server(tools)]))
        except AgentAnswer as problem:
            log.info("acp_session_not_loaded", reason=problem.message)
            return False
        return True

    async def prompt(self, session: str, text: str, *, within_s: float) -> str:
        """One turn; why it stopped. A turn over its time is cancelled. Raises when it did not end, or not well."""
        self.turns += 1
        asked = asyncio.ensure_future(self._wire.prompt(session_id=session, prompt=[text_block(text)]))
        try:
            ended = await self._answer("session/prompt", asyncio.shield(asked), within_s)
            return str(ended.stop_reason)
        except TransportFailure:
            await self._cancel(session, asked)
            raise
        finally:
            asked.cancel()

    async def close(self) -> None:
        """An end by itself, else an end; and of what it started."""
        await self._wire.close()
        rest = asyncio.create_task(self._lines.drained())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._process.wait()
        await child.end(self._process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.wait([rest], timeout=_CLOSE_S)
        rest.cancel()

    async def _greet(self) -> None:
        hello = await self._answer(
            "initialize",
            self._wire.initialize(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=ClientCapabilities(),
                client_info=Implementation(name="postroom", version=__version__),
            ),
        )
        if hello.protocol_version != PROTOCOL_VERSION:
            raise TransportFailure(f"the agent speaks version {hello.protocol_version} of ACP only", kind="permanent")
        can = hello.agent_capabilities
        if can is not None:
            self._loads = bool(can.load_session)
            self._resumes = can.session_capabilities is not None and can.session_capabilities.resume is not None
            self._by_http = can.mcp_capabilities is not None and bool(can.mcp_capabilities.http)

    async def _cancel(self, session: str, asked: asyncio.Future[Any]) -> None:
        """End a turn that takes too long. An agent that does not is not used again."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_CANCEL_S):
                await self._wire.cancel(session_id=session)
                await asyncio.wait([asked])
                self._hangs = False

    def _server(self, tools: Tools) -> HttpMcpServer | McpServerStdio:
        if self._by_http:
            bearer = HttpHeader(name="Authorization", value=f"Bearer {tools.token}")
            return HttpMcpServer(type="http", name=acp_tools.SERVER, url=tools.url, headers=[bearer])
        program, *arguments = tools.command
        given = [EnvVariable(name=name, value=value) for name, value in tools.environment.items()]
        return McpServerStdio(name=acp_tools.SERVER, command=program, args=arguments, env=given)

    async def _answer(self, method: str, asked: Awaitable[T], within_s: float | None = None) -> T:
        """What the agent answers. Raises `AgentAnswer`, or `TransportFailure` when it is gone, silent or says something else."""
        limit = _CALL_S if within_s is None else within_s
        try:
            async with asyncio.timeout(limit):
                return await asked
        except TimeoutError:
            self._hangs = True
            raise TransportFailure(f"the agent did not answer {method} in {limit:.0f} s", kind="temporary") from None
        except RequestError as problem:
            hint = "; it wants a login: start it once yourself and log in" if problem.code == _LOGIN else ""
            raise AgentAnswer(f"the agent refused {method}: {one_line(str(problem), 200)}{hint}") from None
        except ValidationError:
            raise TransportFailure(f"the agent's answer to {method} is not one of the protocol's", kind="temporary") from None
        except ConnectionError:
            raise TransportFailure("the agent ended", kind="temporary") from None


def _message(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
