"""The SMTP door: listens, counts who is inside, and closes without losing a mail it answered 250 for.

What is said to a peer is `conversation`'s; what becomes of a mail is the office's.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Collection
from typing import cast

from postroom.errors import InUse, Invalid
from postroom.interfaces.smtp.conversation import Conversation
from postroom.interfaces.smtp.house import Bounds, Desk, House, Intake, Memory

_FINISH_S = 3.0  # what a mail that is being stored gets when the house closes


class SmtpDoor:
    """Takes mail by SMTP for the inboxes `intake` knows.

    `domains`, in lower case, are those mail is taken for at the moment: a recipient elsewhere is told that there is no
    relaying, an unknown one there that there is no such inbox. `submission` takes mail from who proves
    to have a key; without it AUTH is not offered.
    """

    def __init__(
        self,
        intake: Intake,
        *,
        hostname: str,
        domains: Collection[str] = (),
        bounds: Bounds | None = None,
        submission: Desk | None = None,
    ) -> None:
        bounds = bounds or Bounds()
        memory = Memory(bounds.memory_bytes)
        self._house = House(
            intake=intake, hostname=hostname, domains=domains, bounds=bounds, memory=memory, submission=submission
        )
        self._server: asyncio.Server | None = None
        self._inside: set[Conversation] = set()
        self._left = asyncio.Event()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 picks a free one. Returns the address. Raises `InUse` if it is taken."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._welcome, host, port, backlog=self._house.bounds.connections)
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                raise InUse(f"the SMTP address {host}:{port} is taken", fix="choose another with --smtp HOST:PORT") from None
            raise Invalid(f"cannot listen on the SMTP address {host}:{port}: {problem.strerror}") from None
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Stop accepting, let mails that are being stored get their answer, and close within 4 s."""
        if self._server is None:
            return
        self._server.close()
        for conversation in tuple(self._inside):
            conversation.close_gently()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_S):
                await self._until_finished()
        for conversation in tuple(self._inside):
            conversation.cut_off()

    async def _until_finished(self) -> None:
        while self._inside:
            self._left.clear()
            await self._left.wait()

    def _welcome(self) -> asyncio.Protocol:
        if len(self._inside) >= self._house.bounds.connections:
            return _Full()
        conversation = Conversation(self._house, self._goodbye)
        self._inside.add(conversation)
        return conversation

    def _goodbye(self, conversation: Conversation) -> None:
        self._inside.discard(conversation)
        self._left.set()


class _Full(asyncio.Protocol):
    """Turns one peer away."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.WriteTransport, transport).write(b"421 4.7.0 Too many connections, try again later\r\n")
        transport.close()
