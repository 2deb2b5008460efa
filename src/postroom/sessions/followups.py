"""Follow-ups: a thread's label says when its session is to be reminded, and is taken off once the session was.

The labels are the index, so nothing is lost with a session. The event log remembers what was
announced: a due follow-up is one event, which goes the way of every event to the thread's session,
and is announced again only after it was taken and its labels were set anew. Independent of how mail arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from postroom.clock import MICROS
from postroom.errors import NotFound, PostroomError, StorageFailure
from postroom.model import event as kinds
from postroom.model.event import Event
from postroom.model.followup import FOLLOWUP, due_date, due_labels, today_utc
from postroom.model.mail import Thread
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.ports import Mail
from postroom.model.principal import SYSTEM
from postroom.sessions import tables
from postroom.sessions.rows import Rows
from postroom.store.engine import Store, Tx

CURSOR: Final = "sessions.followups"
_PAGE: Final = 100
log = structlog.get_logger("postroom.sessions")


class Followups:
    """Finds what is due, announces it, and clears what was taken. `session_id` names a thread's session."""

    def __init__(self, store: Store, mail: Mail, rows: Rows, *, session_id: Callable[[str | None], str], every_s: float) -> None:
        self._store = store
        self._mail = mail
        self._rows = rows
        self._session_id = session_id
        self._every_s = every_s
        self._changed = asyncio.Event()
        self._sweeping = asyncio.Lock()

    def poke(self) -> None:
        """A follow-up was taken: clear it now."""
        self._changed.set()

    async def run(self) -> None:
        """Sweep at start, every so often, and whenever one was taken. Until cancelled."""
        while True:
            self._changed.clear()
            await self.sweep()
            try:
                async with asyncio.timeout(self._every_s):  # wait_for may swallow a cancel that comes with the event
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def sweep(self) -> int:
        """One pass over every follow-up; the number announced. One at a time; a thread that fails stops no other."""
        async with self._sweeping:
            try:
                await self._index()
                found = await self._found()
            except StorageFailure:
                raise
            except PostroomError as problem:
                log.warning("followups_not_listed", reason=problem.code)
                return 0
            return sum([await self._safely(thread) for thread in found])

    async def _safely(self, thread: Thread) -> int:
        try:
            return await self._look(thread)
        except StorageFailure:
            raise
        except Exception:  # logged and found due again at the next sweep; one odd thread must not stop the others
            log.exception("followup_failed", thread_id=thread.thread_id)
            return 0

    async def _index(self) -> None:
        """Whoever set only a dated label gets the one it is found by."""
        seq = await self._store.events.cursor(CURSOR)
        while events := await self._store.events.after(seq, kinds=[kinds.LABEL_ADDED]):
            dated = [event for event in events if due_date(str(event.snapshot.get("label"))) is not None]
            for inbox_id, thread_id in {(event.inbox_id, event.thread_id) for event in dated if event.thread_id}:
                await self._mark(inbox_id, thread_id)
            seq = last = events[-1].seq
            await self._store.write(lambda tx, last=last: self._store.events.set_cursor(tx, CURSOR, last))  # type: ignore[misc]  # mypy loses the default's type

    async def _mark(self, inbox_id: str | None, thread_id: str) -> None:
        try:
            thread = await self._mail.get_thread(SYSTEM, inbox_id, thread_id, PageRequest(limit=1))
            if FOLLOWUP not in thread.labels and any(map(due_date, thread.labels)):
                await self._mail.update_thread(SYSTEM, inbox_id, thread_id, [FOLLOWUP], [])
        except NotFound:
            return

    async def _found(self) -> list[Thread]:
        """Every thread with a follow-up, read to the last page before any label changes."""
        found: list[Thread] = []
        token: str | None = None
        while True:
            asked = PageRequest(limit=_PAGE, page_token=token)
            page = await self._mail.list_threads(SYSTEM, None, MailFilter(labels=(FOLLOWUP,)), asked)
            found += page.items
            token = page.next_page_token
            if token is None:
                return found

    async def _look(self, thread: Thread) -> int:
        """Announce what is due, or clear what was taken. 1 when it was announced."""
        owner = (await self._mail.get_inbox(SYSTEM, thread.inbox_id)).owner_agent
        due = due_labels(thread.labels, today_utc(self._store.clock.now_us() / MICROS))
        if owner is None or not due:
            return 0
        known = await self._announced(thread)
        if known is None:
            return int(await self._announce(thread, owner, due))
        row = self._rows.get(owner, self._session_id(thread.thread_id))
        if row is not None and row.taken >= known.seq:
            await self._clear(thread, known.snapshot.get("labels") or due)
        return 0

    async def _announced(self, thread: Thread) -> Event | None:
        """The announcement that is still open for this thread."""
        told = await self._store.events.after(
            0,
            kinds=[kinds.FOLLOWUP_DUE, kinds.FOLLOWUP_DONE],
            inbox_ids=[thread.inbox_id],
            thread_id=thread.thread_id,
            limit=10_000,
        )
        return told[-1] if told and told[-1].kind == kinds.FOLLOWUP_DUE else None

    async def _announce(self, thread: Thread, owner: str, due: Sequence[str]) -> bool:
        """Write the event, unless another process of the house just did."""
        now = self._store.clock.now_us()
        day = due_date(due[0])
        snapshot = {
            "due": day.isoformat() if day else "",
            "labels": list(due),
            "answered": await self._answered(thread, due),
        }

        def work(tx: Tx) -> bool:
            if tx.scalar(tables.OPEN_FOLLOWUP, inbox_=thread.inbox_id, thread_=thread.thread_id) == kinds.FOLLOWUP_DUE:
                return False
            tx.emit(
                kinds.FOLLOWUP_DUE,
                thread.thread_id,
                at=now,
                agent_id=owner,
                inbox_id=thread.inbox_id,
                thread_id=thread.thread_id,
                snapshot=snapshot,
            )
            return True

        return await self._store.write(work)

    async def _answered(self, thread: Thread, due: Sequence[str]) -> bool:
        """Whether mail came into the thread after the label was set."""
        wanted, seq, answered = [kinds.LABEL_ADDED, kinds.RECEIVED], 0, False
        while events := await self._store.events.after(
            seq, kinds=wanted, inbox_ids=[thread.inbox_id], thread_id=thread.thread_id
        ):
            for event in events:
                if event.kind == kinds.RECEIVED:
                    answered = True
                elif event.snapshot.get("label") in due:
                    answered = False
            seq = events[-1].seq
        return answered

    async def _clear(self, thread: Thread, taken: Sequence[str]) -> None:
        """Close the announcement, then take the labels off: a crash in between reminds once more, never less."""
        now = self._store.clock.now_us()
        await self._store.write(
            lambda tx: tx.emit(
                kinds.FOLLOWUP_DONE, thread.thread_id, at=now, inbox_id=thread.inbox_id, thread_id=thread.thread_id
            )
        )
        later = [label for label in thread.labels if due_date(label) is not None and label not in taken]
        gone = [label for label in taken if label in thread.labels]
        await self._mail.update_thread(SYSTEM, thread.inbox_id, thread.thread_id, [], gone if later else [*gone, FOLLOWUP])
