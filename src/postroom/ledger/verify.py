"""Is this log what was written? Replay it, and name the first bad entry and what was done to it.

Findings, in the words of the promise: `altered` (content changed), `missing` (a gap, or the start is
gone), `reordered` (an entry of this log in another's place), `repeated` (an entry stands twice),
`foreign` (an entry no writer of this log made), `cut` (the end is gone: a checkpoint or a witness saw
more), `rewritten` (whole and well-formed, but not what a checkpoint or a witness saw), `forged_checkpoint`.
An erased entry has no content any more; its hash and link are still checked.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from postroom.ledger.chain import GENESIS, Link, hash_canonical, next_link
from postroom.ledger.checkpoint import Checkpoint, is_genuine

Tampering: TypeAlias = Literal["altered", "missing", "reordered", "repeated", "foreign", "cut", "rewritten", "forged_checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One stored entry. `content` is its canonical form, None if it was erased."""

    seq: int
    content: bytes | None
    entry_hash: bytes
    link: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The first thing wrong: at which entry, of which kind, in words."""

    seq: int
    kind: Tampering
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome: `fault` None means the log is what was written, up to `size` entries with `head`."""

    size: int
    head: bytes
    fault: Fault | None = None


def verify(
    key: bytes,
    log_id: str,
    entries: Iterable[Entry],
    *,
    checkpoints: Sequence[Checkpoint] = (),
    signer: Ed25519PublicKey | None = None,
    witnesses: Sequence[Link] = (),
) -> Verdict:
    """Check `entries` in stored order against the chain, the signed heads, and what readers remember.

    A witness is a `Link` a receipt or a cursor holds; its `entry_hash` is not looked at.
    """
    rows = list(entries)
    size, head, links = 0, GENESIS, [GENESIS]
    for row in rows:
        fault = _entry_fault(key, log_id, row, rows, head, size + 1)
        if fault is not None:
            return Verdict(size=size, head=head, fault=fault)
        size, head = row.seq, row.link
        links.append(head)
    fault = _checkpoint_fault(log_id, checkpoints, signer, links) or _witness_fault(witnesses, links)
    return Verdict(size=size, head=head, fault=fault)


def _entry_fault(key: bytes, log_id: str, row: Entry, rows: Sequence[Entry], head: bytes, expected: int) -> Fault | None:
    fits = hmac.compare_digest(next_link(key, log_id, expected, head, row.entry_hash), row.link)
    if row.seq == expected and fits:
        if row.content is not None and hash_canonical(row.content) != row.entry_hash:
            return Fault(seq=expected, kind="altered", detail="the content is not what was linked here")
        return None
    return _name(key, log_id, row, rows, head, expected)


def _name(key: bytes, log_id: str, row: Entry, rows: Sequence[Entry], head: bytes, expected: int) -> Fault:
    """The link does not fit: find out what was done."""
    earlier = rows[: expected - 1]
    if any(known.link == row.link for known in earlier):
        return Fault(seq=expected, kind="repeated", detail="an earlier entry stands here again")
    later = rows[expected:]
    if any(_follows(key, log_id, candidate, head, expected) for candidate in later):
        return Fault(seq=expected, kind="reordered", detail="the entry that belongs here stands further on")
    if row.seq > expected:
        return Fault(seq=expected, kind="missing", detail=f"entries {expected} to {row.seq - 1} are gone")
    if row.content is not None and _follows(key, log_id, row, head, expected, hash_canonical(row.content)):
        return Fault(seq=expected, kind="altered", detail="the stored hash was changed")
    if later and _follows(key, log_id, later[0], row.link, expected + 1):
        return Fault(seq=expected, kind="altered", detail="the entry was changed; its successor still fits its link")
    return Fault(seq=expected, kind="foreign", detail="no entry of this log has this link")


def _follows(key: bytes, log_id: str, row: Entry, previous: bytes, seq: int, hashed: bytes | None = None) -> bool:
    return hmac.compare_digest(next_link(key, log_id, seq, previous, hashed or row.entry_hash), row.link)


def _checkpoint_fault(
    log_id: str, checkpoints: Sequence[Checkpoint], signer: Ed25519PublicKey | None, links: Sequence[bytes]
) -> Fault | None:
    before = bytes(32)
    for checkpoint in checkpoints:
        genuine = signer is not None and is_genuine(signer, checkpoint)
        if not genuine or checkpoint.log_id != log_id or checkpoint.previous != before:
            return Fault(seq=checkpoint.size, kind="forged_checkpoint", detail="a checkpoint is not one this house made in turn")
        before = checkpoint.hash
        fault = _seen(checkpoint.size, checkpoint.link, links, "a checkpoint")
        if fault is not None:
            return fault
    return None


def _witness_fault(witnesses: Sequence[Link], links: Sequence[bytes]) -> Fault | None:
    for witness in sorted(witnesses, key=lambda link: link.seq):
        fault = _seen(witness.seq, witness.link, links, "a reader")
        if fault is not None:
            return fault
    return None


def _seen(size: int, link: bytes, links: Sequence[bytes], who: str) -> Fault | None:
    if size >= len(links):
        return Fault(seq=len(links), kind="cut", detail=f"{who} saw {size} entries, {len(links) - 1} are here")
    if links[size] != link:
        return Fault(seq=size, kind="rewritten", detail=f"{who} saw another entry {size}")
    return None
