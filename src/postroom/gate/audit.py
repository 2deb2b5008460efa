"""The audit of everything that wanted to leave: append only, chained, in the same commit as the move.

An entry names who did what to which mail and by which digest, never a body. `ledger.chain` says what
the chain proves and what it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import bindparam, insert, select

from postroom.gate.rows import Row
from postroom.gate.tables import gate_audit as t
from postroom.ledger.canonical import canonical
from postroom.ledger.chain import Link, extend
from postroom.store.engine import Reader, Tx
from postroom.store.statement import sql

LOG_ID = "gate-audit"

_COLUMNS = ("pod", "seq", "outgoing_id", "body", "entry_hash", "link")
_INSERT = sql(insert(t).values({name: bindparam(name) for name in _COLUMNS}))
_HEAD = sql(select(t.c.seq, t.c.entry_hash, t.c.link).order_by(t.c.seq.desc()).limit(1))
_ALL = sql(select(t.c.seq, t.c.body, t.c.entry_hash, t.c.link).order_by(t.c.seq))
_OF = sql(select(t.c.body).where(t.c.outgoing_id == bindparam("outgoing_id")).order_by(t.c.seq))


class Audit:
    """The chain under one key of this house."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def append(self, tx: Tx, row: Row, *, actor: str, verb: str, at: int, receipt: Sequence[str] = ()) -> None:
        """One entry about `row` as it is now. `receipt`: whom the wire says it gave the mail to."""
        entry = {
            "at": at,
            "actor": actor,
            "verb": verb,
            "outgoing_id": row.outgoing_id,
            "agent": row.principal.label,
            "state": row.state.value,
            "digest": row.digest,
            "message_id": row.message_id,
            "mail_from": row.mail_from,
            "rcpt_to": row.rcpt_to,
            "reasons": row.reasons,
            "comment": row.comment,
            "detail": row.detail,
            "boundary": row.boundary,
            "receipt": sorted(receipt),
        }
        body = canonical(entry)
        link = extend(self._key, LOG_ID, head(tx), body)
        tx.insert(
            _INSERT,
            pod=row.pod,
            seq=link.seq,
            outgoing_id=row.outgoing_id,
            body=body,
            entry_hash=link.entry_hash,
            link=link.link,
        )


def entries(reader: Reader) -> Iterator[tuple[Link, bytes]]:
    """The whole chain from its start, each link with the canonical entry it stands for."""
    for seq, body, hashed, link in reader.all(_ALL):
        yield Link(seq=seq, entry_hash=hashed, link=link), body


def history(reader: Reader, outgoing_id: str) -> list[dict[str, Any]]:
    """What happened to one mail, oldest first."""
    return [msgspec.json.decode(body) for (body,) in reader.all(_OF, outgoing_id=outgoing_id)]


def head(reader: Reader) -> Link | None:
    """The newest link; None of an empty log."""
    found = reader.one(_HEAD)
    return None if found is None else Link(seq=found[0], entry_hash=found[1], link=found[2])
