"""Is the log what was written? Replayed from its records, its signed heads and what readers remember.

Beside the chain itself this holds each row's columns against its canonical record, so that neither a
recipient nor a thread can be changed unseen to show a message to somebody else. The running check for
health goes on from where it last stood and looks at a bounded piece each time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, select

from postroom.clock import MICROS, Clock
from postroom.ledger.chain import GENESIS, Link, hash_canonical, next_link
from postroom.mailbox import log
from postroom.mailbox.folding import folded, may_change, target_of
from postroom.mailbox.log import LOG_ID
from postroom.mailbox.names import wrong
from postroom.mailbox.records import ERASED, MESSAGE, RETENTION, decoded, own_thread
from postroom.mailbox.tables import record as t
from postroom.store.engine import Reader, Store
from postroom.store.statement import sql

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from postroom.ledger.checkpoint import Checkpoint
    from postroom.ledger.verify import Entry, Verdict

PIECE: Final = 2000
CHECKPOINTS: Final = "mailbox.checkpoints"
_HEX: Final = frozenset("0123456789abcdef")

c = t.c
_ROWS = sql(
    select(c.seq, c.kind, c.at, c.sender, c.recipient, c.thread, c.target, c.idem, c.body, c.entry_hash, c.link, c.state)
    .where(c.seq > bindparam("after"))
    .order_by(c.seq)
    .limit(bindparam("count"))
)


class Integrity:
    """Checks the log, and signs its head now and then. `folder` None (a database in memory): no signed heads."""

    def __init__(self, store: Store, key: bytes, signing_key: bytes, folder: Path | None, clock: Clock) -> None:
        self._store = store
        self._key = key
        self._signing_key = signing_key
        self._path = folder / CHECKPOINTS if folder else None
        self._clock = clock
        self._last: Checkpoint | None = None
        self._signed_at = clock.now_us()
        self._place = Link(seq=0, entry_hash=b"", link=GENESIS)
        self._fault: str | None = None
        self._signing = asyncio.Lock()

    async def health(self) -> dict[str, Any]:
        """The running check: how far it has come, and the first thing wrong."""
        size = await self._store.read(self._step)
        return {"size": size, "checked": self._place.seq, "valid": self._fault is None, "fault": self._fault}

    async def verify(self, witnesses: Sequence[Link] = ()) -> Verdict:
        """The whole log, with every signed head and what a reader remembers. Needs time at a million records."""
        await self.sign()
        checkpoints = await asyncio.to_thread(signed_heads, self._path)
        signer = self._private().public_key()
        return await self._store.read(
            lambda reader: verify_log(reader, self._key, checkpoints=checkpoints, signer=signer, witnesses=witnesses)
        )

    async def sign(self, *, least: int = 1) -> None:
        """Sign the head when the log has grown by `least` records since the last time."""
        if self._path is None:
            return
        async with self._signing:
            head = self._store.read_now(log.head)
            last = self._last or await asyncio.to_thread(self._newest)
            self._last = last
            if head.seq - (last.size if last else 0) >= max(least, 1):
                self._last = await asyncio.to_thread(self._append, head)
                self._signed_at = self._clock.now_us()

    async def sign_when_due(self) -> None:
        """Every 256 records, or 60 s after news."""
        from postroom.ledger.checkpoint import EVERY_ENTRIES, EVERY_S

        late = self._clock.now_us() - self._signed_at >= EVERY_S * MICROS
        await self.sign(least=1 if late else EVERY_ENTRIES)

    def _step(self, reader: Reader) -> int:
        rows = reader.all(_ROWS, after=self._place.seq, count=PIECE) if self._fault is None else []
        for row in rows:
            seq, body, hashed, link = row[0], row[8], as_bytes(row[9]), as_bytes(row[10])
            sound = seq == self._place.seq + 1 and next_link(self._key, LOG_ID, seq, self._place.link, hashed) == link
            if not sound or (body is not None and hash_canonical(as_bytes(body)) != hashed) or mismatch(row):
                self._fault = f"record {self._place.seq + 1} is not what was written; run postroom data verify"
                break
            self._place = Link(seq=seq, entry_hash=hashed, link=link)
        return log.head(reader).seq

    def _append(self, head: Link) -> Checkpoint:
        from postroom.ledger.checkpoint import sign

        assert self._path is not None  # noqa: S101 - asked before
        made = sign(self._private(), log_id=LOG_ID, head=head, time=self._clock.now_us(), previous=self._last)
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", encoding="utf-8") as file:
            file.write(made.to_line() + "\n")
            file.flush()
            os.fsync(file.fileno())
        return made

    def _newest(self) -> Checkpoint | None:
        """The last signed head. A last line that a crash tore is no claim of anybody's, and is cut off."""
        if self._path is not None and self._path.exists():
            os.truncate(self._path, self._path.read_bytes().rfind(b"\n") + 1)
        found = signed_heads(self._path)
        return found[-1] if found else None

    def _private(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._signing_key)


def signed_heads(path: Path | None) -> list[Checkpoint]:
    """Every whole line of the file. Raises ValueError for one that is no checkpoint."""
    from postroom.ledger.checkpoint import from_line

    whole = path.read_bytes().rpartition(b"\n")[0] if path is not None and path.exists() else b""
    return [from_line(line) for line in whole.decode("utf-8", "replace").split("\n") if line]


def verify_log(
    reader: Reader,
    key: bytes,
    *,
    checkpoints: Sequence[Checkpoint],
    signer: Ed25519PublicKey | None,
    witnesses: Sequence[Link] = (),
) -> Verdict:
    """The whole log as it is stored, its columns too."""
    from postroom.ledger.verify import Fault, verify

    columns = _Columns()
    verdict = verify(key, LOG_ID, columns.entries(reader), checkpoints=checkpoints, signer=signer, witnesses=witnesses)
    chain, (seq, column) = verdict.fault, columns.wrong or (0, "")
    # A state that lacks its record is the chain's fault to name, if it has one.
    if column and (chain is None or (seq <= chain.seq and column != "state")):
        fault = Fault(seq=seq, kind="altered", detail=f"the column {column} does not say what the record says")
        return replace(verdict, fault=fault)
    return verdict


def witness_of(text: str) -> Link:
    """What a receipt or a cursor showed: `SEQ:LINK`. Raises `Invalid` for another form."""
    number, _, link = text.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= 15 and len(link) == 64 and set(link) <= _HEX):
        raise wrong("witness", "a witness is SEQ:LINK, as a receipt or a cursor showed them")
    return Link(seq=int(number), entry_hash=b"", link=bytes.fromhex(link))


def mismatch(row: Sequence[Any]) -> str | None:
    """The first column that does not say what the record says."""
    seq, kind, at, sender, recipient, thread, target, idem, body, *_ = row
    if body is None:
        return None if kind == ERASED else "body"
    says = decoded(as_bytes(body))
    about = target_of(says)
    expected = {
        "kind": says.get("kind"),
        "at": says.get("at"),
        "sender": says.get("from"),
        "idem": says.get("key"),
        "target": about,
    }
    found = {"kind": kind, "at": at, "sender": sender, "idem": idem, "target": target}
    if kind == MESSAGE:
        expected |= {"recipient": says.get("to"), "thread": says.get("thread") or own_thread(seq)}
        found |= {"recipient": recipient, "thread": thread}
    elif about is None:
        expected["recipient"], found["recipient"] = None, recipient
    return next((name for name in expected if expected[name] != found[name]), None)


def as_bytes(value: Any) -> bytes:
    """A column's bytes, also where a foreign hand left text."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


class _Columns:
    """Follows the records as they are verified, and holds what stands beside them against what they say."""

    def __init__(self) -> None:
        self.wrong: tuple[int, str] | None = None
        self._authors: dict[int, str] = {}  # of messages that are not erased
        self._expected: dict[int, dict[str, Any]] = {}
        self._stored: dict[int, dict[str, Any]] = {}
        self._erased = self._through = 0

    def entries(self, reader: Reader) -> Iterator[Entry]:
        """Every record in stored order."""
        from postroom.ledger.verify import Entry

        after = -(2**62)
        while rows := reader.all(_ROWS, after=after, count=PIECE):
            for row in rows:
                self._look(row)
                body = None if row[8] is None else as_bytes(row[8])
                yield Entry(seq=row[0], content=body, entry_hash=as_bytes(row[9]), link=as_bytes(row[10]))
            after = rows[-1][0]
        self._end()

    def _look(self, row: Sequence[Any]) -> None:
        try:
            column = mismatch(row)
            self._note(row)
        except (ValueError, TypeError, AttributeError, KeyError):
            return  # a record that cannot be read is not what was linked; the chain says so
        if column and self.wrong is None:
            self.wrong = row[0], column

    def _note(self, row: Sequence[Any]) -> None:
        seq, kind, body, state = row[0], row[1], row[8], row[11]
        if body is None:
            self._erased = max(self._erased, seq)
            return
        says = decoded(as_bytes(body))
        if kind == MESSAGE:
            self._authors[seq] = says["from"]
            if state is not None:
                self._stored[seq] = decoded(state.encode())
        elif kind == RETENTION:
            self._through = max(self._through, says["through"])
        elif (about := target_of(says)) in self._authors and may_change(self._authors[about], says):
            self._expected[about] = folded(self._expected.get(about, {}), says)

    def _end(self) -> None:
        """Once everything was read: states nobody wrote, and content that no retention took."""
        for seq in sorted({*self._expected, *self._stored}):
            if self.wrong is None and self._expected.get(seq) != self._stored.get(seq):
                self.wrong = seq, "state"
        if self.wrong is None and self._erased > self._through:
            self.wrong = self._erased, "body"
