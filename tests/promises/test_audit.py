"""What leaves is what was approved, and the record of it shows when it was changed afterwards.

Between approval and wire: one changed byte, recipient or attachment stops the send, and a wire that
adds a recipient is caught. Afterwards: each way of tampering is named by `postroom data verify`.
"""

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from houses import living
from inprocess import ADA, AGENT, OWNER, SCOUT, NotingRelay, Rooms, rooms_in, wish
from pace import PATIENCE_S
from postroom.app.verify import verify_folder
from postroom.config import Config, Gate, Relay
from postroom.errors import NotFound
from postroom.model.mail import AttachmentData
from postroom.model.outgoing import State
from postroom.model.paging import PageRequest
from postroom.testing import SmtpSink
from postroom.wires.smtp import RelayResult
from served import serving

EVE = "eve@elsewhere.example"


def swap_blob(database: sqlite3.Connection, old: bytes, new: bytes) -> None:
    """Put other bytes where the frozen mail lies, with a hash that fits them."""
    for key, data in database.execute("SELECT id, data FROM blob").fetchall():
        if data is not None and old in data:
            changed = data.replace(old, new)
            sha = hashlib.sha256(changed).hexdigest()
            before = hashlib.sha256(data).hexdigest()
            database.execute("UPDATE blob SET data = ?, sha = ?, size = ? WHERE id = ?", (changed, sha, len(changed), key))
            for table, column in (("outgoing", "raw_sha"), ("outbox", "blob"), ("message", "blob")):
                database.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (sha, before))


def one_byte(database: sqlite3.Connection) -> None:
    swap_blob(database, b"Good day", b"Good dax")


def one_attachment(database: sqlite3.Connection) -> None:
    swap_blob(database, b"YWJj", b"YWJk")  # abc, abd


def one_recipient(database: sqlite3.Connection) -> None:
    for table in ("outgoing", "outbox"):
        database.execute(f"UPDATE {table} SET rcpt_to = ?", (json.dumps([ADA, EVE]),))
    database.execute("UPDATE outbox SET pending = ?", (json.dumps([ADA, EVE]),))


def one_more_pending(database: sqlite3.Connection) -> None:
    database.execute("UPDATE outbox SET pending = ?", (json.dumps([ADA, EVE]),))


CHANGES = [one_byte, one_attachment, one_recipient]


@pytest.mark.parametrize("tamper", CHANGES)
async def test_a_change_before_approval_makes_the_digest_another(tmp_path: Path, tamper: Callable[..., None]) -> None:
    rooms = await rooms_in(tmp_path)
    held = await rooms.gate.submit(AGENT, wish(attachments=(AttachmentData(content=b"abc", filename="a.txt"),)))
    shown = await rooms.gate.show(OWNER, held.outgoing_id)
    tampered(tmp_path, tamper)
    with pytest.raises(Exception, match="digest"):
        await rooms.gate.approve(OWNER, held.outgoing_id, shown.digest)
    await rooms.settle()
    assert rooms.relay.taken == []
    await rooms.store.close()


@pytest.mark.parametrize("tamper", [*CHANGES, one_more_pending])
async def test_a_change_between_approval_and_wire_stops_the_send(tmp_path: Path, tamper: Callable[..., None]) -> None:
    rooms = await rooms_in(tmp_path)
    held = await rooms.gate.submit(AGENT, wish(attachments=(AttachmentData(content=b"abc", filename="a.txt"),)))
    await rooms.gate.approve(OWNER, held.outgoing_id, held.digest)
    tampered(tmp_path, tamper)
    await rooms.settle()
    assert rooms.relay.taken == []
    assert (await rooms.gate.show(OWNER, held.outgoing_id)).state is State.FAILED
    await rooms.store.close()


class AddingRelay(NotingRelay):
    """A wire with a recipient of its own, as a tampered package has; it reports whom it gave the mail to."""

    async def deliver(self, mail_from, rcpt_to, raw):
        await super().deliver(mail_from, (*rcpt_to, EVE), raw)
        return RelayResult(accepted=(*rcpt_to, EVE), refused={})


async def test_a_wire_that_adds_a_recipient_is_caught_by_its_first_mail(tmp_path: Path) -> None:
    first = await rooms_in(tmp_path)
    rooms = Rooms(first.store, first.clock, relay=AddingRelay())
    for text in ("one", "two"):
        held = await rooms.gate.submit(AGENT, wish(text=text))
        await rooms.gate.approve(OWNER, held.outgoing_id, held.digest)
        await rooms.settle()
    assert len(rooms.relay.taken) == 1
    second, first_mail = await list_all(rooms)
    assert first_mail.state is State.SENT
    assert EVE in first_mail.detail
    assert second.state is State.SENDING
    await rooms.store.close()


async def list_all(rooms: Rooms):
    return (await rooms.gate.list(OWNER, page=PageRequest())).items


def tampered(folder: Path, how: Callable[[sqlite3.Connection], None]) -> None:
    database = sqlite3.connect(folder / "postroom.db")
    with database:
        how(database)
    database.close()


async def a_house_with_a_record(folder: Path, sink: SmtpSink) -> None:
    """Three mails held, one of them sent, the heads signed twice."""
    config = Config(relay=Relay(host=sink.host, port=sink.port, tls="off"), gate=Gate())
    async with living(folder, config) as home:
        token = await home.agent("scout")
        client = home.client(token)
        for number in range(3):
            body = {"to": ADA, "subject": f"s{number}", "text": "t"}
            assert (await client.post(f"/v0/inboxes/{SCOUT}/messages/send", json=body)).status_code == 403
        await home.house.gate.close()
        (row, *_) = (await home.http.get("/api/outgoing?state=held")).json()["outgoing"]
        await home.http.post(f"/api/outgoing/{row['outgoing_id']}/approve", json={"digest": row["digest"]})
        await sink.wait_for(1)
        async with asyncio.timeout(PATIENCE_S):
            while (await home.http.get(f"/api/outgoing/{row['outgoing_id']}")).json()["state"] != "sent":
                await asyncio.sleep(0.01)  # until the record has the outcome
        await client.aclose()


AUDIT = "SELECT seq, body, entry_hash, link, outgoing_id FROM gate_audit ORDER BY seq"


def altered(database: sqlite3.Connection) -> None:
    body = database.execute("SELECT body FROM gate_audit WHERE seq = 2").fetchone()[0]
    database.execute("UPDATE gate_audit SET body = ? WHERE seq = 2", (bytes(body).replace(ADA.encode(), EVE.encode()),))


def removed(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM gate_audit WHERE seq = 2")


def swapped(database: sqlite3.Connection) -> None:
    rows = {row[0]: row[1:] for row in database.execute(AUDIT)}
    for at, source in ((2, 3), (3, 2)):
        body, hashed, link, outgoing_id = rows[source]
        database.execute(
            "UPDATE gate_audit SET body = ?, entry_hash = ?, link = ?, outgoing_id = ? WHERE seq = ?",
            (body, hashed, link, outgoing_id, at),
        )


def repeated(database: sqlite3.Connection) -> None:
    database.execute(
        "UPDATE gate_audit SET (body, entry_hash, link, outgoing_id) = "
        "(SELECT body, entry_hash, link, outgoing_id FROM gate_audit WHERE seq = 1) WHERE seq = 2"
    )


def foreign(database: sqlite3.Connection) -> None:
    database.execute(
        "UPDATE gate_audit SET link = ?, entry_hash = ? WHERE seq = (SELECT max(seq) FROM gate_audit)", (bytes(32), bytes(32))
    )


def cut(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM gate_audit WHERE seq > 2")


def emptied(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM gate_audit")
    database.execute("DELETE FROM outgoing")


def recipient_in_the_table(database: sqlite3.Connection) -> None:
    database.execute("UPDATE outgoing SET rcpt_to = ? WHERE id = 1", (json.dumps([EVE]),))


def mail_gone_from_the_table(database: sqlite3.Connection) -> None:
    database.execute("DELETE FROM outgoing WHERE id = 2")


TAMPERING = {
    altered: ("altered", 2),
    removed: ("missing", 2),
    swapped: ("reordered", 2),
    repeated: ("repeated", 2),
    foreign: ("foreign", None),
    cut: ("cut", 3),
    emptied: ("cut", 1),
    recipient_in_the_table: ("altered", None),
    mail_gone_from_the_table: ("missing", None),
}


@pytest.mark.parametrize("how", TAMPERING, ids=lambda how: how.__name__)
async def test_each_way_of_tampering_is_named_with_the_first_bad_entry(tmp_path: Path, how: Callable[..., None]) -> None:
    async with SmtpSink() as sink:
        await a_house_with_a_record(tmp_path / "house", sink)
    sound = verify_folder(tmp_path / "house")[0]
    assert (sound.kind, sound.detail) == ("", "")
    assert sound.entries >= 5
    assert sound.checkpoints == 2
    tampered(tmp_path / "house", how)
    report = verify_folder(tmp_path / "house")[0]
    kind, seq = TAMPERING[how]
    assert report.kind == kind, report
    assert seq in (None, report.seq)


async def test_signed_heads_cannot_be_edited_or_left_out(tmp_path: Path) -> None:
    async with SmtpSink() as sink:
        await a_house_with_a_record(tmp_path / "house", sink)
    path = tmp_path / "house" / "gate-audit.checkpoints"
    first, second = path.read_text().splitlines()
    for text in (second, f"{first}\n{first.replace(':3,', ':2,')}", "no checkpoint"):
        path.write_text(text + "\n")
        assert verify_folder(tmp_path / "house")[0].kind == "forged_checkpoint"
    path.write_text(f"{first}\n{second}\ntorn by a cra")
    assert verify_folder(tmp_path / "house")[0].kind == ""


def test_a_folder_without_data_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        verify_folder(tmp_path)


def test_the_command_verifies_beside_a_running_daemon_and_fails_when_something_was_changed(tmp_path: Path) -> None:
    with serving(tmp_path / "house") as served:
        token = served.agent("scout")
        served.agent("other")
        body = {"to": "other@postroom.localhost", "subject": "s", "text": "t"}
        assert served.call("POST", f"/v0/inboxes/{SCOUT}/messages/send", body, token=token)[0] == 403
        reports = json.loads(served.cli("data", "verify", "--json").stdout)["logs"]
        assert [(report["log"], report["kind"]) for report in reports] == [("gate-audit", ""), ("mailbox", "")]
        assert reports[0]["entries"] == 1
        tampered(served.data, recipient_in_the_table)
        done = served.cli("data", "verify", check=False)
        assert (done.returncode, done.stdout.splitlines()[0].split(": ")[0]) == (1, "gate-audit")
        assert "altered at entry 1" in done.stdout
