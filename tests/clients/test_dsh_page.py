"""The page of a real `dsh web` in a real Chromium: held mail is asked about in the harness's own dialog, and what is clicked counts.

Behind a wall nobody is asked there, and the owner decides at a door of the house.
"""

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chromiumkit import Page, page
from dshkit import AS_NOBODY, Web, connect, program, web
from postroom.testing import ThreadedSink, send_mail
from postroom.testing.scripted_model import Reply, ScriptedModel, newest, words
from served import Served, eventually, serving

INBOX = "dsh@postroom.localhost"
ASKS = "What does it cost?"
CLICKED = "a person in the harness's dialog"


def answers_questions(body: dict[str, Any]) -> Reply:
    """A model that answers every new mail in which something is asked."""
    found = re.search(r"New mail in .*message_id (<\S+>)", newest(body))
    if found is None or ASKS not in newest(body):
        return Reply("understood")
    return Reply(tool="agentmail_reply", arguments={"messageId": found[1], "text": "Gladly."})


def config(sink: ThreadedSink) -> str:
    return f'[relay]\nhost = "{sink.host}"\nport = {sink.port}\ntls = "off"\n[inbound]\nwake_idle_agent = true\n'


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    program()
    scripted = ScriptedModel()
    scripted.plan = answers_questions
    yield scripted
    scripted.close()


@pytest.fixture(scope="module")
def sink() -> Iterator[ThreadedSink]:
    with ThreadedSink() as running:
        yield running


@pytest.fixture(scope="module")
def daemon(sink: ThreadedSink, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("page") / "data", config(sink)) as served:
        yield served


@pytest.fixture(scope="module")
def harness(daemon: Served, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web(tmp_path_factory.mktemp("page-web") / "home", model.url, paged=True) as running:
        connect(daemon, running.home)
        yield running


@pytest.fixture(scope="module")
def shown(daemon: Served, harness: Web, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with page(harness.url, tmp_path_factory.mktemp("chromium")) as opened:
        begin(opened, daemon, "Hello")
        yield opened


def begin(shown: Page, daemon: Served, subject: str) -> None:
    """A first visit, and a first mail that asks nothing; its session is under Mail, which is folded."""
    shown.click("Continue", lambda: "Preview Notice" not in shown.text())
    mail(daemon, subject, "no question")
    eventually(lambda: shown.shows("Mail"))
    shown.click("Mail", lambda: shown.shows(row(subject)))


def asked(shown: Page, subject: str) -> str:
    """The page once the session of this mail is open and its dialog is there."""
    eventually(lambda: shown.shows(row(subject)))
    return shown.click(row(subject), lambda: shown.shows("Allow once", f"subject: Re: {subject}"))


def mail(daemon: Served, subject: str, text: str = ASKS) -> str:
    """One mail from outside; its Message-ID."""
    message_id = f"<m{time.monotonic_ns()}@customer.example>"
    lines = ["From: Ada <ada@customer.example>", f"To: {INBOX}", f"Subject: {subject}", f"Message-ID: {message_id}"]
    send_mail(*daemon.smtp, "ada@customer.example", [INBOX], "\r\n".join([*lines, "", text, ""]).encode())
    return message_id


def row(subject: str) -> str:
    """What the page calls the session of this mail."""
    return f"{subject} (Ada <ada@customer.example>)"


def outgoing(daemon: Served, subject: str, *states: str) -> dict[str, Any]:
    """The answer to the mail of this subject, once it is in one of these states."""

    def look() -> dict[str, Any] | None:
        rows = daemon.ok("GET", "/api/outgoing")["outgoing"]
        return next((one for one in rows if one["subject"] == f"Re: {subject}" and one["state"] in states), None)

    return eventually(look)


def told(model: ScriptedModel, message_id: str) -> str:
    """What the model heard of its answer to this mail."""

    def look() -> str | None:
        bodies = [body for body in model.bodies if any(message_id in words(message) for message in body["messages"])]
        return next((newest(body) for body in bodies if "New mail in" not in newest(body) and "tools" in body), None)

    return eventually(look)


def recipients(sink: ThreadedSink, subject: str) -> list[list[str]]:
    """To whom answers to the mail of this subject went."""
    return [list(one.rcpt_to) for one in sink.received if f"Subject: Re: {subject}".encode() in one.raw]


def test_a38_the_dialog_names_recipients_and_subject_and_allow_once_lets_the_mail_go(daemon, model, sink, shown):
    message_id = mail(daemon, "Price one")
    dialog = asked(shown, "Price one")
    assert "Send this mail? to: ada@customer.example" in dialog
    assert "says: Gladly." in dialog
    assert "rule:" in dialog
    assert recipients(sink, "Price one") == []
    shown.click("Allow once", lambda: "Allow once" not in shown.text())
    assert outgoing(daemon, "Price one", "sent")["decided_by"] == CLICKED
    assert recipients(sink, "Price one") == [["ada@customer.example"]]
    assert "Sent." in told(model, message_id)


def test_a38_reject_refuses_the_mail_for_good(daemon, model, sink, shown):
    message_id = mail(daemon, "Price two")
    asked(shown, "Price two")
    shown.click("Reject", lambda: "Allow once" not in shown.text())
    assert outgoing(daemon, "Price two", "refused")["decided_by"] == CLICKED
    assert "ejected" in told(model, message_id)
    assert recipients(sink, "Price two") == []


@pytest.mark.parametrize("verb", ["approve", "refuse"])
def test_what_the_owner_decides_at_another_door_takes_the_dialog_off_the_page(daemon, model, sink, shown, verb):
    subject = f"To {verb}"
    message_id = mail(daemon, subject)
    asked(shown, subject)
    held = outgoing(daemon, subject, "held")
    daemon.cli("held", verb, held["outgoing_id"], *(["--digest", held["digest"]] if verb == "approve" else []))
    eventually(lambda: "Allow once" not in shown.text())
    done = outgoing(daemon, subject, "sent" if verb == "approve" else "refused")
    assert done["decided_by"] == "owner"
    assert recipients(sink, subject) == ([["ada@customer.example"]] if verb == "approve" else [])
    assert re.search(r"Sent\.|pproved" if verb == "approve" else "was refused", told(model, message_id))


def test_behind_a_wall_nobody_is_asked_in_the_page_and_the_owners_door_lets_it_go(model, sink, tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs root to become a second user")
    with (
        serving(tmp_path / "data", config(sink)) as daemon,
        web(tmp_path / "home", model.url, paged=True, prefix=AS_NOBODY) as harness,
        page(harness.url, tmp_path / "chromium") as shown,
    ):
        connect(daemon, harness.home)
        begin(shown, daemon, "Hello there")
        message_id = mail(daemon, "Walled")
        eventually(lambda: shown.shows(row("Walled")))
        assert "Held, not sent" in told(model, message_id)
        shown.click(row("Walled"), lambda: shown.shows("Completed", "understood"))
        assert "Allow once" not in shown.text()
        held = outgoing(daemon, "Walled", "held")
        assert (held["boundary"], recipients(sink, "Walled")) == ("wall", [])
        daemon.ok("POST", f"/api/outgoing/{held['outgoing_id']}/approve", {"digest": held["digest"]})
        assert outgoing(daemon, "Walled", "sent")["decided_by"] == "owner"
        assert recipients(sink, "Walled") == [["ada@customer.example"]]
