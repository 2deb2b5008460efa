"""`/bridge/…`: the plugin in a person's harness. It posts JSON; `commands` answers with a stream of commands, one a line.

The caller's key is an agent's, and tools called here are called as that agent, in the session the plugin
names. Only what a person clicked needs more than that, and `gate.dialog` says what it is worth.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from postroom.errors import Forbidden, NotFound, PostroomError, StorageFailure
from postroom.gate.dialog import Dialog
from postroom.interfaces.api.wire import answer, body_as, caller
from postroom.interfaces.bridge import wire
from postroom.model.principal import Principal
from postroom.model.session import Notice, Waiting
from postroom.sessions.hosts.bridge import BridgeHost
from postroom.tools import sending
from postroom.tools.email import SENDING_TOOLS, EmailTools
from postroom.tools.mailbox_commands import COMMANDS, MailboxCommands
from postroom.tools.toolset import Toolset

BEAT_S: Final = 15.0
DECIDED_S: Final = 50.0
_HEADERS: Final = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
_SAID: Final = {"message.received": "new mail", "followup.due": "follow-up due", "mailbox.message": "message"}
_Verb: TypeAlias = Callable[[Principal, Any], Awaitable[Mapping[str, Any]]]


class Sessions(Protocol):
    """What the plugin is told of (`sessions`, and the mailbox's own notices)."""

    async def pending(self, principal: Principal, session_id: str, ack: int | None = ..., /) -> Sequence[Notice]: ...
    async def acknowledge(self, principal: Principal, session_id: str, seq: int, /) -> None: ...
    async def visited(self, agent_id: str, /) -> None: ...
    async def waiting(
        self, principal: Principal, /, *, client: str = ..., again: bool = ..., wait_s: float = ...
    ) -> Sequence[Waiting]: ...


class BridgeDoor:
    """The ASGI application. `prefix` is what a thread's session is called by, before the thread's id."""

    def __init__(
        self,
        *,
        host: BridgeHost,
        sessions: Sessions,
        tools: Toolset,
        email: EmailTools,
        dialog: Dialog,
        commands: MailboxCommands,
        prefix: str,
    ) -> None:
        self._host = host
        self._sessions = sessions
        self._tools = tools
        self._email = email
        self._dialog = dialog
        self._commands = commands
        self._prefix = prefix
        self._verbs: Mapping[str, tuple[type[wire.Body], _Verb]] = {
            "manifest": (wire.Body, self._manifest),
            "done": (wire.Done, self._done),
            "ended": (wire.Ended, self._ended),
            "pending": (wire.Step, self._pending),
            "tool": (wire.ToolCall, self._tool),
            "question": (wire.ToolCall, self._question),
            "decided": (wire.Frozen, self._decided),
            "answer": (wire.Answer, self._answer),
            "outcome": (wire.Frozen, self._outcome),
            "command": (wire.Typed, self._command),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise PostroomError("a bridge posts", code="method_not_allowed")
        request = Request(scope, receive)
        principal = caller(request)
        if not principal.bridge:
            raise Forbidden("this is for the plugin of a harness", fix="postroom connect dsh gives it its own key")
        verb = scope["path"].removeprefix("/bridge/")
        if verb == "commands":
            hello = await body_as(request, wire.Hello)
            await self._stream(principal, hello.profile, receive, send)
            return
        if verb not in self._verbs:
            raise NotFound("Route not found", fix="this daemon does not know the plugin's verb; use one version of both")
        kind, act = self._verbs[verb]
        await answer(await act(principal, await body_as(request, kind)))(scope, receive, send)

    async def manifest(self, principal: Principal) -> Mapping[str, Any]:
        """What the plugin has to know before the daemon is asked anything: words, tools, commands."""
        specs = self._tools.specs(principal)
        return {
            "prompt": await self._tools.instructions(principal),
            "prefix": self._prefix,
            "tools": [{"name": spec.name, "description": spec.description, "parameters": spec.input_schema} for spec in specs],
            "asks": [spec.name for spec in specs if spec.name in SENDING_TOOLS],
            "commands": [dataclasses.asdict(command) for command in COMMANDS],
        }

    async def _stream(self, principal: Principal, profile: str, receive: Receive, send: Send) -> None:
        """Commands until the harness goes; the sessions room hears that it came and that it went."""
        link = self._host.attach(principal.agent_id or "", profile)

        async def write() -> None:
            await self._sessions.visited(link.agent_id)
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send(_line(None))
            async for command in link.commands(BEAT_S):
                await send(_line(command))

        tasks = [asyncio.create_task(write()), asyncio.create_task(_until_gone(receive))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._host.detach(link)
            with contextlib.suppress(StorageFailure):  # nothing is lost: whoever comes next looks again
                await self._sessions.visited(link.agent_id)
        for task in done:
            task.result()
        await send({"type": "http.response.body", "body": b""})

    async def _manifest(self, principal: Principal, body: wire.Body) -> Mapping[str, Any]:
        return await self.manifest(principal)

    async def _done(self, principal: Principal, body: wire.Done) -> Mapping[str, Any]:
        said = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        for link in self._host.links(principal.agent_id or ""):
            link.answered(body.id, said)
        return {}

    async def _ended(self, principal: Principal, body: wire.Ended) -> Mapping[str, Any]:
        if body.read and body.seq:
            with contextlib.suppress(NotFound):
                await self._sessions.acknowledge(principal, body.session_id, body.seq)
        for link in self._host.links(principal.agent_id or ""):
            link.ended(body.session_id, body.seq, read=body.read)
        return {}

    async def _pending(self, principal: Principal, body: wire.Step) -> Mapping[str, Any]:
        """Of the session's own thread the mail itself, fenced; of all else that it is there."""
        own: Sequence[Notice] = ()
        with contextlib.suppress(NotFound):
            own = await self._sessions.pending(principal, body.session_id)
        notices = [{"id": notice.event_id, "seq": notice.seq, "text": notice.text} for notice in own]
        found = await self._sessions.waiting(principal, client=body.session_id, again=body.again)
        if others := [one for one in found if one.session_id != body.session_id]:
            notices.append({"id": _key([body.session_id, *(one.seq for one in others)]), "seq": 0, "text": _told(others)})
        return {"notices": notices}

    async def _tool(self, principal: Principal, body: wire.ToolCall) -> Mapping[str, Any]:
        result = await self._tools.call(
            _agent(principal, body), body.name, body.arguments, call_id=_call_key(body), canonical=True
        )
        return {"text": result.text, "data": result.structured, "error": result.is_error}

    async def _question(self, principal: Principal, body: wire.ToolCall) -> Mapping[str, Any]:
        """What the person is to be asked before this call; nothing when there is nothing to ask, or nobody here who could be."""
        if not self._dialog.counts(principal):
            return {}
        agent = _agent(principal, body)
        try:
            held = await self._email.hold(agent, body.name, body.arguments, call_id=_call_key(body))
        except PostroomError:
            return {}  # the call itself will tell it
        if held is None:
            return {}
        mail = await self._dialog.shown(agent, held.outgoing_id)
        return {"question": sending.question(mail), "outgoingId": mail.outgoing_id, "digest": mail.digest}

    async def _decided(self, principal: Principal, body: wire.Frozen) -> Mapping[str, Any]:
        return {"decided": await self._dialog.decided(principal, body.outgoing_id, DECIDED_S)}

    async def _answer(self, principal: Principal, body: wire.Answer) -> Mapping[str, Any]:
        await self._dialog.answer(principal, body.outgoing_id, body.digest, allowed=body.allowed)
        return {}

    async def _outcome(self, principal: Principal, body: wire.Frozen) -> Mapping[str, Any]:
        result = sending.told(self._dialog.outcome(principal, body.outgoing_id), canonical=True)
        return {"text": result.text, "data": result.structured, "error": result.is_error}

    async def _command(self, principal: Principal, body: wire.Typed) -> Mapping[str, Any]:
        done, text = await self._commands.run(principal, body.name, body.input)
        return {"text": text, "error": not done}


def _agent(principal: Principal, body: wire.ToolCall) -> Principal:
    return dataclasses.replace(principal, bridge=False, session_id=body.session_id)


def _call_key(body: wire.ToolCall) -> str:
    """The model's call, in its session, as a key: repeated by the plugin it is done once."""
    return _key([body.session_id, body.call_id])


def _key(parts: Sequence[Any]) -> str:
    return "call-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _told(waiting: Sequence[Waiting]) -> str:
    count = f"{len(waiting)} notice{'s' if len(waiting) != 1 else ''}"
    lines = [f"postroom: {count} waiting in your mail. agentmail_get_thread reads a thread, mailbox_read the mailbox."]
    for one in waiting:
        shown = (("thread_id", one.thread_id), ("message_id", one.message_id), ("from", one.sender))
        parts = [f"{_SAID.get(one.kind, one.kind)} in {one.inbox_id}", *(f"{name} {value}" for name, value in shown if value)]
        lines.append("- " + ", ".join(parts))
    return "\n".join(lines)


def _line(command: Mapping[str, Any] | None) -> dict[str, Any]:
    body = b"\n" if command is None else msgspec.json.encode(command) + b"\n"
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
