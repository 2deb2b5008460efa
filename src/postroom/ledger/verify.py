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
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from postroom.ledger.chain import GENESIS, Link, hash_canonical, next_link
from postroom.ledger.checkpoint import Checkpoint, is_genuine

Tampering: TypeAlias = Literal["altered", "missing", "reordered", "repeated", "foreign", "cut", "rewritten", "forged_checkpoint"]

_FOREIGN: Final[tuple[Tampering, str]] = ("foreign", "no entry of this log has this link")
_LONGEST_GAP: Final = 10_000  # removed and renumbered entries a gap is recognised over


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
    links = [GENESIS]
    rows = iter(entries)  # read once: what follows a fault is looked at only to name it
    for row in rows:
        place = _Place(key=key, log_id=log_id, seq=len(links), previous=links[-1])
        fault = _entry_fault(place, row, links, rows)
        if fault is not None:
            return Verdict(size=place.seq - 1, head=place.previous, fault=fault)
        links.append(row.link)
    fault = _checkpoint_fault(log_id, checkpoints, signer, links) or _witness_fault(witnesses, links)
    return Verdict(size=len(links) - 1, head=links[-1], fault=fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the next entry belongs: its number and the link before it."""

    key: bytes
    log_id: str
    seq: int
    previous: bytes

    def link_of(self, hashed: bytes) -> bytes:
        """The link an entry with this hash has here."""
        return next_link(self.key, self.log_id, self.seq, self.previous, hashed)

    def fits(self, row: Entry, hashed: bytes | None = None) -> bool:
        """Is `row`'s link the one of this place, for its stored hash or the given one?"""
        return hmac.compare_digest(self.link_of(hashed or row.entry_hash), row.link)

    def after(self, link: bytes, gone: int = 0) -> _Place:
        """The next place after an entry with `link`, or one `gone` places further."""
        return replace(self, seq=self.seq + 1 + gone, previous=link)


def _entry_fault(place: _Place, row: Entry, links: Sequence[bytes], following: Iterable[Entry]) -> Fault | None:
    if row.seq != place.seq or not place.fits(row):
        kind, detail = _name(place, row, links, list(following))
        return Fault(seq=place.seq, kind=kind, detail=detail)
    if row.content is not None and hash_canonical(row.content) != row.entry_hash:
        return Fault(seq=place.seq, kind="altered", detail="the content is not what was linked here")
    return None


def _name(place: _Place, row: Entry, earlier: Sequence[bytes], later: Sequence[Entry]) -> tuple[Tampering, str]:
    """Number or link do not fit: find out what was done."""
    if row.link in earlier[1:]:
        return "repeated", "an earlier entry stands here again"
    if place.fits(row):
        return "altered", "the stored number was changed"
    if any(place.fits(candidate) for candidate in later):
        return "reordered", "the entry that belongs here stands further on"
    if row.seq > place.seq:
        return "missing", f"entries {place.seq} to {row.seq - 1} are gone"
    if row.content is not None and place.fits(row, hash_canonical(row.content)):
        return "altered", "the stored hash was changed"
    return _name_by_successor(place, row, later[0]) if later else _FOREIGN


def _name_by_successor(place: _Place, row: Entry, successor: Entry) -> tuple[Tampering, str]:
    """The entry after still has a link made when all was right: what does it remember?"""
    if place.after(place.link_of(row.entry_hash)).fits(successor):
        return "altered", "the stored link was changed"
    for gone in range(_LONGEST_GAP):
        if place.after(row.link, gone).fits(successor):
            return (
                ("missing", f"{gone} entries are gone and the rest renumbered")
                if gone
                else ("altered", "content and hash were changed")
            )
    return _FOREIGN


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
