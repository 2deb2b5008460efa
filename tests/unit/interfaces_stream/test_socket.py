"""The WebSocket door over a log in memory: what happens to a client that does not read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from starlette.types import Scope
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from pace import PATIENCE_S
from postroom.interfaces.http.server import HttpServer, Listener, bind
from postroom.interfaces.stream.socket import SocketDoor
from postroom.model.event import SENT, Event
from postroom.model.principal import Kind, Principal

OWNER = Principal(kind=Kind.OWNER)
FRAME = b'{"type":"event","pad":"' + b"x" * 900_000 + b'"}'


class Log:
    """A log of `count` events."""

    def __init__(self, count: int) -> None:
        self.events = [
            Event(seq=seq, event_id=f"evt_{seq}", pod_id="p", kind=SENT, ref="<a@b>", at=seq) for seq in range(1, count + 1)
        ]

    def last_seq(self) -> int:
        return len(self.events)

    async def after(self, seq: int, *, kinds: Sequence[str] | None = None, limit: int = 500) -> list[Event]:
        return self.events[seq : seq + limit]

    async def wait(self, seq: int, timeout_s: float | None = None) -> bool:
        await asyncio.Event().wait()
        return True

    async def seq_of(self, event_id: str) -> int | None:
        return None


class Frames:
    async def frame(self, principal: Principal, event: Event) -> bytes | None:
        return FRAME


async def authorize(scope: Scope) -> Principal:
    return OWNER


@contextlib.asynccontextmanager
async def serving(send_s: float) -> AsyncIterator[tuple[SocketDoor, Listener]]:
    mail: Any = None
    door = SocketDoor(Log(200), mail, Frames(), authorize, send_s=send_s)
    listener = bind("127.0.0.1", 0)
    server = HttpServer(door, listener)
    await server.start()
    yield door, listener
    await door.close()
    await server.stop()


async def test_a_client_that_does_not_read_is_dropped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postroom.interfaces.http.websocket.SOCKET_CLOSE_S", PATIENCE_S)
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(send_s=0.2) as (door, listener),
        connect(f"ws://127.0.0.1:{listener.port}/", max_queue=1, ping_interval=None) as client,
    ):
        await client.send('{"type": "subscribe", "cursor": "0"}')
        await client.recv()
        while door._open:
            await asyncio.sleep(0.01)  # being slow is what this is about: nothing is read until the door has given up
        taken: list[Any] = []
        with pytest.raises(ConnectionClosed) as caught:
            await read_into(taken, client)
    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, "cursor" in caught.value.rcvd.reason, 0 < len(taken) < 200) == (1013, True, True)


async def read_into(taken: list[Any], client: ClientConnection) -> None:
    while True:
        taken.append(await client.recv())


async def test_a_client_that_reads_gets_everything() -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        serving(send_s=PATIENCE_S) as (_, listener),
        connect(f"ws://127.0.0.1:{listener.port}/") as client,
    ):
        await client.send('{"type": "subscribe", "cursor": "150"}')
        frames = [await client.recv() for _ in range(51)]
    assert (str(frames[0])[:20], {len(frame) for frame in frames[1:]}) == ('{"type":"subscribed"', {len(FRAME)})
