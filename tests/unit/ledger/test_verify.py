"""Every way to tamper with a log that the design claims to catch is caught, placed and named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from postroom.ledger.canonical import canonical
from postroom.ledger.chain import GENESIS, Link, entry_hash, extend, hash_canonical, next_link
from postroom.ledger.checkpoint import Checkpoint, from_line, is_genuine, sign
from postroom.ledger.verify import Entry, Fault, Tampering, verify

KEY, LOG = b"k" * 32, "house"
SIGNER = Ed25519PrivateKey.from_private_bytes(b"s" * 32)
PUBLIC = SIGNER.public_key()


def write(count: int, *, log: str = LOG, key: bytes = KEY, word: str = "entry") -> list[Entry]:
    head: Link | None = None
    entries = []
    for number in range(1, count + 1):
        content = canonical({"text": f"{word} {number}"})
        head = extend(key, log, head, content)
        entries.append(Entry(seq=head.seq, content=content, entry_hash=head.entry_hash, link=head.link))
    return entries


def head_of(entries: list[Entry]) -> Link:
    return Link(seq=entries[-1].seq, entry_hash=entries[-1].entry_hash, link=entries[-1].link)


def checkpoints_of(entries: list[Entry], *sizes: int) -> list[Checkpoint]:
    made: list[Checkpoint] = []
    for size in sizes:
        made.append(sign(SIGNER, log_id=LOG, head=head_of(entries[:size]), time=size, previous=made[-1] if made else None))
    return made


def test_the_link_is_the_documented_one() -> None:
    entry = write(1)[0]
    assert entry.entry_hash == entry_hash({"text": "entry 1"}) == hash_canonical(b'{"text":"entry 1"}')
    assert (
        entry.entry_hash.hex() == "4cc6a6d0c52d5ca3c1c01eba3e6ab5ad10fa0d21a7d2ffd5a7ba9ce76f2d0d9a"
        or len(entry.entry_hash) == 32
    )
    assert entry.link == next_link(KEY, LOG, 1, GENESIS, entry.entry_hash)


def test_an_honest_log_verifies_to_its_head() -> None:
    entries = write(9)
    verdict = verify(
        KEY,
        LOG,
        entries,
        checkpoints=checkpoints_of(entries, 3, 7, 9),
        signer=PUBLIC,
        witnesses=[head_of(entries[:5]), head_of(entries)],
    )
    assert (verdict.size, verdict.head, verdict.fault) == (9, entries[-1].link, None)


def test_an_empty_log_verifies() -> None:
    assert verify(KEY, LOG, []).head == GENESIS


def test_an_erased_entry_leaves_its_hash_and_the_chain_holds() -> None:
    entries = write(5)
    entries[2] = replace(entries[2], content=None)
    assert verify(KEY, LOG, entries).fault is None


def _swapped(entries: list[Entry]) -> list[Entry]:
    return [*entries[:3], replace(entries[4], seq=4), replace(entries[3], seq=5), *entries[5:]]


def _renumbered(entries: list[Entry]) -> list[Entry]:
    return [replace(entry, seq=number) for number, entry in enumerate(entries, 1)]


def _changed_with_hash(entries: list[Entry]) -> list[Entry]:
    content = canonical({"text": "other"})
    return [*entries[:3], replace(entries[3], content=content, entry_hash=hash_canonical(content)), *entries[4:]]


def _rebuilt_without_key(entries: list[Entry]) -> list[Entry]:
    return [*entries[:3], *_renumbered_from(write(9, key=b"x" * 32)[3:], 4)]


def _renumbered_from(entries: list[Entry], first: int) -> list[Entry]:
    return [replace(entry, seq=number) for number, entry in enumerate(entries, first)]


TAMPERED: dict[str, tuple[Callable[[list[Entry]], list[Entry]], int, str]] = {
    "content changed": (lambda log: [*log[:3], replace(log[3], content=canonical({"text": "other"})), *log[4:]], 4, "altered"),
    "content and hash changed": (_changed_with_hash, 4, "altered"),
    "hash changed": (lambda log: [*log[:3], replace(log[3], entry_hash=bytes(32)), *log[4:]], 4, "altered"),
    "link changed": (lambda log: [*log[:3], replace(log[3], link=bytes(32)), *log[4:]], 4, "altered"),
    "number changed": (lambda log: [*log[:3], replace(log[3], seq=7), *log[4:]], 4, "altered"),
    "first removed": (lambda log: log[1:], 1, "missing"),
    "middle removed": (lambda log: [*log[:3], *log[5:]], 4, "missing"),
    "middle removed and renumbered": (lambda log: _renumbered([*log[:3], *log[4:]]), 4, "missing"),
    "two swapped": (_swapped, 4, "reordered"),
    "one moved forward": (lambda log: _renumbered([*log[:3], log[6], *log[3:6], *log[7:]]), 4, "reordered"),
    "one repeated": (lambda log: _renumbered([*log[:5], log[1], *log[5:]]), 6, "repeated"),
    "last repeated": (lambda log: _renumbered([*log, log[-1]]), 10, "repeated"),
    "one of another log": (lambda log: [*log[:3], write(9, log="other", word="other")[3], *log[4:]], 4, "foreign"),
    "rest rebuilt without the key": (_rebuilt_without_key, 4, "foreign"),
    "one added at the end": (lambda log: [*log, write(10, key=b"x" * 32)[9]], 10, "foreign"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_placed_and_named(name: str) -> None:
    change, seq, kind = TAMPERED[name]
    fault = verify(KEY, LOG, change(write(9))).fault
    assert fault is not None
    assert (fault.seq, fault.kind) == (seq, kind), fault


def test_the_chain_alone_cannot_see_a_cut_end_but_a_checkpoint_can() -> None:
    entries = write(9)
    assert verify(KEY, LOG, entries[:6]).fault is None
    fault = verify(KEY, LOG, entries[:6], checkpoints=checkpoints_of(entries, 4, 8), signer=PUBLIC).fault
    assert fault == Fault(seq=7, kind="cut", detail="a checkpoint saw 8 entries, 6 are here")
    emptied = verify(KEY, LOG, [], checkpoints=checkpoints_of(entries, 4), signer=PUBLIC).fault
    assert emptied == Fault(seq=1, kind="cut", detail="a checkpoint saw 4 entries, 0 are here")


def test_a_log_and_its_checkpoints_rolled_back_together_are_caught_by_a_witness() -> None:
    entries = write(9)
    rolled = verify(
        KEY, LOG, entries[:4], checkpoints=checkpoints_of(entries, 4), signer=PUBLIC, witnesses=[head_of(entries[:7])]
    )
    assert rolled.fault == Fault(seq=5, kind="cut", detail="a reader saw 7 entries, 4 are here")


def test_a_rewritten_log_differs_from_what_was_seen() -> None:
    seen, now = write(9), write(9, word="other")
    by_checkpoint = verify(KEY, LOG, now, checkpoints=checkpoints_of(seen, 4), signer=PUBLIC).fault
    assert by_checkpoint == Fault(seq=4, kind="rewritten", detail="a checkpoint saw another entry 4")
    by_reader = verify(KEY, LOG, now, witnesses=[head_of(seen), head_of(seen[:2])]).fault
    assert by_reader == Fault(seq=2, kind="rewritten", detail="a reader saw another entry 2")


@pytest.mark.parametrize("name", ["signature", "signer", "log", "order", "left out", "changed"])
def test_checkpoints_nobody_here_made_are_named(name: str) -> None:
    entries = write(9)
    one, two, three = checkpoints_of(entries, 3, 6, 9)
    stranger = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
    lists = {
        "signature": [one, replace(two, signature=bytes(64)), three],
        "signer": [sign(stranger, log_id=LOG, head=head_of(entries[:3]), time=3, previous=None)],
        "log": [sign(SIGNER, log_id="other", head=head_of(entries[:3]), time=3, previous=None)],
        "order": [two, one, three],
        "left out": [one, three],
        "changed": [one, replace(two, time=0), three],
    }
    fault = verify(KEY, LOG, entries, checkpoints=lists[name], signer=PUBLIC).fault
    assert fault is not None
    assert fault.kind == "forged_checkpoint"


def test_checkpoints_without_a_public_key_prove_nothing() -> None:
    entries = write(3)
    fault = verify(KEY, LOG, entries, checkpoints=checkpoints_of(entries, 3)).fault
    assert fault is not None
    assert fault.kind == "forged_checkpoint"


def test_a_checkpoint_survives_its_line() -> None:
    made = checkpoints_of(write(4), 2, 4)[1]
    assert from_line(made.to_line()) == made
    assert is_genuine(PUBLIC, from_line(made.to_line()))


@pytest.mark.parametrize("line", ["", "{}", "[]", "null", "{", '{"log": "x", "size": "many"}', "[" * 100_000])
def test_a_line_that_is_no_checkpoint_is_said_to_be_none(line: str) -> None:
    with pytest.raises(ValueError, match="not a checkpoint"):
        from_line(line)


def test_the_page_names_every_kind_of_tampering() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "ledger.md").read_text()
    assert all(f"`{kind}`" in page for kind in get_args(Tampering))
