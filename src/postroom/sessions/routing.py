"""Which session an event belongs to: the one of its thread, if the inbox has an owner agent.

A decision on a mail that begins a thread has none yet: it goes back to the session that wanted to send it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from postroom import config
from postroom.errors import NotFound
from postroom.model.event import Event
from postroom.model.ports import Mail
from postroom.model.principal import SYSTEM
from postroom.sessions.rows import Routed, Rows
from postroom.store.engine import Store

CURSOR = "sessions.routing"


def session_of(event: Event, settings: config.Sessions) -> tuple[str, str | None]:
    """The session an event belongs to and its thread, by the event alone; the fallback session where there is no other."""
    asked = str(event.snapshot.get("session_id") or "")
    if not settings.threads:
        return settings.fallback_session, None
    if event.thread_id is not None:
        return settings.prefix + event.thread_id, event.thread_id
    if asked.startswith(settings.prefix) and asked not in (settings.prefix, settings.fallback_session):
        return asked, asked.removeprefix(settings.prefix)
    return settings.fallback_session, None


class Router:
    """Follows the event log and moves each event into its session's row, once and in order."""

    def __init__(
        self,
        store: Store,
        mail: Mail,
        rows: Rows,
        settings: config.Sessions,
        *,
        told: Sequence[str],
        driven: Callable[[str], Awaitable[bool]],
    ) -> None:
        """`told` are the kinds of events sessions hear of; `driven` says whether postroom itself runs the sessions of an agent."""
        self._store = store
        self._mail = mail
        self._rows = rows
        self._settings = settings
        self._told = told
        self._driven = driven

    async def step(self) -> int:
        """Route what is new; the number of events looked at."""
        seq = await self._store.events.cursor(CURSOR)
        events = await self._store.events.after(seq, kinds=self._told)
        if events:
            owners = await self._owners(events)
            driven = {agent_id: await self._driven(agent_id) for agent_id in set(owners.values()) if agent_id}
            routed = [item for event in events if (item := self._session_of(event, owners, driven)) is not None]
            await self._rows.route(routed, CURSOR, events[-1].seq)
        return len(events)

    def session_id(self, thread_id: str | None) -> str:
        """The session of a thread; the fallback session without one, or when `sessions.threads` is off."""
        if thread_id is None or not self._settings.threads:
            return self._settings.fallback_session
        return self._settings.prefix + thread_id

    def _session_of(self, event: Event, owners: dict[str, str | None], driven: dict[str, bool]) -> Routed | None:
        agent_id = owners.get(event.inbox_id or "")
        if agent_id is None:
            return None
        session_id, thread_id = session_of(event, self._settings)
        return Routed(
            event=event,
            session_id=session_id,
            thread_id=thread_id,
            agent_id=agent_id,
            driven=driven[agent_id],
        )

    async def _owners(self, events: Sequence[Event]) -> dict[str, str | None]:
        owners: dict[str, str | None] = {}
        for inbox_id in {event.inbox_id for event in events if event.inbox_id}:
            try:
                owners[inbox_id] = (await self._mail.get_inbox(SYSTEM, inbox_id)).owner_agent
            except NotFound:
                owners[inbox_id] = None
        return owners
