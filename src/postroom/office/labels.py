"""Labels on messages: how they are stored, changed and told.

A label is a row; the labels that hide a message from listings are also bits of its `hidden` column,
so that a listing needs one comparison. A thread has no labels of its own: its labels are the union
of its messages'. Every change by a caller is an event, `label.added` or `label.removed`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from sqlalchemy import and_, bindparam, delete, func, select, tuple_, update

from postroom.errors import Invalid
from postroom.limits import LABELS
from postroom.model.event import LABEL_ADDED, LABEL_REMOVED
from postroom.model.mail import Inbox
from postroom.office import tables as t
from postroom.office.rows import grouped, key_list
from postroom.store.statement import insert_or_ignore, sql
from postroom.store.transaction import Reader, Tx

HIDDEN: Final = {"spam": 1, "blocked": 2, "unauthenticated": 4, "trash": 8}
ALL_HIDDEN: Final = sum(HIDDEN.values())

_OF_MESSAGES = sql(
    select(t.message_label.c.message, t.message_label.c.label).where(t.message_label.c.message.in_(key_list("keys")))
)
_OF_THREADS = sql(
    select(t.message_label.c.thread, t.message_label.c.label).where(t.message_label.c.thread.in_(key_list("keys"))).distinct()
)
ADD = insert_or_ignore(t.message_label, ("message", "label", "inbox", "thread", "timestamp"))
_REMOVE = sql(
    delete(t.message_label).where(
        and_(t.message_label.c.message == bindparam("of_message"), t.message_label.c.label == bindparam("of_label"))
    )
)
_SET_HIDDEN = sql(
    update(t.message).where(t.message.c.id == bindparam("key")).values(hidden=bindparam("hidden"), updated_at=bindparam("at"))
)
_SPOT = (
    t.message.c.id,
    t.message.c.public_id,
    t.message.c.inbox,
    t.message.c.thread,
    t.message.c.timestamp,
    t.thread.c.uuid,
)
SPOT_OF_MESSAGE = sql(
    select(*_SPOT).join(t.thread, t.thread.c.id == t.message.c.thread).where(t.message.c.id == bindparam("key"))
)
_SPOTS_OF_THREAD = sql(
    select(*_SPOT)
    .join(t.thread, t.thread.c.id == t.message.c.thread)
    .where(
        t.message.c.thread == bindparam("thread"),
        tuple_(t.message.c.timestamp, t.message.c.id) > tuple_(bindparam("at"), bindparam("key")),
    )
    .order_by(t.message.c.timestamp, t.message.c.id)
    .limit(bindparam("most"))
)
_CROWDED = sql(
    select(t.message_label.c.message)
    .where(t.message_label.c.thread == bindparam("thread"))
    .group_by(t.message_label.c.message)
    .having(func.count() > bindparam("most"))
)

Spot = tuple[int, str, int, int, int, str]  # the columns of _SPOT
Mark = tuple[int, int]  # a message's timestamp and key: how far through a thread
START: Final[Mark] = (-(1 << 63), 0)


def hidden_bits(labels: Iterable[str]) -> int:
    """What `message.hidden` is for a message with these labels."""
    return sum(HIDDEN[label] for label in set(labels) if label in HIDDEN)


def hiding_mask(include: Collection[str]) -> int:
    """The bits that keep a message out of a listing that includes `include`."""
    return ALL_HIDDEN & ~hidden_bits(include)


def labels_of_messages(reader: Reader, keys: Sequence[int]) -> dict[int, tuple[str, ...]]:
    return grouped(reader.all(_OF_MESSAGES, keys=keys)) if keys else {}


def labels_of_threads(reader: Reader, keys: Sequence[int]) -> dict[int, tuple[str, ...]]:
    return grouped(reader.all(_OF_THREADS, keys=keys)) if keys else {}


def spots_of_thread(reader: Reader, thread: int, after: Mark, most: int) -> list[Spot]:
    """The next messages of a thread, oldest first."""
    rows = reader.all(_SPOTS_OF_THREAD, thread=thread, at=after[0], key=after[1], most=most)
    return [(row[0], row[1], row[2], row[3], row[4], row[5]) for row in rows]


def check_room(reader: Reader, thread: int, *, add: Sequence[str], remove: Sequence[str]) -> None:
    """Raises `Invalid` when some message of a thread has no room for these labels."""
    crowded = [row[0] for row in reader.all(_CROWDED, thread=thread, most=LABELS - len(add))]
    for labels in labels_of_messages(reader, crowded).values():
        _edited(set(labels), add, remove)


def apply_labels(tx: Tx, spots: Sequence[Spot], inbox: Inbox, *, add: Sequence[str], remove: Sequence[str], at: int) -> None:
    """Change the labels of these messages of one inbox, and tell what changed."""
    before = labels_of_messages(tx, [spot[0] for spot in spots])
    for spot in spots:
        had = set(before.get(spot[0], ()))
        now = _edited(had, add, remove)
        if now != had:
            _change(tx, spot, inbox, added=sorted(now - had), removed=sorted(had - now), at=at)
            tx.run(_SET_HIDDEN, key=spot[0], hidden=hidden_bits(now), at=at)


def _edited(had: set[str], add: Sequence[str], remove: Sequence[str]) -> set[str]:
    now = had.union(add).difference(remove)
    if len(now) > LABELS:
        raise Invalid(
            f"a message carries at most {LABELS} labels",
            errors=[{"path": ["add_labels"], "message": f"more than {LABELS} labels", "code": "too_many"}],
        )
    return now


def mark(tx: Tx, spot: Spot, label: str) -> None:
    """Add a system label; what happened to the message has an event of its own."""
    tx.run(ADD, message=spot[0], label=label, inbox=spot[2], thread=spot[3], timestamp=spot[4])


def _change(tx: Tx, spot: Spot, inbox: Inbox, *, added: Sequence[str], removed: Sequence[str], at: int) -> None:
    key, public_id, inbox_key, thread_key, timestamp, thread_id = spot
    for label in added:
        tx.run(ADD, message=key, label=label, inbox=inbox_key, thread=thread_key, timestamp=timestamp)
    for label in removed:
        tx.run(_REMOVE, of_message=key, of_label=label)
    for kind, labels in ((LABEL_ADDED, added), (LABEL_REMOVED, removed)):
        for label in labels:
            tx.emit(
                kind,
                public_id,
                at=at,
                agent_id=inbox.owner_agent,
                inbox_id=inbox.inbox_id,
                thread_id=thread_id,
                pod_id=inbox.pod_id,
                snapshot={"label": label},
            )
