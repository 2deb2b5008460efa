"""What waits for an agent that pulls, in one line each: ids, kind and sender, never a word of a mail.

A client that shows such a line to its model has *notified* it; it is not taken until the agent read the
mail or acknowledged it. How often each line was given to which client is remembered here, in memory:
after a restart a client may hear of something once more.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from postroom.errors import NotFound
from postroom.model import event as kinds
from postroom.model.event import Event
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.model.session import Waiting
from postroom.safety.view import safe_id
from postroom.sessions.pending import Pending
from postroom.sessions.rows import Row, Rows

TIMES: Final = 3  # a client hears of one notice so often
SHOWN: Final = 10
_CLIENTS: Final = 1024
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._%+=-]{1,32}@[A-Za-z0-9.-]{1,64}")


class Doorbell:
    """Lists what waits, and remembers who was told."""

    def __init__(self, mail: Mail, rows: Rows, pending: Pending) -> None:
        self._mail = mail
        self._rows = rows
        self._pending = pending
        self._told: OrderedDict[tuple[str, str], dict[int, int]] = OrderedDict()

    async def waiting(self, principal: Principal, *, client: str, again: bool) -> Sequence[Waiting]:
        """What waits, oldest first. With a `client`: only what it was not told yet or, `again`, not `TIMES` times."""
        told = self._memory(principal, client) if client else {}
        times = TIMES if again or not client else 1
        found = [
            (event, row)
            for row in await self._rows.waiting(principal, SHOWN)
            for event in await self._pending.events(row, SHOWN)
            if told.get(event.seq, 0) < times
        ]
        found = sorted(found, key=lambda pair: pair[0].seq)[:SHOWN]
        for event, _ in found:
            told[event.seq] = told.get(event.seq, 0) + 1
        return [await self._line(principal, row, event) for event, row in found]

    def _memory(self, principal: Principal, client: str) -> dict[int, int]:
        key = (principal.agent_id or "", client)
        told = self._told.setdefault(key, {})
        self._told.move_to_end(key)
        if len(self._told) > _CLIENTS:
            self._told.popitem(last=False)
        return told

    async def _line(self, principal: Principal, row: Row, event: Event) -> Waiting:
        received = event.kind in kinds.INBOUND
        return Waiting(
            session_id=row.session_id,
            thread_id=event.thread_id,
            inbox_id=row.inbox_id,
            seq=event.seq,
            kind=event.kind,
            message_id=safe_id(event.ref) if received else None,
            sender=await self._sender(principal, event) if received else None,
        )

    async def _sender(self, principal: Principal, event: Event) -> str | None:
        """The sender's bare address; None when it is anything but plain and short."""
        try:
            message = await self._mail.get_message(principal, event.inbox_id or "", event.ref)
        except NotFound:
            return None
        _, opened, rest = message.from_.rpartition("<")
        address = rest.removesuffix(">") if opened else message.from_.strip()
        return address if _ADDRESS.fullmatch(address) else None
