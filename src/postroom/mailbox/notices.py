"""What waits in the mailbox for an agent that pulls, in one line each: number and plain sender, never a word of it.

A client that shows such a line has *notified* its agent. How often each was given to which client is
remembered in memory: after a restart a client may hear of something once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from postroom.mailbox.reading import Query
from postroom.mailbox.room import Mailbox
from postroom.model.principal import Principal
from postroom.model.session import Waiting

KIND: Final = "mailbox.message"
TIMES: Final = 3  # a client hears of one message so often
SHOWN: Final = 10
_CLIENTS: Final = 1024
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")


class Notices:
    """Lists what waits in one mailbox, and remembers who was told."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._told: OrderedDict[tuple[str, str], dict[int, int]] = OrderedDict()

    async def waiting(
        self, principal: Principal, *, client: str = "", again: bool = True, wait_s: float = 0
    ) -> Sequence[Waiting]:
        """Messages after what the caller acknowledged; up to `wait_s` until there is one it was not told of."""
        query = self._mailbox.query_of(principal, Query(reader="", limit=SHOWN), by_cursor=False)
        with self._mailbox.bells.listening(query.reader) as bell, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s if wait_s > 0 else None):
                while True:
                    bell.clear()
                    found = self._look(query, client=client, again=again)
                    if found or wait_s <= 0:
                        return found
                    await bell.wait()
        return []

    def _look(self, query: Query, *, client: str, again: bool) -> Sequence[Waiting]:
        told = self._memory(query.reader, client) if client else {}
        times = TIMES if again or not client else 1
        batch = self._mailbox.look(query)
        new = [message for message in batch.messages if message.change is None and told.get(message.seq, 0) < times]
        for message in new:
            told[message.seq] = told.get(message.seq, 0) + 1
            self._mailbox.roster.notified(query.reader, message.seq)
        return [
            Waiting(
                session_id="",
                thread_id=None,
                inbox_id="mailbox",
                seq=message.seq,
                kind=KIND,
                message_id=str(message.seq),
                sender=message.sender if _PLAIN.fullmatch(message.sender) else None,
            )
            for message in new
        ]

    def _memory(self, reader: str, client: str) -> dict[int, int]:
        told = self._told.setdefault((reader, client), {})
        self._told.move_to_end((reader, client))
        if len(self._told) > _CLIENTS:
            self._told.popitem(last=False)
        return told
