"""Are the records of the house what was written? Read without the daemon, and beside a running one.

Each chain is replayed with its signed heads (`ledger.verify`). Beside the audit, every outgoing mail must
stand as its last entry says: a recipient or a digest changed in the table alone is named too. Beside the
mailbox's log, its columns (`mailbox.integrity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import bindparam, select

from postroom.access.tables import house_secret
from postroom.app.house import AUDIT_SECRET, CHECKPOINT_SECRET, MAILBOX_SECRET
from postroom.errors import NotFound, StorageFailure
from postroom.gate.audit import LOG_ID as AUDIT
from postroom.gate.audit import entries
from postroom.gate.checkpoints import FILE, read_checkpoints
from postroom.gate.tables import outgoing
from postroom.ledger.chain import Link
from postroom.ledger.verify import Entry, Fault, verify
from postroom.mailbox.integrity import CHECKPOINTS, as_bytes, signed_heads, verify_log, witness_of
from postroom.mailbox.log import LOG_ID as MAILBOX
from postroom.store.engine import dialect_of
from postroom.store.statement import sql
from postroom.store.transaction import Reader

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_SECRET = sql(select(house_secret.c.value).where(house_secret.c.name == bindparam("name")))
_STANDS = ("state", "digest", "message_id", "mail_from", "rcpt_to")
_OUTGOING = sql(select(outgoing.c.outgoing_id, *(outgoing.c[name] for name in _STANDS)).order_by(outgoing.c.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in one record. `kind` is empty when all is well; else what was done, from entry `seq` on."""

    log: str
    entries: int = 0
    checkpoints: int = 0
    kind: str = ""
    seq: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """A consistent view of one house, and its keys."""

    reader: Reader
    folder: Path
    signer: Ed25519PublicKey | None = field(repr=False)

    def secret(self, name: str) -> bytes:
        """A key of the house; one that nothing was made with where there is none."""
        return bytes(self.reader.scalar(_SECRET, name=name) or b"")


def verify_folder(folder: Path, *, url: str = "", witnesses: Sequence[str] = ()) -> list[Report]:
    """Every record of the house in `folder`, or behind `url` with the signed heads in `folder`.

    `witnesses` are `SEQ:LINK` of the mailbox's log, as receipts and cursors showed them. Raises `NotFound` where
    there is no house, `StorageFailure` where it cannot be read.
    """
    seen = [witness_of(text) for text in witnesses]
    if not url and not (folder / "postroom.db").exists():
        raise NotFound(f"there is no data in {folder}", fix="name the data folder with --data or POSTROOM_DATA")
    dialect = dialect_of(folder, url)
    try:
        connection = dialect.connect(writes=False)
    except Exception as problem:
        raise StorageFailure(
            f"the database cannot be read ({problem})", fix="check store.url, and that its server runs"
        ) from problem
    try:
        connection.execute("BEGIN")
        if not dialect.has_table(connection, house_secret.name):
            raise NotFound("there is no house in this database", fix="check store.url")
        reader = Reader(connection, dialect)
        records = _Records(reader=reader, folder=folder, signer=_signer(reader))
        return [_audit(records), _mailbox(records, seen)]
    finally:
        connection.close()


def _signer(reader: Reader) -> Ed25519PublicKey | None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = reader.scalar(_SECRET, name=CHECKPOINT_SECRET)
    return None if seed is None else Ed25519PrivateKey.from_private_bytes(bytes(seed)).public_key()


def _audit(records: _Records) -> Report:
    stored = [
        Entry(seq=link.seq, content=as_bytes(body), entry_hash=as_bytes(link.entry_hash), link=as_bytes(link.link))
        for link, body in entries(records.reader)
    ]
    try:
        signed = read_checkpoints(records.folder / FILE)
    except ValueError as problem:
        return Report(log=AUDIT, entries=len(stored), kind="forged_checkpoint", detail=str(problem))
    verdict = verify(records.secret(AUDIT_SECRET), AUDIT, stored, checkpoints=signed, signer=records.signer)
    fault = verdict.fault or _table_fault(records.reader, stored)
    return _report(AUDIT, len(stored), len(signed), fault)


def _mailbox(records: _Records, witnesses: Sequence[Link]) -> Report:
    try:
        signed = signed_heads(records.folder / CHECKPOINTS)
    except ValueError:
        return Report(log=MAILBOX, kind="forged_checkpoint", detail=f"{CHECKPOINTS} holds a line that is no checkpoint")
    key = records.secret(MAILBOX_SECRET)
    verdict = verify_log(records.reader, key, checkpoints=signed, signer=records.signer, witnesses=witnesses)
    return _report(MAILBOX, verdict.size, len(signed), verdict.fault)


def _report(log: str, count: int, signed: int, fault: Fault | None) -> Report:
    if fault is None:
        return Report(log=log, entries=count, checkpoints=signed)
    return Report(log=log, entries=count, checkpoints=signed, kind=fault.kind, seq=fault.seq, detail=fault.detail)


def _table_fault(reader: Reader, stored: list[Entry]) -> Fault | None:
    """The table of outgoing mail against the last entry about each."""
    last: dict[str, tuple[int, dict[str, Any]]] = {}
    for entry in stored:
        if entry.content is not None:
            said = msgspec.json.decode(entry.content)
            last[said["outgoing_id"]] = (entry.seq, said)
    for outgoing_id, *values in reader.all(_OUTGOING):
        row = dict(zip(_STANDS, values, strict=True))
        row["rcpt_to"] = msgspec.json.decode(row["rcpt_to"])
        seq, said = last.pop(outgoing_id, (0, {}))
        changed = [name for name in _STANDS if said.get(name) != row[name]]
        if changed:
            detail = f"{outgoing_id} has another {', '.join(changed)} than its last entry says"
            return Fault(seq=seq, kind="altered", detail=detail)
    for outgoing_id, (seq, _) in last.items():
        return Fault(seq=seq, kind="missing", detail=f"{outgoing_id} is gone from the table")
    return None
