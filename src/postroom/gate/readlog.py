"""Which agent was shown which mail from outside, so that a person who is asked can see it.

A message shown again to one agent is one row, until the owner says that what was read so far no
longer matters; rows are marked then, never taken away. `Reading` is how it is noticed: a `Mail` around
the real one that writes down what it hands to an agent. Mail between inboxes of the house is not from
outside: under the gate, each of those was itself allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import and_, bindparam, func, insert, select, update

from postroom.clock import Clock
from postroom.gate.tables import read_log as t
from postroom.mime.addresses import parse_list
from postroom.model.mail import Attachment, Blob, Message, Thread
from postroom.model.paging import MailFilter, Page, PageRequest
from postroom.model.ports import Mail, ReadLog
from postroom.model.principal import Principal
from postroom.store.engine import Reader, Store, Tx
from postroom.store.statement import sql

_COLUMNS = ("pod", "agent_id", "session_id", "ref", "at")
_INSERT = sql(insert(t).values({name: bindparam(name) for name in _COLUMNS}))
_OPEN = and_(t.c.agent_id == bindparam("agent_id"), t.c.cleared_at.is_(None))
_SEEN = sql(select(t.c.id).where(_OPEN, t.c.ref == bindparam("ref")))
_REFS = sql(select(t.c.ref).where(_OPEN, t.c.at <= bindparam("until")).order_by(t.c.id))
_COUNT = sql(select(func.count()).select_from(t).where(_OPEN))
_CLEAR = sql(
    update(t)
    .where(t.c.agent_id == bindparam("of_agent"), t.c.cleared_at.is_(None))
    .values(cleared_at=bindparam("new_cleared_at"))
)
_EVER = 2**62


class NoReadLog:
    """Keeps nothing."""

    async def record(self, principal: Principal, refs: Sequence[str]) -> None:
        """Nothing to do."""


class StoredReadLog:
    """Keeps what agents were shown in the gate's own table."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def record(self, principal: Principal, refs: Sequence[str]) -> None:
        """Note that an agent was shown the messages `refs`. What the owner reads is not noted."""
        agent_id = principal.agent_id
        if agent_id is None or not refs:
            return
        fresh = self._store.read_now(lambda reader: _unseen(reader, agent_id, refs))
        if not fresh:
            return
        now = self._clock.now_us()
        kept = {"pod": principal.pod_id, "agent_id": agent_id, "session_id": principal.session_id, "at": now}

        def write(tx: Tx) -> None:
            for ref in _unseen(tx, agent_id, fresh):
                tx.insert(_INSERT, **kept, ref=ref)

        await self._store.write(write)

    def refs(self, agent_id: str, *, until: int = _EVER) -> tuple[str, ...]:
        """What the agent was shown up to `until` and since the owner last cleared it, oldest first."""
        return self._store.read_now(lambda reader: tuple(ref for (ref,) in reader.all(_REFS, agent_id=agent_id, until=until)))

    def count(self, agent_id: str) -> int:
        """How much that is by now."""
        return int(self._store.read_now(lambda reader: reader.scalar(_COUNT, agent_id=agent_id)))

    async def clear(self, agent_id: str) -> int:
        """The owner looked: what was read so far counts no more. Answers how much that was."""
        now = self._clock.now_us()
        return await self._store.write(lambda tx: tx.run(_CLEAR, of_agent=agent_id, new_cleared_at=now))


class Reading:
    """`mail`, with what agents read from it written down. Everything it does not know is `mail`'s own."""

    def __init__(self, mail: Mail, log: ReadLog) -> None:
        self._mail = mail
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mail, name)

    async def get_message(self, principal: Principal, inbox_id: str, message_id: str) -> Message:
        message = await self._mail.get_message(principal, inbox_id, message_id)
        await self._note(principal, [message])
        return message

    async def get_raw(self, principal: Principal, inbox_id: str, message_id: str) -> Blob:
        await self.get_message(principal, inbox_id, message_id)
        return await self._mail.get_raw(principal, inbox_id, message_id)

    async def get_attachment(
        self, principal: Principal, inbox_id: str, message_id: str, attachment_id: str
    ) -> tuple[Attachment, Blob]:
        await self.get_message(principal, inbox_id, message_id)
        return await self._mail.get_attachment(principal, inbox_id, message_id, attachment_id)

    async def list_messages(self, principal: Principal, inbox_id: str, filter: MailFilter, page: PageRequest) -> Page[Message]:
        found = await self._mail.list_messages(principal, inbox_id, filter, page)
        await self._note(principal, found.items)
        return found

    async def batch_get_messages(self, principal: Principal, inbox_id: str, message_ids: Sequence[str]) -> tuple[Message, ...]:
        found: tuple[Message, ...] = await self._mail.batch_get_messages(principal, inbox_id, message_ids)  # type: ignore[attr-defined]  # ours only
        await self._note(principal, found)
        return found

    async def list_threads(
        self, principal: Principal, inbox_id: str | None, filter: MailFilter, page: PageRequest
    ) -> Page[Thread]:
        found = await self._mail.list_threads(principal, inbox_id, filter, page)
        await self._note_previews(principal, found.items)
        return found

    async def search_threads(
        self, principal: Principal, inbox_id: str | None, query: str, page: PageRequest, filter: MailFilter
    ) -> Page[Thread]:
        found = await self._mail.search_threads(principal, inbox_id, query, page, filter)
        await self._note_previews(principal, found.items)
        return found

    async def get_thread(
        self, principal: Principal, inbox_id: str | None, thread_id: str, page: PageRequest | None = None
    ) -> Thread:
        thread = await self._mail.get_thread(principal, inbox_id, thread_id, page)
        await self._note(principal, thread.messages or ())
        return thread

    async def _note(self, principal: Principal, messages: Iterable[Message]) -> None:
        if principal.agent_id is not None:
            shown = [each.message_id for each in messages if "received" in each.labels and self._from_outside((each.from_,))]
            await self._log.record(principal, shown)

    async def _note_previews(self, principal: Principal, threads: Iterable[Thread]) -> None:
        """A row of a list shows subject, senders and the start of the newest message."""
        if principal.agent_id is not None:
            shown = [each.last_message_id for each in threads if self._from_outside(each.senders)]
            await self._log.record(principal, shown)

    def _from_outside(self, senders: Iterable[str]) -> bool:
        domains = self._mail.domains
        return any(address.domain.lower() not in domains for text in senders for address in parse_list(text)[:1]) or not any(
            senders
        )


def _unseen(reader: Reader, agent_id: str, refs: Iterable[str]) -> list[str]:
    return [ref for ref in dict.fromkeys(refs) if reader.one(_SEEN, agent_id=agent_id, ref=ref) is None]
