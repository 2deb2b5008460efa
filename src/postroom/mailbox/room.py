"""The mailbox's verbs, one behaviour for every door. The caller's `Principal` comes first.

Every verb settles who speaks, checks its arguments, and then reads or runs one transaction. What is
returned has been committed; who waits for it is rung after the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from sqlalchemy import bindparam, func, select

from postroom.errors import Busy, NotFound, StorageFailure
from postroom.limits import MAILBOX_WAITS
from postroom.mailbox import content, log, reading
from postroom.mailbox.changes import Changes, number_of
from postroom.mailbox.container import warning_for
from postroom.mailbox.identity import Directory, Identity
from postroom.mailbox.integrity import Integrity, witness_of
from postroom.mailbox.names import EVERYONE, wrong
from postroom.mailbox.notify import Doorbell, Ring
from postroom.mailbox.rates import Rates
from postroom.mailbox.reading import Query
from postroom.mailbox.records import RECEIPT, Batch, File, Message, Stored, message_of
from postroom.mailbox.retention import Retention
from postroom.mailbox.roster import Participant, Roster
from postroom.mailbox.sending import Letter, Prepared, Sending, unsealed
from postroom.mailbox.tables import attachment, record
from postroom.mailbox.waiting import Bells
from postroom.model.principal import Principal
from postroom.safety.redact import Redactor
from postroom.store.engine import Reader, Store, Tx
from postroom.store.log_search import LogSearch
from postroom.store.statement import sql

if TYPE_CHECKING:
    from postroom.ledger.verify import Verdict

T = TypeVar("T")
logs = structlog.get_logger(__name__)

HOLD_S: Final = 25.0
HOLD_MAX_S: Final = 300.0
SEARCH_PAGE: Final = 50
SEARCH_MAX: Final = 200
PEERS: Final = 500
UNREAD_MAX: Final = 1000
_HEX: Final = frozenset("0123456789abcdef")
_FLUSH_S: Final = 1.0

_unread = (
    select(record.c.seq)
    .where(record.c.recipient == bindparam("to"), record.c.seq > bindparam("after"), record.c.kind == "message")
    .where(record.c.sender != bindparam("me"))
    .where(record.c.state.is_(None) | record.c.state.not_like('%"withdrawn_at"%'))
    .limit(UNREAD_MAX)
)
_UNREAD = sql(select(func.count()).select_from(_unread.subquery()))
_FILE = sql(
    select(record.c.body, record.c.state, record.c.sender, record.c.recipient, attachment.c.blob)
    .join_from(attachment, record, record.c.seq == attachment.c.seq)
    .where(attachment.c.sha == bindparam("sha"), record.c.body.is_not(None))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A participant as listed. `unread` stops counting at 1,000."""

    name: str
    live: bool
    is_agent: bool
    seen_at: int
    acknowledged: int
    unread: int
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the owner may set; see `config.Mailbox`."""

    domains: tuple[str, ...]
    notify_command: tuple[str, ...] = ()
    max_records: int = 0
    max_age_days: float = 0
    max_bytes: int = 0
    sends_per_minute: int = 0


class Mailbox:
    """The room. `directory` names the agents there are; `key` is the house's secret for the chain, `signing_key` for its head."""

    def __init__(
        self,
        store: Store,
        options: Options,
        *,
        redactor: Redactor,
        key: bytes,
        signing_key: bytes,
        folder: Path | None,
        directory: Directory,
    ) -> None:
        self._store = store
        self._redactor = redactor
        self._key = key
        self._folder = folder
        self._search = LogSearch()
        self.roster = Roster(store)
        self.bells = Bells()
        store.on_others(self.bells.ring_all)
        self._identity = Identity(self.roster, directory, options.domains)
        self._sending = Sending(store, self._search, redactor, key)
        self._changes = Changes(self._search, key)
        self._rates = Rates(options.sends_per_minute, store.clock)
        self._doorbell = Doorbell(options.notify_command, self.roster.notified)
        self.integrity = Integrity(store, key, signing_key, folder, store.clock)
        self._retention = Retention(store, self._search, self.roster, options, key)

    async def send(self, principal: Principal, letter: Letter, *, sender: str | None = None) -> Stored:
        """Store a message. Raises `Invalid`, `TooLarge`, `Conflict` (key reused), `Busy`, `Forbidden`."""
        author = await self._identity.speaker(principal, sender)
        if not principal.is_owner:
            self._rates.take(author)
        to = await self._identity.addressee(letter.to)
        prepared = await self._sending.prepare(author, to, letter)

        def store(tx: Tx) -> Stored:
            stored = self._sending.store(tx, prepared)
            if not stored.deduplicated:
                tx.after_commit(lambda: self._sent(stored, prepared))
            return stored

        return await self._store.write(store)

    async def read(self, principal: Principal, query: Query, *, by_cursor: bool = True) -> Batch:
        """One page for `query.reader`. `by_cursor` False: begin after what the reader acknowledged."""
        name = self._identity.reader(principal, query.reader or None)
        found = await self._store.read(lambda reader: reading.read(reader, self._placed(query, name, by_cursor=by_cursor)))
        return self._handed(self._placed(query, name, by_cursor=by_cursor), found)

    async def wait(self, principal: Principal, query: Query, hold_s: float = HOLD_S, *, by_cursor: bool = True) -> Batch:
        """As `read`, but parks until there is something, at most `hold_s` (no longer than five minutes)."""
        query = self._placed(query, self._identity.reader(principal, query.reader or None), by_cursor=by_cursor)
        if self.bells.count >= MAILBOX_WAITS:
            raise Busy("too many readers are waiting", retry_after_s=5)
        since = query.since
        with contextlib.suppress(TimeoutError), self.bells.listening(query.reader) as bell:
            async with asyncio.timeout(min(max(hold_s, 0), HOLD_MAX_S)):
                while True:
                    bell.clear()
                    found = self.look(replace(query, since=since))
                    if found.messages:
                        return self._handed(query, found)
                    since = found.cursor
                    if not found.more:
                        await bell.wait()
        self._identity.reader(principal, query.reader)  # whoever was parked has been here all the time
        return Batch(messages=(), cursor=since, link=self._store.read_now(lambda r: log.link_at(r, since)), waited=True)

    def look(self, query: Query) -> Batch:
        """What lies after the cursor, here and now, without counting as fetched."""
        return self._store.read_now(lambda reader: reading.read(reader, query))

    def query_of(self, principal: Principal, query: Query, *, by_cursor: bool = True) -> Query:
        """The query with its reader settled, for a door that follows the log."""
        return self._placed(query, self._identity.reader(principal, query.reader or None), by_cursor=by_cursor)

    async def search(
        self, principal: Principal, words: str, *, reader: str | None = None, limit: int = SEARCH_PAGE
    ) -> list[Message]:
        """Messages that hold every word, newest first; of an agent those it may see."""
        names: tuple[str, ...] | None = None
        if not principal.is_owner or reader is not None:
            names = (self._identity.reader(principal, reader), EVERYONE)
        check_limit(limit, SEARCH_MAX)

        def find(view: Reader) -> list[Message]:
            return reading.messages_in(view, self._search.find(view, words, readers=names, limit=limit))

        return await self._store.read(find)

    async def message(self, principal: Principal, seq: int, *, reader: str | None = None) -> tuple[Message, Mapping[str, Any]]:
        """One message as it is now, and how far it has come."""
        number = number_of(seq)
        name = None if principal.is_owner and reader is None else self._identity.reader(principal, reader)
        row = self._store.read_now(lambda view: log.message_row(view, number))
        if row is None or (name is not None and not {name, EVERYONE} & {row.sender, row.recipient}):
            raise NotFound("there is no such message", fix="use a seq that mailbox_read showed")
        return message_of(row.seq, row.body, row.state), self.roster.state_of(row.seq, row.sender, row.recipient)

    async def edit(self, principal: Principal, seq: int, text: str, *, sender: str | None = None) -> Stored:
        """New text for one's own message; the original stays on the record."""
        author = await self._identity.speaker(principal, sender)
        said, redacted = content.text_of(text, self._redactor)
        stored = await self._change(author, lambda tx, at: self._changes.edit(tx, author, number_of(seq), said, at))
        return replace(stored, redacted=redacted)

    async def withdraw(self, principal: Principal, seq: int, *, sender: str | None = None) -> Stored:
        """Take one's own message back; that it was there stays on the record."""
        author = await self._identity.speaker(principal, sender)
        return await self._change(author, lambda tx, at: self._changes.withdraw(tx, author, number_of(seq), at))

    async def react(
        self, principal: Principal, seq: int, emoji: str, *, sender: str | None = None, remove: bool = False
    ) -> Stored:
        """A reaction, which adds nothing to the timeline."""
        who = await self._identity.speaker(principal, sender)
        mark = content.line_of(emoji, "emoji", content.EMOJI_CHARS, self._redactor)
        if mark is None:
            raise wrong("emoji", "emoji must not be blank")
        return await self._change(
            who, lambda tx, at: self._changes.react(tx, who, number_of(seq), mark, at, remove=remove), but=who
        )

    async def acknowledge(self, principal: Principal, up_to: int, *, reader: str | None = None) -> Stored:
        """Say that everything up to `up_to` was taken; never beyond the log's end, never back."""
        if type(up_to) is not int or not 0 <= up_to < 2**53:
            raise wrong("upTo", "upTo is a cursor or the number of a message")
        name = self._identity.reader(principal, reader)
        if principal.is_owner:
            await self._identity.admit(name)
            self.roster.seen(name, is_agent=False)
        one = self.roster.enter(name)
        at = self._store.clock.now_us()

        def store(tx: Tx) -> Stored:
            end = log.head(tx)
            reached = min(up_to, end.seq)
            if reached <= one.acknowledged:
                return Stored(seq=one.acknowledged, link=log.link_at(tx, one.acknowledged), at=at, deduplicated=True)
            entry = log.entry_of({"kind": RECEIPT, "at": at, "from": name, "up_to": reached}, recipient=None)
            log.append(tx, self._key, entry)
            self.roster.save(tx, replace(one, acknowledged=reached, missed=0))
            tx.after_commit(lambda: self._acknowledged(one, reached))
            return Stored(seq=reached, link=log.link_at(tx, reached), at=at)

        return await self._store.write(store)

    async def announce(self, principal: Principal, *, name: str | None = None, role: str | None = None) -> Peer:
        """Declare presence; from then on others can write to this name."""
        called = self._identity.reader(principal, name)
        await self._identity.admit(called)
        one = self.roster.seen(called, is_agent=not principal.is_owner)
        said = content.line_of(role, "role", content.ROLE_CHARS, self._redactor)
        one.role = said if said is not None else one.role
        await self._store.write(lambda tx: self.roster.save(tx, one))
        return (await self._store.read(lambda view: self._peers(view, [one])))[0]

    async def peers(self, principal: Principal) -> list[Peer]:
        """Who is here: agents, and everyone who announced or wrote."""
        self._identity.reader(principal, None)
        agents = await self._identity.agents()
        for name in agents:
            self.roster.enter(name, is_agent=True)
        there = [one for one in self.roster.all() if not one.is_agent or one.name in agents]
        there.sort(key=lambda one: (not self.is_live(one), one.name))
        return await self._store.read(lambda view: self._peers(view, there[:PEERS]))

    async def attachment(self, principal: Principal, file_id: str, *, reader: str | None = None) -> tuple[File, bytes]:
        """An attachment's bytes, for whoever may see a message that carries it."""
        if not isinstance(file_id, str) or len(file_id) != 64 or not set(file_id) <= _HEX:
            raise wrong("id", "an attachment's id is 64 hexadecimal digits")
        name = None if principal.is_owner and reader is None else self._identity.reader(principal, reader)

        def find(view: Reader) -> tuple[File, bytes]:
            for body, state, sender, recipient, blob in view.all(_FILE, sha=file_id):
                gone = state is not None and '"withdrawn_at"' in state
                if not gone and (name is None or {name, EVERYONE} & {sender, recipient}):
                    file = next(one for one in message_of(0, body, None).files if one.file_id == file_id)
                    return file, unsealed(self._store.blobs.get_in(view, blob))
            raise NotFound("there is no such attachment", fix="use an id that a message lists")

        return await self._store.read(find)

    async def sweep(self) -> int:
        """Retention, now; how many records lost their content."""
        return await self._retention.sweep()

    async def verify(self, witnesses: Sequence[str] = ()) -> Verdict:
        """The whole log checked; a witness is `SEQ:LINK` as a receipt or a cursor had it. Raises `Invalid` for another form."""
        return await self.integrity.verify([witness_of(text) for text in witnesses])

    async def look_through(self, look: Callable[[Reader], T]) -> T:
        """Run a reading of the log in the pool."""
        return await self._store.read(look)

    def is_live(self, one: Participant) -> bool:
        """Heard of lately, or parked this moment."""
        return self.roster.is_live(one) or self.bells.waiting(one.name) > 0

    async def run(self) -> None:
        """Write behind what was noted, keep what retention allows, ring the doorbell; until cancelled."""
        if warning := warning_for(str(self._folder)):
            logs.warning("mailbox_virtualized", warning=warning)
        await asyncio.to_thread(self._redactor.redact, "compiles its rules, so that the first message does not wait for it")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._doorbell.run())
            tasks.create_task(self._retention.run())
            tasks.create_task(self._flush())

    async def close(self) -> None:
        """Write what was only noted."""
        if self._store.accepting:
            await self.roster.flush()
            await self.integrity.sign()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            await self._store.until_accepting()
            try:
                await self.roster.flush()
                if not self._store.alone:
                    await self.roster.refresh()
                await self.integrity.sign_when_due()
            except (StorageFailure, OSError) as problem:  # noted and signed again once the disk takes it
                logs.warning("mailbox_notes_not_written", problem=type(problem).__name__)

    async def _change(self, author: str, change: Callable[[Tx, int], tuple[Stored, str]], *, but: str | None = None) -> Stored:
        at = self._store.clock.now_us()

        def store(tx: Tx) -> Stored:
            stored, shown_to = change(tx, at)
            if shown_to:
                tx.after_commit(lambda: self.bells.ring(shown_to, but=author))
            return stored

        return await self._store.write(store)

    def _placed(self, query: Query, name: str, *, by_cursor: bool) -> Query:
        """The query for this reader, from its cursor or from what it acknowledged; names in it have their one form."""
        if query.sender:
            query = replace(query, sender=self._identity.name(query.sender, "from"))
        if by_cursor:
            return replace(query, reader=name)
        one = self.roster.get(name)
        return replace(query, reader=name, since=one.acknowledged if one else 0)

    def _handed(self, query: Query, found: Batch) -> Batch:
        """The batch, noted as fetched."""
        one = self.roster.get(query.reader)
        if not query.is_filtered and not query.newest:
            self.roster.fetched(query.reader, query.since, found.cursor)
        return replace(found, missed=one.missed) if one is not None and one.missed else found

    def _sent(self, stored: Stored, letter: Prepared) -> None:
        author = letter.entry.sender or ""
        self.bells.ring(letter.to, but=author)
        self._retention.grown(stored.seq)
        if self._doorbell.is_set:
            about: dict[str, Any] = {"sender": author, "to": letter.to, "seq": stored.seq, "thread": stored.thread}
            self._doorbell.ring(Ring(**about, priority=letter.priority or "", text=letter.words))

    def _acknowledged(self, one: Participant, reached: int) -> None:
        one.acknowledged, one.missed = max(one.acknowledged, reached), 0

    def _peers(self, view: Reader, those: Sequence[Participant]) -> list[Peer]:
        return [
            Peer(
                name=one.name,
                role=one.role,
                live=self.is_live(one),
                is_agent=one.is_agent,
                seen_at=one.seen_at,
                acknowledged=one.acknowledged,
                unread=min(UNREAD_MAX, sum(self._unread(view, one, to) for to in (one.name, EVERYONE))),
            )
            for one in those
        ]

    def _unread(self, view: Reader, one: Participant, to: str) -> int:
        return int(view.scalar(_UNREAD, to=to, after=one.acknowledged, me=one.name))


def check_limit(limit: Any, most: int) -> int:
    """A page's size. Raises `Invalid` for anything but 1 to `most`."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise wrong("limit", f"limit must be between 1 and {most}")
    return limit
