"""What waits for a caller, in its sessions and in its mailbox, as one answer: hooks and `postroom wait --mail` ask once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from postroom.mailbox.notices import Notices
from postroom.model.principal import Principal
from postroom.model.session import Notice, SessionRow, Waiting
from postroom.sessions.room import Sessions


class Everything:
    """The sessions room as `/api` uses it, with the mailbox's notices among what waits."""

    def __init__(self, sessions: Sessions, notices: Notices) -> None:
        self._sessions = sessions
        self._notices = notices

    async def list(self, principal: Principal, /) -> Sequence[SessionRow]:
        """The sessions."""
        return await self._sessions.list(principal)

    async def pending(self, principal: Principal, session_id: str, ack: int | None = None, /) -> Sequence[Notice]:
        """What is pending for one."""
        return await self._sessions.pending(principal, session_id, ack)

    async def acknowledge(self, principal: Principal, session_id: str, seq: int, /) -> None:
        """A turn of one took what it was offered."""
        await self._sessions.acknowledge(principal, session_id, seq)

    async def visited(self, agent_id: str, /) -> None:
        """A person's harness came, or went."""
        await self._sessions.visited(agent_id)

    async def wake(self, principal: Principal, session_id: str, /) -> bool:
        """Start one's turn."""
        return await self._sessions.wake(principal, session_id)

    async def waiting(
        self, principal: Principal, /, *, client: str = "", again: bool = True, wait_s: float = 0
    ) -> Sequence[Waiting]:
        """Both, or whichever comes first."""
        rooms = (self._sessions, self._notices)
        now = [await room.waiting(principal, client=client, again=again, wait_s=0) for room in rooms]
        if any(now) or wait_s <= 0:
            return [one for found in now for one in found]
        tasks = [asyncio.create_task(room.waiting(principal, client=client, again=again, wait_s=wait_s)) for room in rooms]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return [one for task in tasks if task.done() for one in task.result()]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
