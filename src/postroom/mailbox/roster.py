"""Who takes part: presence, and how far each has been notified, has fetched and acknowledged.

Kept in memory and written behind: a beat or a fetch costs no disk sync. What a crash loses makes a
receipt say less than is true, never more. Announcing and acknowledging are written before they are
answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, select

from postroom.clock import MICROS
from postroom.errors import Busy
from postroom.mailbox.names import EVERYONE
from postroom.mailbox.tables import participant as t
from postroom.model.principal import DEFAULT_POD
from postroom.store.engine import Row, Store, Tx
from postroom.store.statement import sql, upsert

LIVE_S: Final = 90
KEPT_S: Final = 30 * 24 * 3600  # a participant that is no agent and was silent for so long is forgotten
MOST: Final = 10_000

_STATE = ("role", "is_agent", "seen_at", "notified", "fetched", "acknowledged", "missed")
_ALL = sql(select(t.c.name, *(t.c[name] for name in _STATE)).where(t.c.pod == bindparam("pod")))
_KEEP = upsert(
    t,
    ["pod", "name", *_STATE],
    key=["pod", "name"],
    update=list(_STATE),
    # Another node may know more: what a participant has reached never goes back.
    where=lambda offered: and_(offered.acknowledged >= t.c.acknowledged, offered.fetched >= t.c.fetched),
)
_FORGET = sql(delete(t).where(t.c.pod == bindparam("pod"), t.c.name == bindparam("which")))


@dataclass(slots=True, kw_only=True)
class Participant:
    """One participant as it stands. `notified`, `fetched` and `acknowledged` are numbers in the log."""

    name: str
    role: str | None = None
    is_agent: bool = False
    seen_at: int = 0
    notified: int = 0
    fetched: int = 0
    acknowledged: int = 0
    missed: int = 0

    def row(self) -> dict[str, Any]:
        """As it is stored."""
        values = {name: getattr(self, name) for name in _STATE}
        return {"pod": DEFAULT_POD, "name": self.name, **values, "is_agent": int(self.is_agent)}


class Roster:
    """All participants of the house."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Participant] = {}
        self._dirty: set[str] = set()
        self._take(store.read_now(lambda reader: reader.all(_ALL, pod=DEFAULT_POD)))

    async def refresh(self) -> None:
        """Take up what other nodes wrote."""
        self._take(await self._store.read(lambda reader: reader.all(_ALL, pod=DEFAULT_POD)))

    def _take(self, rows: Iterable[Row]) -> None:
        for name, *values in rows:
            stored = dict(zip(_STATE, values, strict=True))
            found = self._known.setdefault(name, Participant(name=name))
            for field in ("seen_at", "notified", "fetched", "acknowledged"):
                setattr(found, field, max(getattr(found, field), stored[field]))
            if name not in self._dirty:
                found.role, found.missed = stored["role"], stored["missed"]
            found.is_agent = found.is_agent or bool(stored["is_agent"])

    def get(self, name: str) -> Participant | None:
        """A participant by name."""
        return self._known.get(name)

    def all(self) -> list[Participant]:
        """Everyone, by name."""
        return sorted(self._known.values(), key=lambda each: each.name)

    def enter(self, name: str, *, is_agent: bool = False) -> Participant:
        """The participant, made if need be. Raises `Busy` when there are too many."""
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= MOST:
                raise Busy("there are too many participants", retry_after_s=3600, fix="silent ones are forgotten after 30 days")
            found = self._known[name] = Participant(name=name, is_agent=is_agent)
            self._dirty.add(name)
        if is_agent and not found.is_agent:
            found.is_agent = True
            self._dirty.add(name)
        return found

    def seen(self, name: str, *, is_agent: bool) -> Participant:
        """This participant has just called."""
        found = self.enter(name, is_agent=is_agent)
        found.seen_at = self._store.clock.now_us()
        self._dirty.add(name)
        return found

    def is_live(self, one: Participant) -> bool:
        """Has it been heard of lately?"""
        return one.seen_at > 0 and self._store.clock.now_us() - one.seen_at <= LIVE_S * MICROS

    def fetched(self, name: str, since: int, cursor: int) -> None:
        """The reader was given everything after `since` up to `cursor`; it counts if nothing before was passed over."""
        found = self._known.get(name)
        if found is not None and since <= found.fetched < cursor:
            found.fetched = cursor
            self._dirty.add(name)

    def notified(self, name: str, seq: int) -> None:
        """The reader was told of what lies up to `seq`."""
        found = self._known.get(name)
        if found is not None and found.notified < seq:
            found.notified = seq
            self._dirty.add(name)

    def missed(self, name: str, count: int) -> None:
        """Messages to this reader went before it fetched them."""
        found = self._known.get(name)
        if found is not None:
            found.missed += count
            self._dirty.add(name)

    def state_of(self, seq: int, sender: str, to: str) -> dict[str, Any]:
        """How far a message has come, in words that are true: of one addressee, or counted over all."""
        if to != EVERYONE:
            found = self._known.get(to)
            return {"state": _state(found, seq) if found else "stored"}
        others = [_state(each, seq) for each in self._known.values() if each.name != sender]
        return {"state": "stored", **{state: others.count(state) for state in ("notified", "fetched", "acknowledged")}}

    def save(self, tx: Tx, one: Participant) -> None:
        """Write one participant in this transaction."""
        tx.run(_KEEP, **one.row())

    async def flush(self) -> None:
        """Write what was only noted."""
        if not self._dirty:
            return
        rows = [self._known[name].row() for name in self._dirty if name in self._known]
        noted, self._dirty = self._dirty, set()
        try:
            await self._store.write(lambda tx: tx.many(_KEEP, rows))
        except BaseException:
            self._dirty |= noted
            raise

    async def prune(self) -> None:
        """Forget the silent ones that are no agents."""
        before = self._store.clock.now_us() - KEPT_S * MICROS
        gone = [one.name for one in self._known.values() if not one.is_agent and one.seen_at < before]
        if gone:
            await self._store.write(lambda tx: tx.many(_FORGET, [{"pod": DEFAULT_POD, "which": name} for name in gone]))
            for name in gone:
                self._known.pop(name, None)

    def names(self) -> Iterable[str]:
        """Every name."""
        return self._known.keys()


def _state(one: Participant, seq: int) -> str:
    for state in ("acknowledged", "fetched", "notified"):
        if getattr(one, state) >= seq:
            return state
    return "stored"
