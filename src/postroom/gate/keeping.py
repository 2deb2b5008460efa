"""The bytes of outgoing mail: kept from the submit on, let go in the very commit that makes them needless.

While a mail may still leave, all of it is kept: what was frozen is what a person approves. Once it left,
or failed, the mail as it went to the wire is kept as long as its record is; its attachments are in there.
After a no nothing can leave any more, and only what `outgoing` says of it stays: recipients, texts, names
and sizes of files, the digest. What is refused at submit is never kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, bindparam, delete, select

from postroom.gate.rows import Row
from postroom.gate.tables import outgoing_blob as t
from postroom.model.outgoing import State
from postroom.policy.states import FINAL
from postroom.store.blobs import Blobs
from postroom.store.engine import Tx
from postroom.store.statement import in_list, insert_or_ignore, sql

NO_BYTES = frozenset({State.REFUSED, State.EXPIRED})

_KEEP = insert_or_ignore(t, ("outgoing_id", "blob"))
_KEPT = sql(select(t.c.blob).where(t.c.outgoing_id == bindparam("outgoing_id")))
_DROP = sql(delete(t).where(and_(t.c.outgoing_id == bindparam("outgoing_id"), t.c.blob.in_(in_list("blobs")))))


def keep(tx: Tx, blobs: Blobs, outgoing_id: str, data: Sequence[tuple[str, bytes]]) -> None:
    """Keep these bytes, given with their SHA-256, for a mail."""
    for sha, content in data:
        blobs.link(tx, sha, content)
        tx.run(_KEEP, outgoing_id=outgoing_id, blob=sha)


def let_go(tx: Tx, blobs: Blobs, row: Row) -> None:
    """Let go of what a mail in this state needs no more."""
    if row.state not in FINAL:
        return
    needed = set() if row.state in NO_BYTES else {row.raw_sha}
    gone = [sha for (sha,) in tx.all(_KEPT, outgoing_id=row.outgoing_id) if sha not in needed]
    if gone:
        tx.run(_DROP, outgoing_id=row.outgoing_id, blobs=gone)
        blobs.release(tx, gone)
