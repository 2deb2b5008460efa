"""The chain: why a log that was changed afterwards can be told from one that was not.

Each entry has two values beside it. Its *hash* is a plain SHA-256 over a zero byte and its canonical
form: anyone can recompute it, and it stays when the content is erased, so a person's right to erase
does not break the log. Its *link* is an HMAC, under a key only this house has, over the log's id, the
entry's place, the link before it, and the hash:

    hash(n) = SHA-256(0x00 ‖ canonical entry n)
    link(n) = HMAC-SHA-256(key, log id ‖ n ‖ link(n - 1) ‖ hash(n))      each part framed by its length
    link(0) = 32 zero bytes, before the first entry

A changed entry has another hash. A removed, swapped, repeated or foreign entry has another place,
predecessor or log, so its link does not fit, and without the key no fitting one can be made. What a
chain alone cannot see is a missing end: a log cut at n is a whole chain up to n. For that its head is
signed at intervals (`ledger.checkpoint`), and every receipt and cursor holds the size and link it saw:
each reader is a witness, and that is the only thing that catches a log and its checkpoints rolled back
together. Whoever holds the house's keys and all the witnesses can rewrite history; nothing here says
otherwise.

The zero byte separates leaves from inner nodes (RFC 9162), so a Merkle tree over the same hashes can
be added without touching what is stored.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from postroom.ledger.canonical import canonical

GENESIS = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What stands beside entry `seq` (from 1 on). As a head, `seq` is the log's size."""

    seq: int
    entry_hash: bytes
    link: bytes


def entry_hash(entry: Any) -> bytes:
    """The hash of one entry's canonical form."""
    return hash_canonical(canonical(entry))


def hash_canonical(entry: bytes) -> bytes:
    """The hash of an entry already in canonical form."""
    return hashlib.sha256(b"\x00" + entry).digest()


def next_link(key: bytes, log_id: str, seq: int, previous: bytes, hashed: bytes) -> bytes:
    """The link of entry `seq` after `previous`."""
    name = log_id.encode()
    framed = len(name).to_bytes(4, "big") + name + seq.to_bytes(8, "big") + previous + hashed
    return hmac.digest(key, framed, "sha256")


def extend(key: bytes, log_id: str, head: Link | None, entry: bytes) -> Link:
    """The link of the next entry, given in canonical form. `head` None starts the log."""
    seq = 1 if head is None else head.seq + 1
    previous = GENESIS if head is None else head.link
    hashed = hash_canonical(entry)
    return Link(seq=seq, entry_hash=hashed, link=next_link(key, log_id, seq, previous, hashed))
