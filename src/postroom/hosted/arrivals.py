"""What happened at the hosted office, copied into the event log: once, whichever way it was heard of.

A live event, a listed message and a polled one are all an `Arrival`; the commit that writes its event also writes
that it was seen, so a failure in between leaves neither and the next hearing delivers it. How far an inbox was read
is moved by listings alone: a live event proves nothing about those before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update

from postroom.clock import MICROS
from postroom.hosted import tables
from postroom.hosted.api import Json, Unexpected
from postroom.hosted.inboxes import Followed
from postroom.hosted.shapes import moment_of, needed, objects_of, text_of, texts_of
from postroom.model import event as kinds
from postroom.model.principal import DEFAULT_POD
from postroom.store.engine import Store, Tx
from postroom.store.statement import insert_or_ignore, sql

KEPT_S: Final = 30 * 86400  # longer than anything is listed or told again
_PAYLOADS: Final = {kinds.BOUNCED: "bounce", kinds.COMPLAINED: "complaint", kinds.REJECTED: "reject"}
_RESTRICTED: Final = ("spam", "blocked", "unauthenticated")
_CHARS: Final = 320

_seen, _inbox = tables.hosted_seen, tables.hosted_inbox
_SEE = insert_or_ignore(_seen, ("inbox", "kind", "ref", "detail", "at"))
_KNOWN = sql(
    select(_seen.c.id)
    .where(_seen.c.inbox == bindparam("inbox"), _seen.c.kind == bindparam("kind"), _seen.c.ref == bindparam("ref"))
    .limit(1)
)
_FORGET = sql(delete(_seen).where(_seen.c.inbox == bindparam("inbox"), _seen.c.at < bindparam("before")))
_REACHED = sql(
    update(_inbox)
    .where(_inbox.c.address == bindparam("at_address"), _inbox.c.seen_at < bindparam("new_seen_at"))
    .values(seen_at=bindparam("new_seen_at"))
)
_FLOOR = sql(
    update(_inbox)
    .where(_inbox.c.address == bindparam("at_address"), _inbox.c.floor_at.is_(None))
    .values(floor_at=bindparam("new_floor_at"), seen_at=bindparam("new_floor_at"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One thing to be told of. `detail` tells two reports about one message apart; "" is any report at all."""

    inbox: str
    kind: str
    message_id: str
    thread_id: str
    at: int
    detail: str = ""
    snapshot: Mapping[str, Any] = field(default_factory=dict)


class Arrivals:
    """The one memory of what was told."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, place: Followed, arrivals: Sequence[Arrival], *, reached: int = 0) -> int:
        """Copy what is new; how many that was. `reached`: everything up to there was listed."""

        forgotten = min(self._store.clock.now_us(), place.seen_at) - KEPT_S * MICROS

        def write(tx: Tx) -> int:
            new = sum(self._tell(tx, place, arrival) for arrival in arrivals)
            if reached:
                tx.run(_REACHED, at_address=place.address, new_seen_at=reached)
                tx.run(_FORGET, inbox=place.address, before=forgotten)
            return new

        return await self._store.write(write)

    async def begin(self, place: Followed, floor_at: int) -> None:
        """Mail before `floor_at` was there before this house looked."""
        await self._store.write(lambda tx: tx.run(_FLOOR, at_address=place.address, new_floor_at=floor_at))

    def _tell(self, tx: Tx, place: Followed, arrival: Arrival) -> int:
        where = {"inbox": place.address, "kind": arrival.kind, "ref": arrival.message_id}
        if not arrival.detail and tx.one(_KNOWN, **where) is not None:
            return 0
        if not tx.run(_SEE, **where, detail=arrival.detail, at=arrival.at):
            return 0
        tx.emit(
            arrival.kind,
            arrival.message_id,
            at=arrival.at,
            agent_id=place.owner_agent,
            inbox_id=place.address,
            thread_id=arrival.thread_id,
            pod_id=DEFAULT_POD,
            snapshot=arrival.snapshot,
        )
        return 1


def of_message(said: Json, wanted: Sequence[str]) -> Arrival | None:
    """The arrival of a message, listed or told; None for one that was sent from here, or is of a kind nobody asked for."""
    labels = texts_of(said, "labels")
    restricted = next((label for label in _RESTRICTED if label in labels), None)
    kind = kinds.RECEIVED if restricted is None else f"{kinds.RECEIVED}.{restricted}"
    if "received" not in labels or kind not in wanted:
        return None
    return _arrival(said, kind, said)


def of_failure(said: Json, kind: str) -> Arrival:
    """A failure that is known only by the label on the message that was sent."""
    return _arrival(said, kind, said, recipients=[*texts_of(said, "to"), *texts_of(said, "cc")])


def of_event(frame: Json, wanted: Sequence[str]) -> Arrival | None:
    """What a frame tells; None for none of ours. `event_type` alone says what it is. Raises `Unexpected` for a broken one."""
    kind = text_of(frame, "event_type") or text_of(frame, "eventType")
    if kind is None or kind not in wanted:
        return None
    if kind.startswith(kinds.RECEIVED):
        return of_message(_snaked(frame.get("message")), wanted)
    if kind not in _PAYLOADS:
        return None
    report = _snaked(frame.get(_PAYLOADS[kind]))
    recipients = _recipients(report)
    detail = ",".join(sorted(recipients)) or text_of(frame, "event_id") or text_of(frame, "eventId") or "event"
    return _arrival(report, kind, report, recipients=recipients, detail=detail)


def _arrival(said: Json, kind: str, ids: Json, *, recipients: Sequence[str] = (), detail: str = "") -> Arrival:
    snapshot: dict[str, Any] = {}
    if kind in kinds.FAILURES:
        reason = text_of(said, "reason") or " ".join(filter(None, (text_of(said, "type"), text_of(said, "sub_type"))))
        snapshot = {"recipients": [name[:_CHARS] for name in recipients], "reason": reason[:_CHARS]}
    return Arrival(
        inbox=needed(ids, "inbox_id").lower(),
        kind=kind,
        message_id=needed(ids, "message_id"),
        thread_id=needed(ids, "thread_id"),
        at=moment_of(ids, "timestamp"),
        detail=detail,
        snapshot=snapshot,
    )


def _recipients(report: Json) -> list[str]:
    """Addresses, given as texts or as objects that have one."""
    if texts := texts_of(report, "recipients"):
        return list(texts)
    return [address for entry in objects_of(report, "recipients") if (address := text_of(entry, "address"))]


def _snaked(value: Any) -> Json:
    """The object with its keys as the wire writes them; a client library in between may have turned them into camelCase."""
    if not isinstance(value, dict):
        raise Unexpected("an event without what it is about")
    return {"".join(f"_{char.lower()}" if char.isupper() else char for char in str(key)): value[key] for key in value}
