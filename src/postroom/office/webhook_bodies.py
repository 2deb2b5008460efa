"""What webhooks are told of an event, as it was when it happened: every attempt posts the same bytes.

A body is written down with the deliveries it is for and goes when all of them are settled, or when the
message it tells of is deleted: nothing keeps a deleted mail's text for a webhook that was down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import and_, bindparam, delete, exists, select

from postroom.model.event import Event
from postroom.office import tables as t
from postroom.office.rows import key_list
from postroom.store.statement import insert_or_ignore, sql
from postroom.store.transaction import Reader, Tx

_FEW: Final = 100
_b = t.webhook_body.c
_KEEP = insert_or_ignore(t.webhook_body, ("event_seq", "ref", "body"))
_GET = sql(select(_b.body).where(_b.event_seq == bindparam("seq")))
_SETTLED = sql(
    select(_b.id)
    .where(
        ~exists(
            select(t.webhook_delivery.c.id).where(
                and_(t.webhook_delivery.c.event_seq == _b.event_seq, t.webhook_delivery.c.state == "queued")
            )
        )
    )
    .limit(bindparam("most"))
)
_FORGET = sql(delete(t.webhook_body).where(_b.id.in_(key_list("keys"))))
_ERASE = sql(delete(t.webhook_body).where(_b.ref == bindparam("ref")))


def keep_body(tx: Tx, event: Event, body: bytes) -> None:
    """Beside the deliveries it is for."""
    tx.run(_KEEP, event_seq=event.seq, ref=event.ref, body=body)


def kept_body(reader: Reader, event_seq: int) -> bytes | None:
    """What was written down of this event, if it still stands."""
    found = reader.scalar(_GET, seq=event_seq)
    return None if found is None else bytes(found)


def settled_bodies(reader: Reader) -> list[int]:
    """Some that no delivery waits for any more."""
    return [row[0] for row in reader.all(_SETTLED, most=_FEW)]


def forget_bodies(tx: Tx, keys: Sequence[int]) -> None:
    """These, which `settled_bodies` named."""
    tx.run(_FORGET, keys=list(keys))


def erase_bodies_about(tx: Tx, message_id: str) -> None:
    """Whatever was to be told of this message."""
    tx.run(_ERASE, ref=message_id)
