"""What lies after a session's cursor, rendered; and the seed of a session that starts fresh."""

from __future__ import annotations

from postroom.model import event as kinds
from postroom.model.event import Event
from postroom.model.principal import Principal
from postroom.model.session import Notice
from postroom.sessions.notices import TOLD, Notices
from postroom.sessions.rows import Row
from postroom.store.engine import Store

NOTICES_PER_DELIVERY = 20


class Pending:
    """Reads the event log for one session."""

    def __init__(self, store: Store, notices: Notices) -> None:
        self._store = store
        self._notices = notices

    async def events(self, row: Row, limit: int = NOTICES_PER_DELIVERY) -> list[Event]:
        """Events the session has not taken, oldest first."""
        return await self._store.events.after(
            row.taken, kinds=TOLD, inbox_ids=[row.inbox_id], thread_id=row.thread_id, limit=limit
        )

    async def collect(self, row: Row, agent: Principal) -> tuple[tuple[Notice, ...], str | None]:
        """Notices to hand over, those offered before marked; and the seed if no turn was ever taken."""
        events = await self.events(row)
        notices = [await self._notices.render(agent, event, repeated=event.seq <= row.offered) for event in events]
        seed = None
        if row.taken == row.born and row.thread_id is not None and events:
            new = [event.ref for event in events if event.kind == kinds.RECEIVED]
            seed = await self._notices.seed(agent, row.inbox_id, row.thread_id, new)
        return tuple(notices), seed
