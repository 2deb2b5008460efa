"""What the SMTP tests share: an intake that only remembers, and a peer that says exactly the bytes it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from pace import PATIENCE_S
from postroom.interfaces.smtp.door import SmtpDoor
from postroom.interfaces.smtp.house import Bounds, Desk
from postroom.office.intake import Envelope, IntakeResult

INBOX = "agent@postroom.localhost"


class RememberingIntake:
    """Knows `INBOX` and 200 numbered inboxes. `problem` is raised instead of storing; `gate` holds every mail back."""

    def __init__(self) -> None:
        self.mails: list[tuple[Envelope, bytes]] = []
        self.problem: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.began = asyncio.Event()

    def knows(self, address: str) -> bool:
        return address.lower() == INBOX or address in {f"u{number}@postroom.localhost" for number in range(200)}

    async def accept(self, envelope: Envelope, raw: bytes) -> IntakeResult:
        self.began.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        self.mails.append((envelope, raw))
        return IntakeResult(ids=(len(self.mails),))

    @property
    def raws(self) -> list[bytes]:
        return [raw for _, raw in self.mails]


class Door:
    """A running door and its intake."""

    def __init__(self, door: SmtpDoor, intake: RememberingIntake, port: int) -> None:
        self.door, self.intake, self.port = door, intake, port

    @asynccontextmanager
    async def peer(self, *, greet: bool = True) -> AsyncIterator[Peer]:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20))
        try:
            await peer.reply()
            if greet:
                await peer.ask(b"EHLO peer.example")
            yield peer
        finally:
            peer.close()


class Peer:
    """A raw client. Every read is bounded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def reply(self) -> str:
        """One whole reply, its lines joined by a line feed; "" when the connection is closed."""
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while line := await self._reader.readline():
                lines.append(line.decode("utf-8").rstrip("\r\n"))
                if line[3:4] != b"-":
                    break
        return "\n".join(lines)

    async def ask(self, line: bytes) -> str:
        await self.say(line + b"\r\n")
        return await self.reply()

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def begin(self, recipient: str = INBOX) -> None:
        """MAIL, RCPT and DATA, all accepted."""
        await self.ask(b"MAIL FROM:<ann@example.org>")
        await self.ask(b"RCPT TO:<" + recipient.encode() + b">")
        assert (await self.ask(b"DATA"))[:3] == "354"

    async def end_of_input(self) -> None:
        self._writer.write_eof()
        await self._writer.drain()

    async def everything(self) -> bytes:
        """All that still comes until the door closes, or breaks off."""
        data = b""
        with suppress(ConnectionResetError):
            async with asyncio.timeout(PATIENCE_S):
                while chunk := await self._reader.read(4096):
                    data += chunk
        return data

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def open_door(*, submission: Desk | None = None, **bounds: float) -> AsyncIterator[Door]:
    intake = RememberingIntake()
    names = {"hostname": "mx.postroom.localhost", "domains": ["postroom.localhost"]}
    door = SmtpDoor(intake, **names, bounds=Bounds(**bounds), submission=submission)
    _, port = await door.start("127.0.0.1", 0)
    try:
        yield Door(door, intake, port)
    finally:
        await door.stop()
