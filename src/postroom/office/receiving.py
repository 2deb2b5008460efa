"""Which labels an arriving mail gets, by the receive and reply lists.

A new conversation is judged by `receive`, mail that answers something this inbox sent by `reply`.
One allow entry anywhere makes that direction deny whoever is not on it. The most specific entry
wins: the inbox's before the pod's, an address before a domain. Blocked mail is kept, marked.

Where senders are looked into, an allow entry holds for a proved address only: anybody can write a name
into From. Mail whose From its domain disowns is marked too, and wakes nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import and_, bindparam, or_, select

from postroom.model.event import RECEIVED, RECEIVED_BLOCKED, RECEIVED_UNAUTHENTICATED
from postroom.office import tables as t
from postroom.office.content import Content
from postroom.office.desk import Place
from postroom.policy.recipients import canonical_address, matches
from postroom.store.statement import in_list, sql
from postroom.store.transaction import Reader

_ENTRIES = sql(
    select(t.list_entry.c.inbox, t.list_entry.c.type, t.list_entry.c.entry, t.list_entry.c.direction).where(
        and_(
            t.list_entry.c.pod == bindparam("pod"),
            or_(t.list_entry.c.inbox == 0, t.list_entry.c.inbox == bindparam("inbox")),
            t.list_entry.c.direction != "send",
        )
    )
)
_ANSWERS_OURS = sql(
    select(t.message.c.id)
    .join(t.message_alias, t.message_alias.c.message == t.message.c.id)
    .where(
        and_(
            t.message_alias.c.inbox == bindparam("inbox"),
            t.message_alias.c.rfc_id.in_(in_list("ids")),
            t.message.c.received == 0,
        )
    )
    .limit(1)
)


def receive_labels(reader: Reader, place: Place, content: Content, mail_from: str) -> tuple[tuple[str, ...], str]:
    """The labels of this arrival, and the kind of its event."""
    proof = content.authentication
    disowned = proof is not None and proof.failed
    labels = ("received", "unread", *(("unauthenticated",) if disowned else ()))
    entries = reader.all(_ENTRIES, pod=place.inbox.pod_id, inbox=place.key)
    if entries:
        direction = _direction(reader, place, content)
        of_direction = [entry for entry in entries if entry[3] == direction]
        if not allows(of_direction, content.sender_address or mail_from, proved=proof is None or proof.passed):
            return (*labels, "blocked"), RECEIVED_BLOCKED
    return labels, RECEIVED_UNAUTHENTICATED if disowned else RECEIVED


def allows(entries: Sequence[Sequence[Any]], address: str, *, proved: bool = True) -> bool:
    """Do `(inbox, type, entry, …)` rows of one direction let this address through? Unproved, no allow entry means it."""
    canonical = canonical_address(address) or ""
    met = [entry for entry in entries if matches(entry[2], canonical) and (proved or entry[1] == "block")]
    if met:
        best = max(met, key=lambda entry: (entry[0] != 0, "@" in entry[2]))
        return bool(best[1] == "allow")
    return not any(entry[1] == "allow" for entry in entries)


def _direction(reader: Reader, place: Place, content: Content) -> Literal["receive", "reply"]:
    ids = content.candidates
    answers = ids and reader.one(_ANSWERS_OURS, inbox=place.key, ids=ids) is not None
    return "reply" if answers else "receive"
