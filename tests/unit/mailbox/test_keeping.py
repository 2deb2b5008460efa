"""Retention, the doorbell, import and export. Names B… are the reference's behaviours."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from pace import PATIENCE_S
from postroom.errors import Conflict
from postroom.mailbox.notify import Doorbell, Ring
from postroom.mailbox.transfer import Import, exported
from postroom.store.statement import sql

from .conftest import ALICE, BOB, OWNER, Box

LIVE = sql(text("SELECT count(*) FROM mailbox_record WHERE body IS NOT NULL"))
RING = Ring(sender="alice", to="bob", seq=1, thread="#1", priority="", text='"; rm -rf ~; # $(whoami)')


def live(box: Box) -> int:
    return box.store.read_now(lambda reader: reader.scalar(LIVE))


async def test_b55_over_the_count_the_oldest_go_with_a_record_of_it(make):
    box = make(max_records=20)
    for number in range(40):
        await box.send(f"n{number}")
    assert await box.room.sweep() == 24
    assert live(box) <= 20
    assert await box.texts(since=0) == [f"n{number}" for number in range(24, 40)]
    (line,) = [
        json.loads(line) for line in (b"".join([p async for p in exported(box.room)])).splitlines() if b'"retention"' in line
    ]
    assert (line["dropped"], line["through"]) == (24, 24)
    assert (await box.room.verify()).fault is None


async def test_b56_an_idle_reader_does_not_hold_retention_up_and_is_told_what_it_missed(make):
    box = make(max_records=100)
    for number in range(5):
        await box.send(f"n{number}")
    await box.read()
    await box.room.acknowledge(BOB, 5)
    for number in range(5, 400):
        await box.send(f"n{number}")
    await box.room.sweep()
    assert live(box) <= 130
    batch = await box.read()
    assert batch.missed == 400 - 5 - len(batch.messages)
    await box.room.acknowledge(BOB, batch.cursor)
    assert (await box.read()).missed == 0


async def test_retention_by_age(make):
    box = make(max_age_days=1)
    await box.send("old")
    box.clock.advance(86_401)
    await box.send("new")
    await box.room.sweep()
    assert await box.texts(since=0) == ["new"]
    assert await box.room.search(BOB, "old") == []


async def test_retention_by_size_takes_attachments_too(make):
    box = make(max_bytes=100_000)
    for number in range(5):
        await box.send(f"n{number}", attachments=[{"content": "QUFB" * (10_000 + number)}])
    await box.room.sweep()
    kept = (await box.read(since=0)).messages
    assert [message.text for message in kept] == ["n3", "n4"]
    assert box.store.read_now(lambda reader: reader.scalar(sql(text("SELECT count(*) FROM mailbox_attachment")))) == 2


async def test_b17_a_key_is_remembered_after_its_message_was_erased(make):
    box = make(max_records=5)
    await box.send("pay", key="k")
    for number in range(10):
        await box.send(f"n{number}")
    await box.room.sweep()
    assert (await box.send("pay", key="k")).deduplicated


async def test_retention_while_the_room_runs(make):
    box = make(max_records=10)
    running = asyncio.create_task(box.room.run())
    for number in range(30):
        await box.send(f"n{number}")
    async with asyncio.timeout(PATIENCE_S):
        while live(box) > 12:
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def script(folder: Path, body: str) -> list[str]:
    path = folder / "bell.py"
    path.write_text(f"import os, json, sys, time\nout = {str(folder / 'rung')!r}\n{body}\n")
    return [sys.executable, str(path)]


async def rung(folder: Path, command: list[str], *rings: Ring, **more: object) -> list[tuple[str, int]]:
    done: list[tuple[str, int]] = []
    bell = Doorbell(command, lambda name, seq: done.append((name, seq)), **more)
    for ring in rings:
        bell.ring(ring)
    running = asyncio.create_task(bell.run())
    async with asyncio.timeout(PATIENCE_S):
        while not bell.is_idle:
            await asyncio.sleep(0.01)
    running.cancel()
    return done


async def test_b57_the_text_arrives_as_data_and_the_environment_is_small(tmp_path: Path):
    command = script(tmp_path, "open(out, 'w').write(json.dumps(dict(os.environ)))")
    done = await rung(tmp_path, command, RING, environ={"PATH": "/bin", "SECRET": "x"})
    env = json.loads((tmp_path / "rung").read_text())
    assert (env["MAILBOX_TEXT"], env["MAILBOX_FROM"], env["MAILBOX_SEQ"]) == (RING.text, "alice", "1")
    assert "SECRET" not in env
    assert done == [("bob", 1)]


async def test_b57_a_missing_failing_or_hanging_command_costs_nothing(tmp_path: Path):
    assert await rung(tmp_path, [str(tmp_path / "absent")], RING) == []
    assert await rung(tmp_path, script(tmp_path, "sys.exit(3)"), RING) == []
    assert await rung(tmp_path, script(tmp_path, "time.sleep(60)"), RING, limit_s=0.2) == []


async def test_b57_many_messages_to_one_name_are_one_ring_with_their_count(tmp_path: Path):
    command = script(tmp_path, "open(out, 'a').write(os.environ['MAILBOX_SEQ'] + ' ' + os.environ['MAILBOX_COUNT'] + '\\n')")
    rings = [Ring(sender="a", to="bob", seq=seq, thread="", priority="", text="x\0y") for seq in range(1, 201)]
    assert await rung(tmp_path, command, *rings) == [("bob", 200)]
    assert (tmp_path / "rung").read_text() == "200 200\n"


async def test_b17_a_deduplicated_send_does_not_ring(make, tmp_path: Path):
    box = make(notify_command=tuple(script(tmp_path, "open(out, 'a').write(os.environ['MAILBOX_COUNT'])")))
    for _ in range(3):
        await box.send("x", key="k")
    running = asyncio.create_task(box.room.run())
    async with asyncio.timeout(PATIENCE_S):
        while (await box.room.message(ALICE, 1))[1]["state"] != "notified":
            await asyncio.sleep(0.01)
    running.cancel()
    assert (tmp_path / "rung").read_text() == "1"


OLD = [
    {"seq": 1, "at": 1, "kind": "message", "from": "claude", "to": "dsh", "mentions": [], "text": "first"},
    {"seq": 2, "at": 2, "kind": "message", "from": "dsh", "to": "claude", "thread": "1", "replyTo": 1, "text": "second"},
    {"seq": 3, "at": 3, "kind": "edit", "from": "claude", "edits": 1, "text": "first, edited", "sig": "0" * 64},
    {"seq": 4, "at": 4, "kind": "withdraw", "from": "mallory", "withdraws": 2},
    {"seq": 5, "at": 5, "kind": "message", "from": "claude", "to": "*", "thread": "news", "priority": "high", "text": "all"},
    {"seq": 5, "at": 6, "kind": "message", "from": "claude", "to": "dsh", "text": "the same number again"},
    {"seq": 6, "at": 7, "kind": "receipt", "from": "dsh", "upTo": 1},
    {"seq": 0, "at": 8, "kind": "compaction", "dropped": 3, "through": 0},
]


async def test_b3_b6_the_references_log_comes_in_once_and_bad_lines_and_doubled_numbers_are_reported(box: Box):
    content = "\n".join(json.dumps(entry) for entry in OLD).encode() + b'\n{"seq": 7, "kind": "mess'
    report = await Import(box.room, OWNER, "old").run(content)
    assert (report.messages, report.changes, report.receipts, report.skipped) == (3, 1, 1, 2)
    assert report.problems == ["line 6: number 5 was there before", "line 9: not a line of JSON (torn?)"]
    dsh = (await box.read(by=OWNER, reader="dsh", since=0)).messages
    assert [(m.text, m.thread, m.priority) for m in dsh] == [("first, edited", "#1", None), ("all", "news", "high")]
    (second,) = (await box.read(by=OWNER, reader="claude", since=0)).messages
    assert (second.text, second.thread, second.reply_to) == ("second", "#1", 1)
    again = await Import(box.room, OWNER, "old").run(content)
    assert (again.messages, again.known) == (0, 5)


async def test_b3_garbage_between_two_lines_costs_neither(box: Box):
    lines = [json.dumps(entry).encode() for entry in (OLD[0], OLD[4])]
    report = await Import(box.room, OWNER, "old").run(b"\n".join([lines[0], b"\x00\xff{", b"[]", b"7", lines[1], b"[" * 9999]))
    assert (report.messages, report.skipped) == (2, 4)
    assert await box.texts(by=OWNER, reader="dsh", since=0) == ["first", "all"]


async def test_b6_the_log_cannot_hold_one_number_twice(box: Box):
    await box.send("one")
    await box.send("two")
    with pytest.raises(Conflict, match="taken"):
        await box.store.write(lambda tx: tx.run(sql(text("UPDATE mailbox_record SET seq = 1 WHERE seq = 2"))))
    assert await box.texts(since=0) == ["one", "two"]
    assert (await box.room.verify()).fault is None


async def test_an_export_is_the_log_line_by_line(box: Box):
    await box.send("hi")
    await box.room.edit(ALICE, 1, "ho")
    lines = [json.loads(line) for line in (b"".join([piece async for piece in exported(box.room)])).splitlines()]
    assert [(line["seq"], line["kind"], line.get("text")) for line in lines] == [(1, "message", "hi"), (2, "edit", "ho")]
    assert len(lines[0]["link"]) == 64
