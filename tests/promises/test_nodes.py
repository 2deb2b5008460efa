"""Two daemons over one PostgreSQL: all of it is one house, and nothing is done twice."""

import shutil
import signal
import smtplib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from engines import settings, url_of
from pace import PATIENCE_S
from postroom.testing import ThreadedSink
from served import Served, eventually, serving

SCOUT, ADA = "scout@postroom.localhost", "ada@customer.example"
LARGE = b"From: Ada <ada@customer.example>\r\nTo: scout@postroom.localhost\r\nSubject: %s\r\n\r\n" + b"x" * 70 + b"\r\n" * 100_000


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Served, Served, ThreadedSink]]:
    """Both nodes have the same owner's key and send through the same relay."""
    with ExitStack() as stack:
        sink = stack.enter_context(ThreadedSink())
        config = settings(stack.enter_context(url_of("postgresql")))
        config += f'[relay]\nhost = "{sink.host}"\nport = {sink.port}\ntls = "off"\n'
        first = stack.enter_context(serving(tmp_path / "one", config))
        (tmp_path / "two").mkdir(mode=0o700)
        shutil.copy(first.data / "owner.key", tmp_path / "two" / "owner.key")
        yield first, stack.enter_context(serving(tmp_path / "two", config)), sink


def post(node: Served, subject: str) -> None:
    with smtplib.SMTP(*node.smtp, timeout=PATIENCE_S) as client:
        client.sendmail(ADA, [SCOUT], LARGE % subject.encode())


def subjects(node: Served) -> list[str]:
    return sorted(message["subject"] for message in node.messages(SCOUT))


def test_mail_taken_in_by_either_node_is_read_once_and_shown_by_both(nodes):
    first, second, _ = nodes
    token = first.agent("scout")
    for number in range(10):
        post((first, second)[number % 2], f"s{number}")
    expected = [f"s{number}" for number in range(10)]
    for node in (first, second):
        assert eventually(lambda node=node: (found := subjects(node)) == expected and found) == expected
    (message,) = [message for message in second.messages(SCOUT) if message["subject"] == "s1"]
    path = f"/v0/inboxes/{SCOUT}/messages/{quote(message['message_id'], safe='')}"
    assert first.ok("GET", path, token=token)["size"] == message["size"]


def test_a_token_revoked_on_one_node_is_refused_by_the_other(nodes):
    first, second, _ = nodes
    token = first.agent("scout")
    path = f"/v0/inboxes/{SCOUT}/messages"
    assert eventually(lambda: second.call("GET", path, token=token)[0] == 200)
    first.ok("POST", "/api/agents/scout/rotate")
    assert eventually(lambda: second.call("GET", path, token=token)[0] == 401)


def test_what_is_approved_on_either_node_leaves_once_also_after_the_working_node_dies(nodes):
    first, second, sink = nodes
    token = first.agent("scout")
    for node in (first, second):
        body = {"to": ADA, "subject": f"by {node.port}", "text": "t"}
        assert node.call("POST", f"/v0/inboxes/{SCOUT}/messages/send", body, token=token)[0] == 403
    for held, node in zip(first.held(), (second, first), strict=True):
        node.ok("POST", f"/api/outgoing/{held['outgoing_id']}/approve", {"digest": held["digest"]})
    eventually(lambda: [row["state"] for row in second.ok("GET", "/api/outgoing")["outgoing"]] == ["sent"] * 2)
    assert len(sink.received) == 2
    first.stop(signal.SIGKILL)
    post(second, "after the first died")
    eventually(lambda: "after the first died" in subjects(second))
    assert len(sink.received) == 2
