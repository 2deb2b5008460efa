"""Reports that come back about mail we sent: which message they mean, and which addresses to leave alone.

A report proves nothing by itself. It counts when it names a Message-ID this inbox sent, and only for
recipients that message had; so nobody can have an address suppressed by inventing a report. Only
`Action: failed` suppresses; a delay is not a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import and_, bindparam, select

from postroom.mime.bounce import Bounce, Complaint
from postroom.model.event import BOUNCED, COMPLAINED
from postroom.model.mail import Inbox
from postroom.office import tables as t
from postroom.office.desk import Place
from postroom.office.labels import Spot, mark
from postroom.office.placing import bare_address
from postroom.office.rows import strings
from postroom.store.statement import insert_or_ignore, sql
from postroom.store.transaction import Tx

_SENT_AS = sql(
    select(
        t.message.c.id,
        t.message.c.public_id,
        t.message.c.inbox,
        t.message.c.thread,
        t.message.c.timestamp,
        t.thread.c.uuid,
        t.message.c.to_,
        t.message.c.cc,
        t.message.c.bcc,
    )
    .join(t.message_alias, t.message_alias.c.message == t.message.c.id)
    .join(t.thread, t.thread.c.id == t.message.c.thread)
    .where(
        and_(
            t.message_alias.c.inbox == bindparam("inbox"),
            t.message_alias.c.rfc_id == bindparam("rfc_id"),
            t.message.c.received == 0,
        )
    )
)
_SUPPRESS = insert_or_ignore(t.suppression, ("pod", "address", "reason", "created_at"))


def note_report(tx: Tx, place: Place, report: Bounce | Complaint, *, at: int) -> None:
    """Tell what the report says of our message, if it is about one."""
    row = None if report.message_id is None else tx.one(_SENT_AS, inbox=place.key, rfc_id=report.message_id)
    if row is None:
        return
    recipients = {bare_address(entry) for column in row[6:9] for entry in strings(column)}
    if isinstance(report, Complaint):
        complainers = [address for address in report.recipients if address.lower() in recipients]
        tell(tx, place.inbox, row[:6], COMPLAINED, "complained", at=at, facts=_complaint(report, complainers))
        suppress(tx, place.inbox.pod_id, complainers, "complained", at=at)
        return
    failed = [entry for entry in report.recipients if entry.action == "failed" and entry.address.lower() in recipients]
    if failed:
        facts = bounce_facts({entry.address: entry.status or "5.0.0" for entry in failed})
        tell(tx, place.inbox, row[:6], BOUNCED, "bounced", at=at, facts=facts)
        suppress(tx, place.inbox.pod_id, [entry.address for entry in failed], "bounced", at=at)


def bounce_facts(statuses: dict[str, str], *, permanent: bool = True) -> dict[str, Any]:
    """What a `message.bounced` event says; `statuses` maps each address to its status code."""
    return {
        "type": "Permanent" if permanent else "Transient",
        "sub_type": "General",
        "recipients": [{"address": address, "status": status} for address, status in statuses.items()],
    }


def tell(tx: Tx, inbox: Inbox, spot: Spot | tuple[Any, ...], kind: str, label: str, *, at: int, facts: dict[str, Any]) -> None:
    """Mark one of our messages and write the event that says why."""
    tx.emit(
        kind,
        spot[1],
        at=at,
        agent_id=inbox.owner_agent,
        inbox_id=inbox.inbox_id,
        thread_id=spot[5],
        pod_id=inbox.pod_id,
        snapshot=facts,
    )
    mark(tx, (spot[0], spot[1], spot[2], spot[3], spot[4], spot[5]), label)


def suppress(tx: Tx, pod: str, addresses: Iterable[str], reason: str, *, at: int) -> None:
    """Never write to these again until the owner lifts it."""
    for address in addresses:
        tx.run(_SUPPRESS, pod=pod, address=address.lower(), reason=reason, created_at=at)


def _complaint(report: Complaint, recipients: list[str]) -> dict[str, Any]:
    return {"type": report.feedback_type, "sub_type": "", "recipients": recipients}
