"""The room's front: list sessions, pull what is pending, wake one, and run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from postroom.config import Config
from postroom.errors import NotFound, StorageFailure
from postroom.model import event as kinds
from postroom.model.event import Event
from postroom.model.ports import Mail
from postroom.model.principal import Principal, require_owner
from postroom.model.session import Notice, SessionHost, SessionRow, Visitor, Waiting
from postroom.safety.redact import Redactor
from postroom.sessions.dispatch import VISITOR, Directory, Dispatcher
from postroom.sessions.followups import Followups
from postroom.sessions.notices import Notices, told
from postroom.sessions.pending import Pending
from postroom.sessions.routing import Router
from postroom.sessions.rows import Row, Rows
from postroom.sessions.waiting import Doorbell
from postroom.sessions.waking import Waking
from postroom.store.engine import Store

LISTED = 200
RETRY_S = 1.0
log = structlog.get_logger("postroom.sessions")


class Sessions:
    """Sessions of every agent of the house."""

    def __init__(
        self,
        store: Store,
        mail: Mail,
        config: Config,
        *,
        redactor: Redactor,
        directory: Directory,
        hosts: Mapping[str, SessionHost],
        visitor: Visitor | None = None,
        waking: Waking | None = None,
    ) -> None:
        """`visitor` stands for the harnesses that people run and connect; `waking` says whom mail wakes, by default as `config` has it."""
        self._store = store
        self._config = config
        self._directory = directory
        self._hosts = hosts if visitor is None else {**hosts, VISITOR: visitor}
        self._rows = Rows(store)
        notices = Notices(mail, redactor, max_body_chars=config.view.max_body_chars)
        heard_of = told(config.inbound.event_types)
        self._pending = Pending(store, notices, config.sessions, heard_of)
        self._dispatcher = Dispatcher(
            store,
            self._rows,
            self._pending,
            config,
            waking=waking or Waking(config),
            hosts=self._hosts,
            visitor=visitor,
            directory=directory,
            taken=self._was_taken,
        )
        self._doorbell = Doorbell(mail, self._rows, self._pending)
        self._moved = asyncio.Event()  # set, and replaced, when sessions were told something
        self._router = Router(store, mail, self._rows, config.sessions, told=heard_of, driven=self._dispatcher.drives)
        self._followups = Followups(
            store, mail, self._rows, session_id=self._router.session_id, every_s=config.sessions.followup_sweep_s
        )

    async def list(self, principal: Principal) -> Sequence[SessionRow]:
        """Sessions, last changed first; an agent sees its own."""
        return [await self._shown(row) for row in await self._rows.newest(principal, LISTED)]

    async def pending(self, principal: Principal, session_id: str, ack: int | None = None) -> Sequence[Notice]:
        """Notices the session has not taken. `ack` is the `seq` of the last one a turn took; it confirms those before it too.

        Raises `NotFound` for a session the caller may not see.
        """
        if ack is not None:
            await self.acknowledge(principal, session_id, ack)
        row = self._find(principal, session_id)
        agent = await self._directory(row.agent_id)
        if agent is None:
            raise NotFound("this session's agent has been removed")
        notices, _ = await self._pending.collect(row, agent)
        if notices and principal.agent_id is not None:
            await self._rows.offered(row, notices[-1].seq)
        return notices

    async def acknowledge(self, principal: Principal, session_id: str, seq: int) -> None:
        """A turn took what was offered up to `seq`. Raises `NotFound`."""
        row = self._find(principal, session_id)
        upto = min(seq, row.offered)
        events = [event for event in await self._pending.events(row) if event.seq <= upto]
        await self._rows.taken(row, upto)
        self._was_taken(events)

    async def reconsider(self) -> None:
        """Whom mail wakes has changed: what waits for a wake may not have to any more."""
        await self._dispatcher.reconsider()

    async def visited(self, agent_id: str) -> None:
        """A person's harness came for this agent, or went."""
        await self._dispatcher.visited(agent_id)

    async def waiting(
        self, principal: Principal, *, client: str = "", again: bool = True, wait_s: float = 0
    ) -> Sequence[Waiting]:
        """What waits in all the caller's sessions, in a line each; up to `wait_s` until there is something.

        A `client` (the id of a conversation somewhere) is told of the same thing a few times at most, and
        without `again` once.
        """
        try:
            async with asyncio.timeout(wait_s if wait_s > 0 else None):
                while True:
                    moved = self._moved
                    found = await self._doorbell.waiting(principal, client=client, again=again)
                    if found or wait_s <= 0:
                        return found
                    await moved.wait()
        except TimeoutError:
            return []

    async def opened(self, principal: Principal, message_ids: Sequence[str]) -> None:
        """The agent has read these mails itself: whoever pulls need not be told of them any more."""
        if principal.agent_id is None or await self._dispatcher.drives(principal.agent_id):
            return
        for row in await self._rows.waiting(principal, LISTED):
            read = row.taken
            for event in await self._pending.events(row):
                if event.kind not in kinds.INBOUND or event.ref not in message_ids:
                    break
                read = event.seq
            if read > row.taken:
                await self._rows.taken(row, read)

    async def wake(self, principal: Principal, session_id: str) -> bool:
        """Start the session's turn now (owner only). False when nothing here can wake it: its host pulls."""
        require_owner(principal, "wake sessions")
        return await self._dispatcher.wake(self._find(principal, session_id))

    async def run(self) -> None:
        """Route and dispatch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._steadily(self._follow))
            tasks.create_task(self._steadily(self._dispatcher.run))
            tasks.create_task(self._steadily(self._followups.run))

    async def close(self) -> None:
        """Close the hosts."""
        for host in self._hosts.values():
            await host.close()

    async def _steadily(self, work: Callable[[], Awaitable[None]]) -> None:
        """Go on for ever: while the disk takes no writes nothing can be routed or taken, and nothing is lost."""
        while True:
            try:
                await work()
            except StorageFailure as problem:
                log.warning("sessions_wait", reason=problem.code)
                await self._store.until_accepting()
                await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        while True:
            seq = self._store.events.last_seq()
            while await self._router.step():
                self._dispatcher.poke()
                moved, self._moved = self._moved, asyncio.Event()
                moved.set()
            await self._store.events.wait(seq)

    def _was_taken(self, taken: Sequence[Notice | Event]) -> None:
        if any(one.kind == kinds.FOLLOWUP_DUE for one in taken):
            self._followups.poke()

    def _find(self, principal: Principal, session_id: str) -> Row:
        row = self._rows.find(principal, session_id)
        if row is None:
            raise NotFound("Session not found", fix="list sessions to see this key's")
        return row

    async def _shown(self, row: Row) -> SessionRow:
        agent = await self._directory(row.agent_id)
        events = await self._pending.events(row, limit=100)
        return SessionRow(
            session_id=row.session_id,
            thread_id=row.thread_id,
            inbox_id=row.inbox_id,
            agent_id=row.agent_id,
            host=self._dispatcher.host_of(agent) if agent else "",
            pending=len(events),
            offered=row.offered,
            taken=row.taken,
            waiting=row.waiting,
            updated_at=row.updated_at,
        )
