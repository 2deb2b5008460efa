"""`OfficeSender`: the power to send, given to the gate alone.

`send` takes a frozen mail in one commit: the message in its thread, its event, the draft gone, the
mail queued for the inboxes it reaches here and for the relay for everybody else. The outgoing id is
unique among messages, so asking twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import structlog
from sqlalchemy import bindparam, select

from postroom.config import Config
from postroom.model.event import DELIVERED, OUTBOX_FAILED, OUTBOX_SENT, SENT
from postroom.model.outgoing import Accepted, Frozen
from postroom.model.principal import SYSTEM
from postroom.office import draft_rows
from postroom.office import tables as t
from postroom.office.bounces import tell
from postroom.office.content import Content, bare_content
from postroom.office.correspondents import note_written
from postroom.office.desk import Place, insert_into, place_of
from postroom.office.intake import Envelope, local_recipients, queue_mail, takes_mail
from postroom.office.local import LocalDomains
from postroom.office.parsing import ContentReader
from postroom.office.placing import Letter, Placed, place_letter
from postroom.office.rows import to_json
from postroom.store.engine import Store
from postroom.store.statement import sql
from postroom.store.transaction import Reader, Tx

NO_INBOX: Final = "no inbox of this office has that address"

_SENT_ALREADY = sql(
    select(t.message.c.public_id, t.thread.c.uuid)
    .join(t.thread, t.thread.c.id == t.message.c.thread)
    .where(t.message.c.outgoing_id == bindparam("outgoing_id"))
)
_DRAFT = sql(select(t.draft.c.id).where(t.draft.c.uuid == bindparam("uuid")))
_INSERT_OUTBOX = insert_into(t.outbox, tuple(column.name for column in t.outbox.c if column.name != "id"))

log = structlog.get_logger("postroom.office")


class OfficeSender:
    """Takes frozen mail durably. `relay` says whether there is a way out of the house."""

    def __init__(
        self, store: Store, config: Config, reader: ContentReader, *, relay: bool, domains: LocalDomains | None = None
    ) -> None:
        self._store = store
        self._domains = domains or LocalDomains(store, config)
        self._reader = reader
        self._relay = relay
        self._wake_outbox: Callable[[], None] = _nobody
        self._wake_intake: Callable[[], None] = _nobody

    @property
    def binds(self) -> Literal["bytes", "request"]:
        return "bytes"

    def on_mail(self, *, outbox: Callable[[], None], intake: Callable[[], None]) -> None:
        """Call these after a commit that queued mail to go out, or to come in."""
        self._wake_outbox, self._wake_intake = outbox, intake

    def can_reach(self, address: str) -> str | None:
        """None if mail to `address` can be delivered or relayed, else why not."""
        if local_recipients((address,), self._domains):
            known = self._store.read_now(lambda reader: takes_mail(reader, address))
            return None if known else NO_INBOX
        if self._relay:
            return None
        return f"no relay is configured, so only inboxes at {', '.join(self._domains)} can be reached; set [relay] in the config"

    async def send(self, frozen: Frozen) -> Accepted:
        """Take it durably, in one commit. Idempotent on `frozen.outgoing_id`."""
        taken = self._store.read_now(lambda reader: _already(reader, frozen))
        if taken is not None:
            return taken
        content = await self._content(frozen.raw)
        await self._store.blobs.put(frozen.raw)
        now = self._store.clock.now_us()
        return await self._store.write(lambda tx: self._take(tx, frozen, content, now))

    async def _content(self, raw: bytes) -> Content:
        try:
            return await self._reader.read(raw)
        except Exception as problem:  # noqa: BLE001 - it was approved as bytes; what we show of it is second to sending it
            log.warning("own_mail_not_read", reason=type(problem).__name__)
            return bare_content(raw)

    def _take(self, tx: Tx, frozen: Frozen, content: Content, at: int) -> Accepted:
        taken = _already(tx, frozen)
        if taken is not None:
            return taken
        self._store.blobs.link(tx, content.sha, frozen.raw)
        place = place_of(tx, SYSTEM, frozen.outbound.inbox_id.lower())
        placed = self._place(tx, place, frozen, content, at)
        self._drop_draft(tx, frozen.outbound.draft_id)
        note_written(tx, frozen.pod_id, frozen.rcpt_to, at=at)
        self._route(tx, place, placed, frozen=frozen, content=content, at=at)
        return Accepted(message_id=placed.message_id, thread_id=placed.thread_id, binds="bytes")

    def _place(self, tx: Tx, place: Place, frozen: Frozen, content: Content, at: int) -> Placed:
        letter = Letter(
            place=place,
            content=content,
            received=False,
            at=at,
            mail_from=frozen.mail_from,
            labels=("sent", *frozen.outbound.labels),
            serial=frozen.outgoing_id,
            bcc=frozen.outbound.bcc,
            thread_id=frozen.outbound.thread_id,
            outgoing_id=frozen.outgoing_id,
        )
        placed = place_letter(tx, self._store, letter)
        tx.emit(
            SENT,
            placed.message_id,
            at=at,
            agent_id=place.inbox.owner_agent,
            inbox_id=place.inbox.inbox_id,
            thread_id=placed.thread_id,
            pod_id=place.inbox.pod_id,
            snapshot={"recipients": list(frozen.rcpt_to), "outgoing_id": frozen.outgoing_id},
        )
        return placed

    def _drop_draft(self, tx: Tx, draft_id: str | None) -> None:
        key = None if draft_id is None else tx.scalar(_DRAFT, uuid=draft_id)
        if key is not None:
            draft_rows.erase(tx, self._store.blobs, key)

    def _route(self, tx: Tx, place: Place, placed: Placed, *, frozen: Frozen, content: Content, at: int) -> None:
        """Queue it inside for the inboxes there are, and outside for the rest."""
        local = local_recipients(frozen.rcpt_to, self._domains)
        known = [address for address in local if takes_mail(tx, address)]
        failed = {address: NO_INBOX for address in local if address not in known}
        outside = [address for address in frozen.rcpt_to if address.lower() not in local]
        if known:
            envelope = Envelope(mail_from=frozen.mail_from, rcpt_to=tuple(known), origin="local")
            queue_mail(tx, sha=content.sha, size=content.size, envelope=envelope, rfc_id=content.message_id, at=at)
            tx.after_commit(self._wake_intake)
            spot = (placed.key, placed.message_id, place.key, placed.thread_key, at, placed.thread_id)
            tell(tx, place.inbox, spot, DELIVERED, "delivered", at=at, facts={"recipients": known})
        if outside:
            tx.insert(_INSERT_OUTBOX, **_outbox_row(frozen, placed, outside, sha=content.sha, failed=failed, at=at))
            tx.after_commit(self._wake_outbox)
            return
        tx.emit(
            OUTBOX_SENT if known else OUTBOX_FAILED,
            frozen.outgoing_id,
            at=at,
            agent_id=place.inbox.owner_agent,
            inbox_id=place.inbox.inbox_id,
            thread_id=placed.thread_id,
            pod_id=place.inbox.pod_id,
            snapshot={"recipients": known, "failed": failed, "possible_duplicate": False},
        )


def _already(reader: Reader, frozen: Frozen) -> Accepted | None:
    row = reader.one(_SENT_ALREADY, outgoing_id=frozen.outgoing_id)
    return None if row is None else Accepted(message_id=row[0], thread_id=row[1], binds="bytes")


def _outbox_row(
    frozen: Frozen, placed: Placed, outside: Sequence[str], *, sha: str, failed: dict[str, str], at: int
) -> dict[str, object]:
    return {
        "pod": frozen.pod_id,
        "outgoing_id": frozen.outgoing_id,
        "message": placed.key,
        "mail_from": frozen.mail_from,
        "rcpt_to": to_json(frozen.rcpt_to),
        "pending": to_json(outside),
        "failed": to_json(failed),
        "blob": sha,
        "digest": frozen.digest,
        "state": "queued",
        "attempts": 0,
        "next_at": at,
        "last_error": None,
        "possible_duplicate": 0,
        "created_at": at,
        "updated_at": at,
    }


def _nobody() -> None:
    """Until the office runs, queued mail waits."""
