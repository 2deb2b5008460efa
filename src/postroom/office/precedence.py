"""Which mail waits for an earlier one that is still being read.

Mail is read side by side: a small answer is done long before the large mail it answers. A thread is
chosen once, by the ids that are known at that moment, so mail that names an id (as what it answers, or
as its own) is not delivered before the earlier mail of its inbox that carries it. Threads come out as
if each mail had been read in the order of arrival. An id the inbox knows already decides by itself, so
nobody can hold up a conversation by sending its ids again.

Mail waits only for what came before it: no two wait for each other, and what is parked for a person
holds up nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, bindparam, select

from postroom.office import tables as t
from postroom.office.arrival import Queued
from postroom.office.content import Content
from postroom.office.desk import GET_INBOX
from postroom.office.rows import key_list, strings
from postroom.store.statement import in_list, sql
from postroom.store.transaction import Reader

PARKED: Final = 10  # attempts after which a mail waits for a person: not even its bare form could be written

_EARLIER = sql(
    select(t.intake.c.id, t.intake.c.rfc_id, t.intake.c.rcpt_to)
    .where(and_(t.intake.c.id < bindparam("before"), t.intake.c.attempts < PARKED, t.intake.c.rfc_id.is_not(None)))
    .order_by(t.intake.c.id)
)
_STILL = sql(select(t.intake.c.id).where(and_(t.intake.c.id.in_(key_list("keys")), t.intake.c.attempts < PARKED)))
_KNOWN = sql(
    select(t.message_alias.c.rfc_id).where(
        and_(t.message_alias.c.inbox == bindparam("inbox"), t.message_alias.c.rfc_id.in_(in_list("ids")))
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A mail of the queue that others may have to wait for."""

    key: int
    rfc_id: str
    rcpt_to: frozenset[str]


class Ahead:
    """What came before a batch of mails and is not delivered yet."""

    def __init__(self, reader: Reader, batch: Sequence[Queued]) -> None:
        self._reader = reader
        own = {mail.key for mail in batch}
        rows = reader.all(_EARLIER, before=max(own))
        self._mails = [_undelivered(row) for row in rows if row[0] not in own]

    def of(self, mail: Queued, content: Content) -> int | None:
        """The key of the mail that this one must wait for; it then counts among those others wait for."""
        if not self._mails:
            return None
        for address in {recipient.lower() for recipient in mail.rcpt_to}:
            found = self._in_inbox(mail.key, content, address)
            if found is not None:
                self._add(mail, content)
                return found
        return None

    def _in_inbox(self, key: int, content: Content, address: str) -> int | None:
        holders: dict[str, int] = {}
        for one in self._mails:
            if one.key < key and address in one.rcpt_to:
                holders.setdefault(one.rfc_id, one.key)
        own = (content.message_id,) if content.message_id else ()
        if holders.keys().isdisjoint((*own, *content.candidates)):
            return None
        inbox = self._reader.one(GET_INBOX, address=address)
        if inbox is None:
            return None
        ids = [*own, *content.candidates]
        known = {row[0] for row in self._reader.all(_KNOWN, inbox=inbox[0], ids=ids)}
        return _first(own, holders, known) or _first(content.candidates, holders, known)

    def _add(self, mail: Queued, content: Content) -> None:
        if content.message_id:
            recipients = frozenset(recipient.lower() for recipient in mail.rcpt_to)
            self._mails.append(Undelivered(key=mail.key, rfc_id=content.message_id, rcpt_to=recipients))


def still_queued(reader: Reader, keys: Iterable[int]) -> set[int]:
    """Those of these mails that are yet to be delivered, and may be."""
    return {row[0] for row in reader.all(_STILL, keys=list(keys))}


def _first(ids: Sequence[str], holders: dict[str, int], known: set[str]) -> int | None:
    """The holder of the first id that is known or held; None where a known one comes first."""
    name = next((name for name in ids if name in known or name in holders), None)
    return None if name is None or name in known else holders[name]


def _undelivered(row: tuple[Any, ...]) -> Undelivered:
    return Undelivered(key=row[0], rfc_id=row[1], rcpt_to=frozenset(recipient.lower() for recipient in strings(row[2])))
