"""What lies after a session's cursor, rendered; and the seed of a session that starts fresh."""

from __future__ import annotations

from collections.abc import Sequence

from postroom import config
from postroom.model.event import Event
from postroom.model.principal import Principal
from postroom.model.session import Notice
from postroom.sessions.notices import Notices
from postroom.sessions.routing import session_of
from postroom.sessions.rows import Row
from postroom.store.engine import Store

NOTICES_PER_DELIVERY = 20


class Pending:
    """Reads the event log for one session."""

    def __init__(self, store: Store, notices: Notices, settings: config.Sessions, told: Sequence[str]) -> None:
        """`told` are the kinds of events sessions hear of."""
        self._store = store
        self._settings = settings
        self._told = told
        self._notices = notices

    async def events(self, row: Row, limit: int = NOTICES_PER_DELIVERY) -> list[Event]:
        """Events the session has not taken, oldest first."""
        mine: list[Event] = []
        if row.thread_id is not None or not self._settings.threads:
            mine += await self._store.events.after(
                row.taken, kinds=self._told, inbox_ids=[row.inbox_id], thread_id=row.thread_id, limit=limit
            )
        if self._settings.threads and row.newest > row.taken:
            mine += await self._without_thread(row, limit)
        return sorted(mine, key=lambda event: event.seq)[:limit]

    async def _without_thread(self, row: Row, limit: int) -> list[Event]:
        """What has no thread and belongs to this session: decisions on mail it wanted to begin a thread with."""
        found: list[Event] = []
        seq = row.taken
        while len(found) < limit:
            events = await self._store.events.after(seq, kinds=self._told, inbox_ids=[row.inbox_id], unthreaded=True)
            if not events:
                break
            found += [event for event in events if session_of(event, self._settings)[0] == row.session_id]
            seq = events[-1].seq
        return found

    async def collect(self, row: Row, agent: Principal) -> tuple[tuple[Notice, ...], str | None]:
        """Notices to hand over, those offered before marked; and the seed if no turn was ever taken."""
        events = await self.events(row)
        notices = [await self._notices.render(agent, event, repeated=event.seq <= row.offered) for event in events]
        seed = await self.seed(row, agent, notices) if row.taken == row.born and events else None
        return tuple(notices), seed

    async def seed(self, row: Row, agent: Principal, notices: Sequence[Notice]) -> str | None:
        """What was said in the session's thread before these notices and what came meanwhile; None without a thread."""
        if row.thread_id is None:
            return None
        new = [notice.message_id for notice in notices if notice.message_id is not None]
        new += [event.ref for event in await self.events(row)]
        return await self._notices.seed(agent, row.inbox_id, row.thread_id, new)

    async def title(self, row: Row, agent: Principal, notices: Sequence[Notice]) -> str:
        """What a person reads in a list of sessions: subject and sender of the first mail, cleaned; "" without a mail."""
        first = next((notice.message_id for notice in notices if notice.message_id is not None), None)
        return await self._notices.title(agent, row.inbox_id, first) if first is not None else ""
