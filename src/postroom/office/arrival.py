"""One queued mail is written to the inboxes it is for, in the transaction that takes it off the queue."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, delete

from postroom.model.event import RECEIVED
from postroom.model.mail import Finding, Inbox
from postroom.office import tables as t
from postroom.office.bounces import note_report
from postroom.office.content import Content
from postroom.office.correspondents import note_heard, note_proved
from postroom.office.desk import GET_INBOX, Place
from postroom.office.placing import Letter, Placed, place_letter
from postroom.office.receiving import receive_labels
from postroom.office.rows import inbox_noun, strings
from postroom.store.engine import Store
from postroom.store.statement import sql
from postroom.store.transaction import Tx

_FROM_CHARS: Final = 320  # a snapshot is small; the message has the rest

DEQUEUE = sql(delete(t.intake).where(t.intake.c.id == bindparam("key")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A row of the intake queue, with its attempts as counted for this one."""

    key: int
    blob: str
    mail_from: str
    rcpt_to: tuple[str, ...]
    origin: str
    size: int
    attempts: int
    received_at: int
    peer: str = ""


def queued(row: tuple[Any, ...]) -> Queued:
    """From the columns id, blob, mail_from, rcpt_to, origin, size, attempts, received_at, peer."""
    return Queued(
        key=row[0],
        blob=row[1],
        mail_from=row[2],
        rcpt_to=strings(row[3]),
        origin=row[4],
        size=row[5],
        attempts=row[6],
        received_at=row[7],
        peer=row[8],
    )


def deliver(tx: Tx, store: Store, mail: Queued, content: Content) -> None:
    """One message per inbox, its event, and the queue's row gone. Nothing happens for a row already taken."""
    if tx.run(DEQUEUE, key=mail.key) == 0:
        return
    addresses = dict.fromkeys(recipient.lower() for recipient in mail.rcpt_to)
    rows = filter(None, (tx.one(GET_INBOX, address=address) for address in addresses))  # some may be deleted by now
    noticed: dict[str, tuple[Finding, ...]] = {}
    for place in [Place(row[0], inbox_noun(row)) for row in rows]:
        pod = place.inbox.pod_id
        if pod not in noticed:  # the second inbox of a house hears of the same first contact
            noticed[pod] = note_heard(tx, place.inbox, content.sender_address) if mail.origin != "local" else ()
        _deliver_to(tx, store, place, mail, dataclasses.replace(content, findings=(*noticed[pod], *content.findings)))


def _deliver_to(tx: Tx, store: Store, place: Place, mail: Queued, content: Content) -> None:
    labels, kind = receive_labels(tx, place, content, mail.mail_from)
    placed = place_letter(
        tx,
        store,
        Letter(
            place=place,
            content=content,
            received=True,
            at=mail.received_at,
            mail_from=mail.mail_from,
            labels=labels,
            serial=str(mail.key),
            arrival=mail.key,
        ),
    )
    if content.authentication is not None and content.authentication.passed:
        note_proved(tx, place.inbox.pod_id, content.sender_address, at=mail.received_at)
    _announce(tx, place.inbox, placed, content, mail, labels=labels, kind=kind)
    if content.report is not None and mail.origin == "smtp":
        note_report(tx, place, content.report, at=mail.received_at)


def _announce(
    tx: Tx, inbox: Inbox, placed: Placed, content: Content, mail: Queued, *, labels: tuple[str, ...], kind: str = RECEIVED
) -> None:
    tx.emit(
        kind,
        placed.message_id,
        at=mail.received_at,
        agent_id=inbox.owner_agent,
        inbox_id=inbox.inbox_id,
        thread_id=placed.thread_id,
        pod_id=inbox.pod_id,
        snapshot={
            "from": (content.from_ or mail.mail_from)[:_FROM_CHARS],
            "labels": list(labels),
            "size": content.size,
            "new_participant": placed.new_participant,
            "findings": [entry.code for entry in placed.findings],
        },
    )
