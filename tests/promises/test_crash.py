"""Acknowledged means on disk, across `kill -9` at any moment.

During deliveries: each 250 is a message after restart. During an approved send: each approved mail
reaches the relay, and none reaches it twice without being marked.
"""

import http.client
import random
import signal
import smtplib
import threading
from pathlib import Path

import pytest

from pace import PATIENCE_S
from postroom.testing import ThreadedSink
from served import Served, eventually, start

SCOUT = "scout@postroom.localhost"


def mail(number: int) -> bytes:
    head = f"From: ada@customer.example\r\nTo: {SCOUT}\r\nSubject: {number}\r\nMessage-ID: <n{number}@customer.example>\r\n"
    return (head + "\r\n" + "x" * 2000 + "\r\n").encode()


class Deliveries(threading.Thread):
    """One connection that delivers its numbers and remembers which were answered 250."""

    def __init__(self, address: tuple[str, int], numbers: range) -> None:
        super().__init__(daemon=True)
        self.address, self.numbers = address, numbers
        self.acknowledged: list[int] = []

    def run(self) -> None:
        try:
            with smtplib.SMTP(*self.address, timeout=PATIENCE_S) as client:
                for number in self.numbers:
                    client.sendmail("ada@customer.example", [SCOUT], mail(number))
                    self.acknowledged.append(number)
        except (OSError, smtplib.SMTPException):
            return  # the daemon was killed: what it had acknowledged is what counts


def stored(served: Served) -> list[str]:
    rows, token = [], ""
    while True:
        page = served.ok("GET", f"/v0/inboxes/{SCOUT}/messages?limit=1000{token}")
        rows += [row["message_id"] for row in page["messages"]]
        if "next_page_token" not in page:
            return rows
        token = f"&page_token={page['next_page_token']}"


def test_every_250_is_there_after_kill_9_during_2000_deliveries(tmp_path: Path):
    data, chance = tmp_path / "house", random.Random(7)
    served = start(data)
    served.agent("scout")
    acknowledged: list[int] = []
    for round_ in range(10):
        base = round_ * 200
        senders = [Deliveries(served.smtp, range(base + 25 * lane, base + 25 * (lane + 1))) for lane in range(8)]
        for sender in senders:
            sender.start()
        wanted = chance.randrange(20, 190)
        eventually(lambda: sum(len(sender.acknowledged) for sender in senders) >= wanted)  # noqa: B023 - called at once
        served.stop(signal.SIGKILL)
        for sender in senders:
            sender.join(PATIENCE_S)
            acknowledged += sender.acknowledged
        served.process.stdout.close()
        served = start(data)
    missing = lambda: {f"<n{number}@customer.example>" for number in acknowledged} - set(stored(served))  # noqa: E731
    eventually(lambda: not missing())
    assert len(acknowledged) >= 200
    served.stop()
    served.process.stdout.close()


@pytest.mark.timeout(600)  # it starts the service a dozen times
def test_an_approved_mail_leaves_across_kill_9_and_is_never_doubled_unmarked(tmp_path: Path, long: bool):
    data, chance = tmp_path / "house", random.Random(11)
    rounds = 40 if long else 12
    with ThreadedSink() as sink:
        config = f'[relay]\nhost = "{sink.host}"\nport = {sink.port}\ntls = "off"\n'
        served = start(data, config)
        token = served.agent("scout")
        approved: dict[str, str] = {}
        for number in range(rounds):
            body = {"to": "ada@customer.example", "subject": str(number), "text": "t"}
            served.call("POST", f"/v0/inboxes/{SCOUT}/messages/send", body, token=token)
            (held,) = served.held()
            approved[held["message_id"]] = held["outgoing_id"]
            approve = threading.Thread(target=approve_and_die, args=(served, held))
            approve.start()
            approve.join(chance.random() * 0.06)
            served.stop(signal.SIGKILL)
            approve.join(PATIENCE_S)
            served.process.stdout.close()
            served = start(data, config)
            settle(served, held)
        for message_id, outgoing_id in approved.items():
            taken = [one for one in sink.received if message_id.encode() in one.raw]
            row = served.ok("GET", f"/api/outgoing/{outgoing_id}")
            assert len(taken) >= 1, row
            assert len(taken) == 1 or row["possible_duplicate"], row
        served.stop()
        served.process.stdout.close()


def approve_and_die(served: Served, held: dict) -> None:
    try:
        served.call("POST", f"/api/outgoing/{held['outgoing_id']}/approve", {"digest": held["digest"]})
    except (OSError, http.client.HTTPException):
        return  # killed while answering


def settle(served: Served, held: dict) -> None:
    """If the approval was lost with the process, the owner approves again; then wait until it is sent."""
    path = f"/api/outgoing/{held['outgoing_id']}"
    if served.ok("GET", path)["state"] == "held":
        served.ok("POST", f"{path}/approve", {"digest": held["digest"]})
    eventually(lambda: served.ok("GET", path)["state"] == "sent")
