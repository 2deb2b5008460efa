"""The WebSocket at `GET /v0`: subscribe, then events as they happen, each once and in order.

Every connection follows the event log at its own pace from its own position, so nothing is queued
for it: a slow client costs one frame, not a backlog. One that takes nothing for a while is dropped
with a reason; it comes back with `cursor`, the id of the last event it has seen, and misses nothing.
What a client may see is asked again for every event; a key that stops working ends the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from postroom.errors import NotFound, PostroomError, Unauthorized
from postroom.interfaces.http.errors import body_of
from postroom.interfaces.rest.shapes import ORGANIZATION
from postroom.interfaces.stream.subscription import Command, Subscription, check_types, read_command
from postroom.limits import SOCKET_SEND_S, SOCKET_SUBSCRIPTIONS
from postroom.model.event import PUBLIC, Event
from postroom.model.ports import Mail
from postroom.model.principal import DEFAULT_POD, Principal

GOING_AWAY, POLICY, TOO_SLOW = 1001, 1008, 1013
_BATCH: Final = 100
_KINDS: Final = tuple(PUBLIC)


class Log(Protocol):
    """The event log, as a follower uses it."""

    def last_seq(self) -> int: ...
    async def after(self, seq: int, *, kinds: Sequence[str] | None = ..., limit: int = ...) -> list[Event]: ...
    async def wait(self, seq: int, timeout_s: float | None = ...) -> bool: ...
    async def seq_of(self, event_id: str) -> int | None: ...


class Framer(Protocol):
    """Makes an event's frame, or says that there is none for this caller."""

    async def frame(self, principal: Principal, event: Event) -> bytes | None: ...


class SocketDoor:
    """The ASGI application of the WebSocket. `authorize` makes the caller of a connection, afresh each time."""

    def __init__(
        self,
        log: Log,
        mail: Mail,
        frames: Framer,
        authorize: Callable[[Scope], Awaitable[Principal]],
        *,
        send_s: float = SOCKET_SEND_S,
    ) -> None:
        self.log = log
        self.mail = mail
        self.frames = frames
        self.authorize = authorize
        self.send_s = send_s
        self._open: set[_Connection] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = _Connection(self, scope, receive, send)
        self._open.add(connection)
        try:
            await connection.serve()
        finally:
            self._open.discard(connection)

    async def close(self) -> None:
        """Tell every client that the service stops."""
        for connection in tuple(self._open):
            connection.stop()


class _Gone(Exception):
    """The client has closed the connection."""


class _Drop(Exception):
    """We close it, with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _Connection:
    """One client. `serve` reads its commands and follows the log, one step after the other."""

    def __init__(self, door: SocketDoor, scope: Scope, receive: Receive, send: Send) -> None:
        self._door = door
        self._scope = scope
        self._receive = receive
        self._send = send
        self._subscriptions: list[Subscription] = []
        self._commands: deque[str | None] = deque()
        self._stirred = asyncio.Event()
        self._room = asyncio.Event()
        self._gone = False
        self._stopping = False
        self._position = 0
        self._caller: Principal | None = None

    def stop(self) -> None:
        """End it politely."""
        self._stopping = True
        self._stirred.set()

    async def serve(self) -> None:
        """Until either side ends it."""
        await self._receive()  # websocket.connect
        await self._send({"type": "websocket.accept"})
        reading = asyncio.create_task(self._read())
        try:
            await self._follow()
        except _Gone:
            return
        except _Drop as drop:
            with contextlib.suppress(OSError):  # it may have gone meanwhile
                await self._send({"type": "websocket.close", "code": drop.code, "reason": drop.reason})
        finally:
            reading.cancel()

    async def _read(self) -> None:
        """Take the client's frames, one ahead of what is worked on."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self._gone = True
                self._stirred.set()
                return
            self._commands.append(message.get("text"))
            self._stirred.set()
            self._room.clear()
            await self._room.wait()

    async def _follow(self) -> None:
        self._position = self._door.log.last_seq()
        while True:
            self._stirred.clear()
            self._check_open()
            while self._commands:
                text = self._commands.popleft()
                self._room.set()
                await self._obey(text)
                self._check_open()
            if not self._subscriptions or not await self._deliver():
                await self._pause()

    async def _pause(self) -> None:
        """Until the log grows or something stirs here."""
        if not self._subscriptions:
            await self._stirred.wait()
            return
        waits = (asyncio.ensure_future(self._door.log.wait(self._position)), asyncio.ensure_future(self._stirred.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _deliver(self) -> bool:
        """What lies after our position; False when nothing does."""
        last = self._door.log.last_seq()
        if self._position >= last:
            return False
        events = await self._door.log.after(self._position, kinds=_KINDS, limit=_BATCH)
        for event in events:
            if any(one.matches(event) for one in self._subscriptions):
                await self._show(event)
            self._position = event.seq
        if len(events) < _BATCH:
            self._position = max(self._position, last)
        return True

    async def _replay(self, fresh: Subscription) -> None:
        """What a new subscription missed up to our position, without what another already brought."""
        seen = fresh.since
        while seen < self._position:
            events = await self._door.log.after(seen, kinds=_KINDS, limit=_BATCH)
            for event in events:
                seen = event.seq
                if seen > self._position:
                    return
                if fresh.matches(event) and not any(one.matches(event) for one in self._subscriptions):
                    await self._show(event)
            if len(events) < _BATCH:
                return

    async def _show(self, event: Event) -> None:
        self._check_open()
        frame = await self._door.frames.frame(await self._who(), event)
        if frame is not None:
            await self._write(frame)

    async def _obey(self, text: str | None) -> None:
        try:
            command = read_command(text)
            caller = await self._who()
            if command.type == "subscribe":
                await self._subscribe(caller, command)
            else:
                await self._unsubscribe(caller, command)
        except PostroomError as error:
            body = body_of(error)
            await self._write(msgspec.json.encode({"type": "error"} | body))

    async def _subscribe(self, caller: Principal, command: Command) -> None:
        if len(self._subscriptions) >= SOCKET_SUBSCRIPTIONS:
            raise PostroomError(
                f"a connection has at most {SOCKET_SUBSCRIPTIONS} subscriptions", code="limit_exceeded", fix="open another one"
            )
        types = check_types(command.event_types)
        inboxes = await self._inboxes(caller, command)
        if not self._subscriptions:
            self._position = self._door.log.last_seq()
        since = self._position if command.cursor is None else min(await self._seq(command.cursor), self._position)
        fresh = Subscription(inbox_ids=inboxes, event_types=types, since=since)
        await self._acknowledge("subscribed", command)
        await self._replay(fresh)
        self._subscriptions.append(fresh)

    async def _unsubscribe(self, caller: Principal, command: Command) -> None:
        types, inboxes = check_types(command.event_types), await self._inboxes(caller, command)
        left = (one.without(inboxes, types) for one in self._subscriptions)
        self._subscriptions = [one for one in left if one is not None]
        await self._acknowledge("unsubscribed", command)

    async def _inboxes(self, caller: Principal, command: Command) -> frozenset[str] | None:
        """The inboxes named, each one the caller's. Raises `NotFound`."""
        for pod in command.pod_ids or ():
            if pod not in (caller.pod_id, DEFAULT_POD):
                raise NotFound("Pod not found", fix="list pods to see the one there is")
        found = [(await self._door.mail.get_inbox(caller, name)).inbox_id for name in command.inbox_ids or ()]
        return frozenset(found) if found and command.pod_ids is None else None  # the pod has every inbox

    async def _seq(self, cursor: str) -> int:
        if cursor.isascii() and cursor.isdigit() and len(cursor) <= 18:
            return int(cursor)
        seq = await self._door.log.seq_of(cursor)
        if seq is None:
            raise NotFound("no event has that id", fix="leave cursor out, and list what is unread")
        return seq

    async def _acknowledge(self, what: str, command: Command) -> None:
        said: dict[str, Any] = {"type": what, "organization_id": ORGANIZATION} | command.echo()
        await self._write(msgspec.json.encode(said | {"cursor": str(self._position)}))

    async def _who(self) -> Principal:
        try:
            return await self._door.authorize(self._scope)
        except Unauthorized:
            raise _Drop(POLICY, "the key is no longer valid") from None

    async def _write(self, frame: bytes) -> None:
        try:
            async with asyncio.timeout(self._door.send_s):
                await self._send({"type": "websocket.send", "text": frame.decode()})
        except TimeoutError:
            raise _Drop(TOO_SLOW, "events are not read fast enough; come back with cursor = the last event_id seen") from None
        except OSError:
            raise _Gone from None

    def _check_open(self) -> None:
        if self._gone:
            raise _Gone
        if self._stopping:
            raise _Drop(GOING_AWAY, "the service stops")
