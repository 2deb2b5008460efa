"""Events out to webhooks: which are owed is written down first, then each is posted until it is taken.

The log is followed with a durable cursor; a delivery is a row made in the commit that moves the
cursor, so a crash loses none (at least once; `svix-id` is the same in every attempt), and so is its
body, once for all attempts (`webhook_bodies`); a message deleted meanwhile is never posted. Each endpoint
has a lane of its own, so a hanging one holds up no other. One that only fails for days is disabled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from sqlalchemy import and_, bindparam, delete, or_, select, update

from postroom.clock import MICROS
from postroom.errors import Invalid, StorageFailure, TransportFailure
from postroom.limits import WEBHOOK_FAILING_S, WEBHOOK_KEPT_S
from postroom.model.event import PUBLIC, Event
from postroom.office import tables as t
from postroom.office.signing import signature_headers
from postroom.office.webhook_bodies import forget_bodies, keep_body, kept_body, settled_bodies
from postroom.office.webhook_rows import COLUMNS, webhook_noun
from postroom.store.engine import Store
from postroom.store.statement import insert_or_ignore, sql
from postroom.store.transaction import Tx

RETRIES_S: Final = (5, 300, 1800, 7200, 18000, 36000, 36000)
AT_ONCE: Final = 4  # posts to one endpoint
CURSOR: Final = "webhooks"
_BATCH: Final = 50  # events whose bodies are held at once
_LAG: Final = 1000  # positions the durable cursor may lie behind while nothing is owed
_IDLE_S: Final = 30.0
_FEW: Final = 500
_KINDS: Final = tuple(PUBLIC)
_GONE: Final = "there is nothing left to post: what it was about has been deleted"

d = t.webhook_delivery.c
_HOOKS = sql(select(*COLUMNS).where(t.webhook.c.enabled == 1))
_OWE = insert_or_ignore(
    t.webhook_delivery,
    (
        "pod",
        "webhook",
        "event_seq",
        "event_id",
        "delivery_id",
        "kind",
        "state",
        "attempts",
        "next_at",
        "status",
        "error",
        "created_at",
        "updated_at",
    ),
)
_QUEUED = and_(d.state == "queued", t.webhook.c.enabled == 1)
_ENDPOINTS = sql(
    select(d.webhook).distinct().join(t.webhook, t.webhook.c.id == d.webhook).where(and_(_QUEUED, d.next_at <= bindparam("now")))
)
_NEXT_AT = sql(
    select(d.next_at)
    .join(t.webhook, t.webhook.c.id == d.webhook)
    .where(and_(_QUEUED, d.next_at > bindparam("now")))
    .order_by(d.next_at)
    .limit(1)
)
_DUE = sql(
    select(
        d.id,
        d.webhook,
        d.event_seq,
        d.delivery_id,
        d.attempts,
        t.webhook.c.url,
        t.webhook.c.headers,
        t.webhook.c.secret,
        t.webhook.c.old_secret,
        t.webhook.c.old_until,
    )
    .join(t.webhook, t.webhook.c.id == d.webhook)
    .where(and_(_QUEUED, d.webhook == bindparam("webhook"), d.next_at <= bindparam("now")))
    .order_by(d.next_at, d.id)
    .limit(bindparam("most"))
)
_SETTLE = sql(
    update(t.webhook_delivery)
    .where(and_(d.id == bindparam("key"), d.state == "queued"))
    .values(
        state=bindparam("new_state"),
        attempts=bindparam("new_attempts"),
        next_at=bindparam("new_next_at"),
        status=bindparam("new_status"),
        error=bindparam("new_error"),
        updated_at=bindparam("at"),
    )
)
_FAILING = sql(update(t.webhook).where(t.webhook.c.id == bindparam("key")).values(failing_since=bindparam("since")))
_FAILING_SINCE = sql(select(t.webhook.c.failing_since).where(t.webhook.c.id == bindparam("key")))
_DISABLE = sql(
    update(t.webhook)
    .where(and_(t.webhook.c.id == bindparam("key"), t.webhook.c.enabled == 1))
    .values(enabled=0, reason=bindparam("why"), updated_at=bindparam("at"))
)
_OLD = sql(
    select(d.id)
    .where(and_(d.updated_at < bindparam("before"), or_(d.state == "delivered", d.state == "failed", d.state == "gone")))
    .limit(bindparam("most"))
)
_FORGET = sql(delete(t.webhook_delivery).where(d.id == bindparam("key")))

log = structlog.get_logger("postroom.office")


class Poster(Protocol):
    """The way out: one POST, its status."""

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int: ...


Render = Callable[[Event], Awaitable[bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One delivery at an attempt."""

    key: int
    webhook: int
    event_seq: int
    delivery_id: str
    attempts: int
    url: str
    headers: Mapping[str, str]
    secret: str
    old_secret: str | None
    old_until: int | None

    def keys(self, at: int) -> tuple[str, ...]:
        """The secrets that sign now, the newest first."""
        earlier = self.old_secret if self.old_until is not None and at < self.old_until else None
        return (self.secret,) if earlier is None else (self.secret, earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an attempt came to: a status, or why there is none; `gone`: there was nothing to post."""

    status: int | None = None
    error: str | None = None
    gone: bool = False

    @property
    def is_taken(self) -> bool:
        """Any 2xx."""
        return self.status is not None and 200 <= self.status < 300


class Deliveries:
    """Posts what is owed until told to stop. Without a renderer nothing is owed."""

    def __init__(self, store: Store, poster: Poster) -> None:
        self._store = store
        self._poster = poster
        self._render: Render | None = None
        self._position: int | None = None
        self._lanes: dict[int, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()

    def rendered_by(self, render: Render) -> None:
        """Who makes the body of an event; None from it means that there is nothing to post."""
        self._render = render

    async def run(self) -> None:
        """Until cancelled; what is cut short is posted again at the next start."""
        if self._render is None:
            return
        self._position = None  # another node may have followed meanwhile
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow())
                group.create_task(self._work())
        finally:
            lanes = tuple(self._lanes.values())
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def step(self) -> int:
        """Write down what is owed and attempt what is due, once; how many attempts that was."""
        while await self.owe():
            pass
        return sum(await asyncio.gather(*(self._attempt_due(endpoint) for endpoint in self._endpoints())))

    async def owe(self) -> bool:
        """Take the next events of the log; False when there are none."""
        position = self._begin()
        last = self._store.events.last_seq()
        events = await self._store.events.after(position, kinds=_KINDS, limit=_BATCH)
        hooks = [(row[0], webhook_noun(row)) for row in self._store.read_now(lambda reader: reader.all(_HOOKS))] if events else []
        now = self._store.clock.now_us()
        wanted = [(event, [key for key, hook in hooks if hook.wants(event)]) for event in events]
        bodies = {event.seq: (event, await self._rendered(event)) for event, keys in wanted if keys}
        rows = [_row(key, event, now, gone=bodies[event.seq][1] is None) for event, keys in wanted for key in keys]
        reached = events[-1].seq if len(events) == _BATCH else max(last, events[-1].seq if events else 0)
        if rows or (hooks and reached - position > _LAG):
            await self._store.write(lambda tx: self._write_down(tx, rows, bodies.values(), reached))
            self._wake.set()
        self._position = max(position, reached)
        return len(events) == _BATCH

    def _begin(self) -> int:
        """Our position; at a start that of the cursor, or the log's end when there is no webhook to owe anything."""
        if self._position is None:
            events = self._store.events
            self._position = self._store.read_now(
                lambda reader: events.cursor_in(reader, CURSOR) if reader.all(_HOOKS) else events.last_seq()
            )
        return self._position

    def _write_down(self, tx: Tx, rows: list[dict[str, Any]], bodies: Iterable[tuple[Event, bytes | None]], reached: int) -> None:
        for event, body in bodies:
            if body is not None:
                keep_body(tx, event, body)
        for row in rows:
            tx.run(_OWE, **row)
        self._store.events.set_cursor(tx, CURSOR, reached)

    async def _follow(self) -> None:
        while True:
            try:
                while await self.owe():
                    pass
                await self._store.events.wait(self._position or 0)
            except StorageFailure as problem:
                log.warning("webhooks_wait", reason=problem.code)
                await self._store.until_accepting()

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            await self._store.until_accepting()
            await self.tidy()
            for endpoint in self._endpoints():
                if endpoint not in self._lanes:
                    self._lanes[endpoint] = asyncio.create_task(self._lane(endpoint))
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _endpoints(self) -> list[int]:
        """Webhooks that are owed something now."""
        now = self._store.clock.now_us()
        return self._store.read_now(lambda reader: [row[0] for row in reader.all(_ENDPOINTS, now=now)])

    async def _lane(self, endpoint: int) -> None:
        try:
            while await self._attempt_due(endpoint):
                pass
        except StorageFailure as problem:
            log.warning("webhooks_wait", reason=problem.code)
        finally:
            del self._lanes[endpoint]
            self._wake.set()

    async def _attempt_due(self, endpoint: int) -> int:
        now = self._store.clock.now_us()
        rows = self._store.read_now(lambda reader: reader.all(_DUE, webhook=endpoint, now=now, most=AT_ONCE))
        await asyncio.gather(*(self._attempt(_due(row)) for row in rows))
        return len(rows)

    async def _attempt(self, due: Due) -> None:
        answer = await self._post(due)
        now = self._store.clock.now_us()
        disabled = await self._store.write(lambda tx: settle(tx, due, answer, at=now))
        if disabled:
            log.warning("webhook_disabled", webhook=due.webhook)

    async def _post(self, due: Due) -> Answer:
        body = await self._body(due)
        if body is None:
            return Answer(error=_GONE, gone=True)
        now = self._store.clock.now_us()
        proof = signature_headers(due.delivery_id, now // MICROS, body, due.keys(now))
        headers = {**due.headers, "Content-Type": "application/json", **proof}
        try:
            return Answer(status=await self._poster.post(due.url, body, headers))
        except (TransportFailure, Invalid) as problem:
            return Answer(error=problem.message)
        except Exception as problem:
            log.exception("webhook_attempt_failed", webhook=due.webhook, reason=type(problem).__name__)
            return Answer(error="the attempt broke off")

    async def _body(self, due: Due) -> bytes | None:
        """As it was written down; a body that was erased is made anew, which comes to nothing if its message is gone."""
        kept = await self._store.read(lambda reader: kept_body(reader, due.event_seq))
        if kept is not None:
            return kept
        events = await self._store.events.after(due.event_seq - 1, limit=1)
        return await self._rendered(events[0]) if events and events[0].seq == due.event_seq else None

    async def _rendered(self, event: Event) -> bytes | None:
        return None if self._render is None else await self._render(event)

    async def tidy(self) -> None:
        """Forget bodies nobody waits for, and settled deliveries after a while, some at a time."""
        while done := self._store.read_now(settled_bodies):
            await self._store.write(lambda tx, done=done: forget_bodies(tx, done))  # type: ignore[misc]  # binds the loop's value
        before = self._store.clock.now_us() - WEBHOOK_KEPT_S * MICROS
        old = self._store.read_now(lambda reader: [row[0] for row in reader.all(_OLD, before=before, most=_FEW)])
        if old:
            await self._store.write(lambda tx: tx.many(_FORGET, [{"key": key} for key in old]))

    def _pause(self) -> float:
        now = self._store.clock.now_us()
        next_at: int | None = self._store.read_now(lambda reader: reader.scalar(_NEXT_AT, now=now))
        return _IDLE_S if next_at is None else min(_IDLE_S, max(0.05, (next_at - now) / MICROS))


def settle(tx: Tx, due: Due, answer: Answer, *, at: int) -> bool:
    """Write what an attempt came to; True when its endpoint was disabled for it."""
    if answer.gone or answer.is_taken:
        _write(tx, due, "gone" if answer.gone else "delivered", answer, next_at=at, at=at)
        if answer.is_taken:
            tx.run(_FAILING, key=due.webhook, since=None)
        return False
    attempts = due.attempts + 1
    left = attempts <= len(RETRIES_S)
    _write(tx, due, "queued" if left else "failed", answer, next_at=at + RETRIES_S[attempts - 1] * MICROS if left else at, at=at)
    since = tx.scalar(_FAILING_SINCE, key=due.webhook)
    if since is None:
        tx.run(_FAILING, key=due.webhook, since=at)
        return False
    if at - since < WEBHOOK_FAILING_S * MICROS:
        return False
    return tx.run(_DISABLE, key=due.webhook, why="every delivery failed for five days", at=at) > 0


def _write(tx: Tx, due: Due, state: str, answer: Answer, *, next_at: int, at: int) -> None:
    tx.run(
        _SETTLE,
        key=due.key,
        new_state=state,
        new_attempts=due.attempts + (0 if answer.gone else 1),
        new_next_at=next_at,
        new_status=answer.status,
        new_error=answer.error,
        at=at,
    )


def _row(webhook: int, event: Event, now: int, *, gone: bool) -> dict[str, Any]:
    return {
        "pod": event.pod_id,
        "webhook": webhook,
        "event_seq": event.seq,
        "event_id": event.event_id,
        "delivery_id": f"msg_{event.event_id.rpartition('_')[2]}",
        "kind": event.kind,
        "state": "gone" if gone else "queued",
        "attempts": 0,
        "next_at": now,
        "status": None,
        "error": _GONE if gone else None,
        "created_at": now,
        "updated_at": now,
    }


def _due(row: tuple[Any, ...]) -> Due:
    return Due(
        key=row[0],
        webhook=row[1],
        event_seq=row[2],
        delivery_id=row[3],
        attempts=row[4],
        url=row[5],
        headers=json.loads(row[6]),
        secret=row[7],
        old_secret=row[8],
        old_until=row[9],
    )
