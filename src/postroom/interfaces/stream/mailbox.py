"""`GET /stream?to=&since=`: the mailbox as server-sent events. Replays what waits, then follows; skips nothing.

Each event's id is its cursor, so a client that reconnects with Last-Event-ID goes on exactly there.
The stream reads by cursor whenever it is rung, a page at a time, and writes the next only when the
client took the last: a slow reader holds up nobody and costs one page of memory. What it was sent
counts as notified, not as fetched.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs

import msgspec
from starlette.types import Message as Frame
from starlette.types import Receive, Scope, Send

from postroom.errors import Busy, PostroomError
from postroom.interfaces.mailbox.wire import message_shape
from postroom.limits import MAILBOX_BEAT_S
from postroom.mailbox.reading import Query
from postroom.mailbox.records import Batch
from postroom.mailbox.room import Mailbox
from postroom.model.principal import Principal

_PAGE = 50
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class StreamDoor:
    """The ASGI application. At most `limit` streams are open at once."""

    def __init__(self, mailbox: Mailbox, *, limit: int, beat_s: float = MAILBOX_BEAT_S) -> None:
        self._mailbox = mailbox
        self._limit = limit
        self._beat_s = beat_s
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            raise PostroomError("a stream is read with GET", code="method_not_allowed")
        principal: Principal = scope["state"]["principal"]
        query = self._mailbox.query_of(principal, _asked(scope))
        if self.open >= self._limit:
            raise Busy(f"{self._limit} streams are open, the most there may be", code="too_many_streams", retry_after_s=5)
        self.open += 1
        try:
            await self._follow(query, receive, send)
        finally:
            self.open -= 1

    async def _follow(self, query: Query, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send(_chunk(b": connected\n\n"))
            writing = asyncio.create_task(self._write(query, send))
            await asyncio.wait((gone, writing), return_when=asyncio.FIRST_COMPLETED)
            await _end(writing)
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()

    async def _write(self, query: Query, send: Send) -> None:
        with self._mailbox.bells.listening(query.reader) as bell:
            since = query.since
            while True:
                bell.clear()
                batch = self._mailbox.look(replace(query, since=since))
                for frame in _frames(batch):
                    await send(_chunk(frame))
                if batch.messages:
                    self._mailbox.roster.notified(query.reader, batch.cursor)
                since = batch.cursor
                if batch.more:
                    await asyncio.sleep(0)
                    continue
                try:
                    async with asyncio.timeout(self._beat_s):
                        await bell.wait()
                except TimeoutError:
                    await send(_chunk(b": beat\n\n"))


def _asked(scope: Scope) -> Query:
    """The reader and the cursor. A cursor that is none begins at the start: a stream skips nothing."""
    given = parse_qs(scope["query_string"].decode("latin-1"))
    last = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"), None)
    text = last if last is not None else given.get("since", ["0"])[-1]
    since = int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0
    return Query(reader=given.get("to", [""])[-1], since=since, limit=_PAGE)


def _frames(batch: Batch) -> Iterator[bytes]:
    """One event per message. Only the last of a page may move the cursor past records that are not shown."""
    last = len(batch.messages) - 1
    for at, message in enumerate(batch.messages):
        place = message.change.seq if message.change is not None else message.seq
        cursor = batch.cursor if at == last else place
        kind = "change" if message.change is not None else "message"
        yield f"id: {cursor}\nevent: {kind}\ndata: ".encode() + msgspec.json.encode(message_shape(message)) + b"\n\n"


def _chunk(body: bytes) -> Frame:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
