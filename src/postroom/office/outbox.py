"""Mail out, from the outbox's rows to the relay: when, how often, and what came of it.

Before each attempt the stored bytes are hashed again against the digest that was approved; a
difference is never sent. After it, the wire's receipt is held against the envelope: a wire that gave the
mail to anybody else is not used again until the house is started anew. An attempt is written down before the socket is touched: if the process
dies in between, the next attempt says `possible_duplicate`. Retries follow RFC 5321 §4.5.4.1 in
spirit, growing from a minute to half a day, for three days. When some recipients were accepted the
mail is sent, and the others are reported as failed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from sqlalchemy import and_, bindparam, select, update

from postroom.clock import MICROS
from postroom.errors import NotFound, StorageFailure, TransportFailure
from postroom.model.event import BOUNCED, DELIVERED, OUTBOX_DEFERRED, OUTBOX_FAILED, OUTBOX_SENT, REJECTED
from postroom.model.mail import Inbox
from postroom.model.principal import DEFAULT_POD, SYSTEM
from postroom.office import tables as t
from postroom.office.bounces import bounce_facts, tell
from postroom.office.desk import place_of_key
from postroom.office.labels import SPOT_OF_MESSAGE, Spot, mark
from postroom.office.rows import strings, to_json
from postroom.policy.digest import digest_bytes
from postroom.store.engine import Store
from postroom.store.statement import sql
from postroom.store.transaction import Reader, Tx
from postroom.wires.smtp import RelayResult

RETRIES_S: Final = (60, 300, 1800, 7200, 21600)
LATER_S: Final = 43200
GIVE_UP_S: Final = 3 * 86400
AT_ONCE: Final = 4  # connections to the relay
_IDLE_S: Final = 30.0
_LOST: Final = ("not_found", "corrupt")  # codes of bytes that will not come back by waiting
_DAMAGED: Final = "the stored mail is damaged or missing; it was not sent"
_NOT_APPROVED: Final = "the stored mail is not the one that was approved; it was not sent"

_COLUMNS = (
    t.outbox.c.id,
    t.outbox.c.outgoing_id,
    t.outbox.c.message,
    t.outbox.c.mail_from,
    t.outbox.c.rcpt_to,
    t.outbox.c.pending,
    t.outbox.c.failed,
    t.outbox.c.blob,
    t.outbox.c.digest,
    t.outbox.c.attempts,
    t.outbox.c.possible_duplicate,
    t.outbox.c.created_at,
)
_DUE = sql(
    select(*_COLUMNS)
    .where(and_(t.outbox.c.state == "queued", t.outbox.c.next_at <= bindparam("now")))
    .order_by(t.outbox.c.next_at, t.outbox.c.id)
    .limit(bindparam("most"))
)
_NEXT_AT = sql(select(t.outbox.c.next_at).where(t.outbox.c.state == "queued").order_by(t.outbox.c.next_at).limit(1))
_TRY = sql(
    update(t.outbox)
    .where(t.outbox.c.id == bindparam("key"))
    .values(state="trying", attempts=t.outbox.c.attempts + 1, updated_at=bindparam("at"))
)
_RECOVER = sql(
    update(t.outbox).where(t.outbox.c.state == "trying").values(state="queued", possible_duplicate=1, next_at=bindparam("at"))
)
_SETTLE = sql(
    update(t.outbox)
    .where(t.outbox.c.id == bindparam("key"))
    .values(
        state=bindparam("new_state"),
        pending=bindparam("new_pending"),
        failed=bindparam("new_failed"),
        next_at=bindparam("new_next_at"),
        last_error=bindparam("new_error"),
        possible_duplicate=bindparam("new_duplicate"),
        updated_at=bindparam("at"),
    )
)

log = structlog.get_logger("postroom.office")


class Carrier(Protocol):
    """What takes mail out of the house: the relay's wire."""

    async def deliver(self, mail_from: str, rcpt_to: Sequence[str], raw: bytes) -> RelayResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One mail of the outbox at an attempt (`attempts` counts this one)."""

    key: int
    outgoing_id: str
    message: int
    mail_from: str
    rcpt_to: tuple[str, ...]
    pending: tuple[str, ...]
    failed: Mapping[str, str]
    blob: str
    digest: str
    attempts: int
    possible_duplicate: bool
    created_at: int

    @property
    def served(self) -> list[str]:
        """Recipients who have it already: the inboxes of this office."""
        return [address for address in self.rcpt_to if address not in self.pending and address.lower() not in self.failed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one attempt came to, for each recipient it was for. `codes` are the relay's numbers.

    `rejected`: the mail itself was not taken, for nobody, and why.
    """

    accepted: tuple[str, ...] = ()
    refused: Mapping[str, str]
    later: Mapping[str, str]
    codes: Mapping[str, str]
    doubtful: bool = False
    rejected: str | None = None
    added: tuple[str, ...] = ()  # whom the wire gave it to unasked


class Outbox:
    """Gives queued mail to the relay until told to stop."""

    def __init__(self, store: Store, relay: Carrier | None) -> None:
        self._store = store
        self._relay = relay
        self._distrusted = False
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There may be mail to send now."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. An attempt that is cut short is found by `recover` at the next start."""
        await self.recover()
        while True:
            self._wake.clear()
            try:
                while await self.step():
                    pass
            except StorageFailure as problem:
                log.warning("outbox_waits", reason=problem.code)
                await self._store.until_accepting()
                await self.recover()
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def recover(self) -> None:
        """Attempts a dead process left open: nobody knows whether the relay took the mail."""
        now = self._store.clock.now_us()
        await self._store.write(lambda tx: tx.run(_RECOVER, at=now))

    async def step(self) -> int:
        """Attempt what is due now; answers how many mails that was."""
        if self._relay is None or self._distrusted:
            return 0
        now = self._store.clock.now_us()
        if not self._store.read_now(lambda reader: reader.one(_DUE, now=now, most=1)):
            return 0
        due = await self._store.write(lambda tx: _begin(tx, now))
        ended = await asyncio.gather(*(self._attempt(self._relay, mail) for mail in due), return_exceptions=True)
        for problem in ended:
            if problem is not None:
                raise problem
        return len(due)

    async def _attempt(self, relay: Carrier, mail: Waiting) -> None:
        try:
            raw = await self._store.blobs.get(mail.blob)
        except (NotFound, StorageFailure) as problem:
            if problem.code not in _LOST:
                raise
            outcome = _all(mail, _DAMAGED, permanent=True)
        else:
            approved = _is_approved(mail, raw)
            outcome = await _carry(relay, mail, raw) if approved else _all(mail, _NOT_APPROVED, permanent=True)
        if outcome.added:
            self._distrusted = True
            log.critical("wire_distrusted", outgoing_id=mail.outgoing_id, added=list(outcome.added))
        now = self._store.clock.now_us()
        await self._store.write(lambda tx: settle(tx, mail, outcome, at=now))

    def _pause(self) -> float:
        next_at: int | None = self._store.read_now(lambda reader: reader.scalar(_NEXT_AT))
        if next_at is None or self._relay is None or self._distrusted:
            return _IDLE_S
        return min(_IDLE_S, max(0.05, (next_at - self._store.clock.now_us()) / MICROS))


def _is_approved(mail: Waiting, raw: bytes) -> bool:
    """The digest covers the whole envelope; whoever is still to be served must be part of it."""
    return set(mail.pending) <= set(mail.rcpt_to) and digest_bytes(mail.mail_from, mail.rcpt_to, raw) == mail.digest


async def _carry(relay: Carrier, mail: Waiting, raw: bytes) -> Outcome:
    try:
        result = await relay.deliver(mail.mail_from, mail.pending, raw)
    except TransportFailure as problem:
        return _all(mail, problem.message, permanent=problem.kind == "permanent", doubtful=problem.kind == "uncertain")
    except Exception as problem:
        log.exception("relay_failed", outgoing_id=mail.outgoing_id, reason=type(problem).__name__)
        return _all(mail, "the attempt broke off", permanent=False, doubtful=True)
    said = {address: f"the relay answered {entry.code} {entry.text}".strip() for address, entry in result.refused.items()}
    return Outcome(
        added=tuple(address for address in (*result.accepted, *result.refused) if address not in mail.pending),
        accepted=tuple(result.accepted),
        refused={address: said[address] for address, entry in result.refused.items() if entry.permanent},
        later={address: said[address] for address, entry in result.refused.items() if not entry.permanent},
        codes={address: str(entry.code) for address, entry in result.refused.items()},
    )


def _all(mail: Waiting, reason: str, *, permanent: bool, doubtful: bool = False) -> Outcome:
    everybody = dict.fromkeys(mail.pending, reason)
    if permanent:
        return Outcome(refused=everybody, later={}, codes={}, doubtful=doubtful, rejected=reason)
    return Outcome(refused={}, later=everybody, codes={}, doubtful=doubtful)


def _begin(tx: Tx, now: int) -> list[Waiting]:
    """Write down that these are being attempted."""
    rows = tx.all(_DUE, now=now, most=AT_ONCE)
    for row in rows:
        tx.run(_TRY, key=row[0], at=now)
    return [_waiting(row) for row in rows]


def _waiting(row: tuple[Any, ...]) -> Waiting:
    return Waiting(
        key=row[0],
        outgoing_id=row[1],
        message=row[2],
        mail_from=row[3],
        rcpt_to=strings(row[4]),
        pending=strings(row[5]),
        failed=json.loads(row[6]),
        blob=row[7],
        digest=row[8],
        attempts=row[9] + 1,
        possible_duplicate=bool(row[10]),
        created_at=row[11],
    )


def settle(tx: Tx, mail: Waiting, outcome: Outcome, *, at: int) -> None:
    """Write what an attempt came to, and tell it."""
    message = _message(tx, mail)
    next_at = at + _delay_s(mail.attempts) * MICROS
    doubtful = mail.possible_duplicate or outcome.doubtful
    failed = {**mail.failed, **outcome.refused}
    if not outcome.accepted and outcome.later and next_at <= mail.created_at + GIVE_UP_S * MICROS:
        reason = next(iter(outcome.later.values()))
        _write(
            tx,
            mail,
            "queued",
            pending=tuple(outcome.later),
            failed=failed,
            error=reason,
            next_at=next_at,
            doubtful=doubtful,
            at=at,
        )
        _tell(tx, OUTBOX_DEFERRED, mail, message, {"reason": reason, "next_at": next_at}, at=at)
        if message is not None:
            mark(tx, message[1], "delayed")
        return
    failed |= outcome.later
    reached = [*mail.served, *outcome.accepted]
    state = "sent" if reached else "failed"
    _write(tx, mail, state, pending=(), failed=failed, error=None, next_at=at, doubtful=doubtful, at=at)
    if message is not None:
        _mark_outcome(tx, message, outcome, failed, at=at)
    facts = {"recipients": reached, "failed": failed, "possible_duplicate": doubtful}
    _tell(tx, OUTBOX_SENT if reached else OUTBOX_FAILED, mail, message, facts, at=at)


def _mark_outcome(tx: Tx, message: tuple[Inbox, Spot], outcome: Outcome, failed: Mapping[str, str], *, at: int) -> None:
    """The message's own events: delivered to these, rejected as a whole, or bounced for those."""
    inbox, spot = message
    if outcome.accepted:
        tell(tx, inbox, spot, DELIVERED, "delivered", at=at, facts={"recipients": list(outcome.accepted)})
    if outcome.rejected is not None:
        facts = {"reason": outcome.rejected, "recipients": list(outcome.refused)}
        tell(tx, inbox, spot, REJECTED, "rejected", at=at, facts=facts)
        failed = {address: why for address, why in failed.items() if address not in outcome.refused}
    if failed:
        facts = bounce_facts({address: outcome.codes.get(address, "5.0.0") for address in failed}, permanent=not outcome.later)
        tell(tx, inbox, spot, BOUNCED, "bounced", at=at, facts=facts)


def _write(
    tx: Tx,
    mail: Waiting,
    state: str,
    *,
    pending: Sequence[str],
    failed: Mapping[str, str],
    error: str | None,
    next_at: int,
    doubtful: bool,
    at: int,
) -> None:
    tx.run(
        _SETTLE,
        key=mail.key,
        new_state=state,
        new_pending=to_json(pending),
        new_failed=to_json(failed),
        new_next_at=next_at,
        new_error=error,
        new_duplicate=int(doubtful),
        at=at,
    )


def _message(reader: Reader, mail: Waiting) -> tuple[Inbox, Spot] | None:
    """The message this is the sending of; None when its owner deleted it meanwhile."""
    row = reader.one(SPOT_OF_MESSAGE, key=mail.message)
    if row is None:
        return None
    place = place_of_key(reader, SYSTEM, row[2], "Inbox")
    return place.inbox, (row[0], row[1], row[2], row[3], row[4], row[5])


def _tell(tx: Tx, kind: str, mail: Waiting, message: tuple[Inbox, Spot] | None, facts: Mapping[str, Any], *, at: int) -> None:
    inbox, thread_id = (None, None) if message is None else (message[0], message[1][5])
    tx.emit(
        kind,
        mail.outgoing_id,
        at=at,
        agent_id=inbox.owner_agent if inbox else None,
        inbox_id=inbox.inbox_id if inbox else None,
        thread_id=thread_id,
        pod_id=inbox.pod_id if inbox else DEFAULT_POD,
        snapshot=facts,
    )


def _delay_s(attempts: int) -> int:
    return RETRIES_S[attempts - 1] if attempts <= len(RETRIES_S) else LATER_S
