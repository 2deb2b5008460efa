"""Every way to tamper with the log, and what verifying calls it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from postroom.errors import Invalid
from postroom.ledger.canonical import canonical
from postroom.mailbox.integrity import CHECKPOINTS
from postroom.mailbox.log import entry_of
from postroom.store.statement import sql

from .conftest import ALICE, BOB, Box

BODY = '{{"at":1,"from":"alice","kind":"message","text":"{0}","to":"bob"}}'


async def fill(box: Box) -> None:
    for number in range(10):
        await box.send(f"n{number}", thread="t", priority="high", key=f"k{number}")
    await box.room.edit(ALICE, 3, "edited")
    await box.room.acknowledge(BOB, 5)


async def run(box: Box, *statements: str, **params: Any) -> None:
    for statement in statements:
        await box.store.write(lambda tx, statement=statement: tx.run(sql(text(statement)), **params))


async def fault(box: Box, *witnesses: str) -> str | None:
    found = (await box.room.verify(witnesses)).fault
    return found.kind if found else None


async def test_what_was_written_verifies(box: Box):
    await fill(box)
    verdict = await box.room.verify()
    assert (verdict.size, verdict.fault) == (12, None)
    assert (await box.room.integrity.health())["valid"] is True


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE mailbox_record SET body = :other WHERE seq = 5", "altered"),
        ("UPDATE mailbox_record SET recipient = 'carol' WHERE seq = 5", "altered"),
        ("UPDATE mailbox_record SET sender = 'carol' WHERE seq = 5", "altered"),
        ("UPDATE mailbox_record SET thread = 'other' WHERE seq = 5", "altered"),
        ("UPDATE mailbox_record SET idem = 'other' WHERE seq = 5", "altered"),
        ("UPDATE mailbox_record SET at = 1 WHERE seq = 5", "altered"),
        ("UPDATE mailbox_record SET kind = 'edit' WHERE seq = 5", "altered"),
        ('UPDATE mailbox_record SET state = \'{"text":"forged"}\' WHERE seq = 5', "altered"),
        ("UPDATE mailbox_record SET state = NULL WHERE seq = 3", "altered"),
        ("UPDATE mailbox_record SET kind = 'erased', body = NULL, recipient = NULL WHERE seq = 5", "altered"),
        ("DELETE FROM mailbox_record WHERE seq = 5", "missing"),
        ("DELETE FROM mailbox_record WHERE seq <= 5", "missing"),
        ("UPDATE mailbox_record SET seq = seq + 100 WHERE seq = 5", "reordered"),
        ("UPDATE mailbox_record SET link = :link WHERE seq = 5", "altered"),
    ],
)
async def test_b54_tampering_is_found_and_named(box: Box, statement: str, kind: str):
    await fill(box)
    body: bytes = box.store.read_now(lambda reader: reader.scalar(sql(text("SELECT body FROM mailbox_record WHERE seq = 5"))))
    await run(box, statement, other=bytes(body).replace(b"n4", b"n5"), link=bytes(32))
    assert await fault(box) == kind


@pytest.mark.parametrize(
    "field", ["thread", "reply_to", "priority", "mentions", "attachments", "key", "fingerprint", "from", "to", "at"]
)
async def test_b54_each_field_of_a_record_is_covered(box: Box, field: str):
    await box.send("first")
    files = [{"content": "aGVsbG8=", "name": "a.txt", "mediaType": "text/plain"}]
    await box.send("see @carol", reply_to=1, priority="high", attachments=files, key="k")
    says = json.loads(
        box.store.read_now(lambda reader: reader.scalar(sql(text("SELECT body FROM mailbox_record WHERE seq = 2"))))
    )
    assert says.pop(field)
    await run(box, "UPDATE mailbox_record SET body = :other WHERE seq = 2", other=canonical(says))
    assert await fault(box) == "altered"


async def test_b54_records_that_changed_places_are_found(box: Box):
    await fill(box)
    moves = ["seq = -1 WHERE seq = 5", "seq = 5 WHERE seq = 6", "seq = 6 WHERE seq = -1"]
    await run(box, *(f"UPDATE mailbox_record SET {move}" for move in moves))
    assert await fault(box) == "reordered"


async def test_b54_a_cut_end_shows_by_the_signed_head_and_a_rollback_by_a_reader(box: Box):
    await fill(box)
    witness = await box.read(since=0)
    await box.room.integrity.sign()
    await run(box, "DELETE FROM mailbox_record WHERE seq > 11")
    assert await fault(box) == "cut"
    (box.folder / CHECKPOINTS).unlink()  # rolled back together with the database
    assert await fault(box) is None
    assert await fault(box, f"{witness.cursor}:{witness.link}") == "cut"


async def test_b54_an_emptied_log_shows(box: Box):
    await fill(box)
    await box.room.integrity.sign()
    await run(box, "DELETE FROM mailbox_record")
    assert await fault(box) == "cut"


async def test_a_forged_signed_head_shows_and_a_torn_line_is_no_claim(box: Box):
    await fill(box)
    await box.room.integrity.sign()
    path = box.folder / CHECKPOINTS
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    assert await fault(box) is None
    path.write_text(whole.replace('"size":12', '"size":11'))
    assert await fault(box) == "forged_checkpoint"


async def test_b45_the_running_check_goes_on_where_it_stood_and_keeps_what_it_found(box: Box):
    await fill(box)
    assert (await box.room.integrity.health())["checked"] == 12
    await box.send("one more")
    await run(box, "UPDATE mailbox_record SET link = :link WHERE seq = 13", link=bytes(32))
    health = await box.room.integrity.health()
    assert (health["valid"], health["checked"], health["size"]) == (False, 12, 13)


@pytest.mark.parametrize("witness", ["", "1", "1:zz", "x:" + "0" * 64, "1:" + "0" * 63])
async def test_an_odd_witness_is_refused(box: Box, witness: str):
    with pytest.raises(Invalid):
        await box.room.verify([witness])


@pytest.mark.parametrize("change", ["edit", "withdraw"])
async def test_b30_a_change_forged_into_the_database_changes_nothing_unseen(box: Box, change: str):
    await fill(box)
    forge: Callable[[], Awaitable[None]] = lambda: run(  # noqa: E731
        box,
        "INSERT INTO mailbox_record(seq, pod, at, kind, sender, recipient, target, body, entry_hash, link) "
        "SELECT 13, pod, at, :kind, 'bob', 'bob', 5, :body, entry_hash, link FROM mailbox_record WHERE seq = 12",
        kind=change,
        body=b'{"at":1,"from":"bob","kind":"edit","edits":5,"text":"forged"}',
    )
    await forge()
    assert "n4" in await box.texts(since=0)
    assert await fault(box) == "altered"


JSON = st.recursive(
    st.none() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), JSON, max_size=5))
def test_a_records_bytes_are_its_canonical_form(value: dict[str, Any]):
    content = {
        "kind": "message",
        "at": 1,
        "from": "a",
        **{f"x_{name}": each for name, each in value.items() if each not in (None, [])},
    }
    assert entry_of(content, recipient="b").body == canonical(content)
