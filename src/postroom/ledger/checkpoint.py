"""A checkpoint: the log's head, signed, so that a cut end shows.

`{log, size, link, time, previous}`, canonical, under the house's Ed25519 key. `previous` is the hash of
the checkpoint before it, so checkpoints form a chain of their own. Whoever writes them (every 256
entries, every 60 s with news, at shutdown) appends them to a file beside the database; this module only
makes and checks them. Anyone with the public key can check one; it cannot be made without the private.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from postroom.ledger.canonical import canonical
from postroom.ledger.chain import Link

EVERY_ENTRIES = 256
EVERY_S = 60.0
_TAG = b"postroom-checkpoint-1\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A signed head: after `size` entries the link was `link`. `time` is in microseconds UTC."""

    log_id: str
    size: int
    link: bytes
    time: int
    previous: bytes
    signature: bytes

    @property
    def hash(self) -> bytes:
        """What the next checkpoint names as its `previous`."""
        return hashlib.sha256(_signed_bytes(self) + self.signature).digest()

    def to_line(self) -> str:
        """One line of the checkpoint file."""
        return canonical(_fields(self) | {"signature": self.signature.hex()}).decode()


def sign(key: Ed25519PrivateKey, *, log_id: str, head: Link, time: int, previous: Checkpoint | None) -> Checkpoint:
    """Sign `head` as it is at `time`."""
    before = previous.hash if previous is not None else bytes(32)
    unsigned = Checkpoint(log_id=log_id, size=head.seq, link=head.link, time=time, previous=before, signature=b"")
    return Checkpoint(
        log_id=log_id, size=head.seq, link=head.link, time=time, previous=before, signature=key.sign(_signed_bytes(unsigned))
    )


def is_genuine(key: Ed25519PublicKey, checkpoint: Checkpoint) -> bool:
    """Was it signed by this house?"""
    try:
        key.verify(checkpoint.signature, _signed_bytes(checkpoint))
    except InvalidSignature:
        return False
    return True


def from_line(line: str) -> Checkpoint:
    """Read one line of the checkpoint file. Raises ValueError if it is not one."""
    try:
        fields = json.loads(line)
        return Checkpoint(
            log_id=str(fields["log"]),
            size=int(fields["size"]),
            link=bytes.fromhex(fields["link"]),
            time=int(fields["time"]),
            previous=bytes.fromhex(fields["previous"]),
            signature=bytes.fromhex(fields["signature"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as problem:
        raise ValueError("not a checkpoint") from problem


def _fields(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "log": checkpoint.log_id,
        "size": checkpoint.size,
        "link": checkpoint.link.hex(),
        "time": checkpoint.time,
        "previous": checkpoint.previous.hex(),
    }


def _signed_bytes(checkpoint: Checkpoint) -> bytes:
    return _TAG + canonical(_fields(checkpoint))
