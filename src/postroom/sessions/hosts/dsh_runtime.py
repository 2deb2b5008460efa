"""One DSH runtime process and its wire: JSON-RPC, one message a line, on stdin and stdout.

The SDK's own client is not used: it gives the runtime, and so its shell tool, our whole environment,
where the owner's secrets may be. Here the runtime gets what `environ` says and no more. A prompt's
receipt is not durable, so a turn is matched on the message's id up to its `turn/end`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from postroom import limits
from postroom.errors import PostroomError, TransportFailure

PROVIDER, MODEL = "deepseek-official", "deepseek-v4-flash"  # the SDK's own defaults
_START_S: Final = 60.0
_CALL_S: Final = 60.0
_CLOSE_S: Final = 2.0
_LINE_BYTES: Final = 64 * limits.MIB
_NOT_ACTIVE: Final = "did not activate"
log = structlog.get_logger("postroom.sessions.dsh")


class RuntimeAnswer(PostroomError):
    """The runtime answered a call with an error; only its text tells which."""

    code = "dsh_error"


class Runtime:
    """A started runtime. `opened` are the sessions it has live, `turns` counts what it was asked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._calls: dict[str, asyncio.Future[Any]] = {}
        self._watched: dict[str, asyncio.Queue[Mapping[str, Any] | None]] = {}
        self._said: deque[str] = deque(maxlen=50)
        self._readers = [asyncio.create_task(self._read()), asyncio.create_task(self._listen())]
        self.opened: set[str] = set()
        self.turns = 0
        self._silent = False

    @classmethod
    async def start(cls, command: Sequence[str], *, environ: Mapping[str, str], cwd: Path) -> Runtime:
        """Start and initialise. Raises `TransportFailure` when it does not come up whole: a row that fails is not an error to it."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(environ),
                cwd=cwd,
                limit=_LINE_BYTES,
                start_new_session=True,
            )
        except OSError as problem:
            raise TransportFailure(f"DSH cannot be started: {problem.strerror}", kind="temporary") from None
        runtime = cls(process)
        try:
            asked = {"cwd": str(cwd), "provider": PROVIDER, "model": MODEL}
            await runtime.call("initialize", asked, within_s=_START_S)
            if runtime.complaint:
                raise TransportFailure(f"DSH started without a part of it: {runtime.complaint}", kind="temporary")
        except BaseException:
            await runtime.close()
            raise
        return runtime

    @property
    def alive(self) -> bool:
        """Whether it can be spoken to: a process that has closed its output is as good as gone."""
        return self._process.returncode is None and not self._silent

    @property
    def complaint(self) -> str:
        """What the runtime said about rows it left out; "" when it did not."""
        return next((line for line in self._said if _NOT_ACTIVE in line), "")

    async def call(self, method: str, params: Mapping[str, Any], *, within_s: float = _CALL_S) -> Any:
        """One request. Raises `RuntimeAnswer`, or `TransportFailure` when the runtime is gone or silent."""
        number = str(next(self._ids))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        try:
            if not self.alive or self._process.stdin is None:
                raise _gone()
            self._process.stdin.write(line.encode())
            await self._process.stdin.drain()
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            raise TransportFailure(f"DSH did not answer {method} in {within_s:.0f} s", kind="temporary") from None
        except (BrokenPipeError, ConnectionResetError):
            raise _gone() from None
        finally:
            self._calls.pop(number, None)

    async def turn(self, session_id: str, text: str) -> str:
        """Prompt, and wait for the end of the turn that took the message: its reason (`completed`, `error`, …)."""
        events: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._watched[session_id] = events
        try:
            blocks = [{"type": "text", "text": text}]
            message_id = (await self.call("session/prompt", {"sessionId": session_id, "contentBlocks": blocks}))["messageId"]
            self.opened.add(session_id)
            self.turns += 1
            taken = False
            while True:
                event = await events.get()
                if event is None:
                    raise _gone()
                data = event.get("data") or {}
                if event.get("type") == "user/message" and data.get("id") == message_id:
                    taken = True
                elif taken and event.get("type") == "turn/end":
                    return str((data.get("reason") or {}).get("kind"))
        finally:
            self._watched.pop(session_id, None)

    async def close(self) -> None:
        """An orderly end that lets it write what it has; else an end."""
        if self.alive:
            with contextlib.suppress(PostroomError):
                await self.call("shutdown", {}, within_s=_CLOSE_S)
        if self._process.stdin is not None:
            self._process.stdin.close()
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._process.wait()
                    break
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _read(self) -> None:
        """Answers to their callers, events to the turn that watches their session. At the end everyone hears of it."""
        if self._process.stdout is None:
            raise RuntimeError("the runtime was started without pipes")
        try:
            async for line in self._process.stdout:
                with contextlib.suppress(ValueError, RecursionError):
                    message = json.loads(line)
                    if isinstance(message, dict):
                        self._take(message)
        except ValueError:
            log.warning("dsh_line_too_long")
        finally:
            self._silent = True
            for call in self._calls.values():
                if not call.done():
                    call.set_exception(_gone())
            for events in self._watched.values():
                events.put_nowait(None)

    def _take(self, message: Mapping[str, Any]) -> None:
        if message.get("method") == "session.event":
            params = message.get("params") or {}
            if (events := self._watched.get(str(params.get("sessionId")))) is not None:
                events.put_nowait(params.get("event") or {})
            return
        call = self._calls.get(str(message.get("id")))
        if "method" in message or call is None or call.done():
            return
        if isinstance(problem := message.get("error"), dict):
            call.set_exception(RuntimeAnswer(str(problem.get("message"))))
        else:
            call.set_result(message.get("result"))

    async def _listen(self) -> None:
        if self._process.stderr is None:
            raise RuntimeError("the runtime was started without pipes")
        with contextlib.suppress(ValueError):
            async for line in self._process.stderr:
                self._said.append(line.decode(errors="replace").strip())


def _gone() -> TransportFailure:
    return TransportFailure("the DSH runtime ended", kind="temporary")
