"""The main job from outside: real SMTP in, the agent's session, its answer held, approved, and out by real SMTP.

The sender is swaks, Postfix's smtp-source or smtplib; the receiver is a sink of ours that keeps the bytes.
"""

import hashlib
import json
import shutil
import smtplib
import subprocess
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest

from pace import PATIENCE_S
from postroom.testing import ThreadedSink
from served import Served, eventually, serving

INBOX = "scout@postroom.localhost"
ASKER = "ada@customer.example"


def config(sink: ThreadedSink, *, wake: bool = True) -> str:
    agent = [sys.executable, "-m", "postroom.demo.example_agent"]
    return f"""
[relay]
host = "{sink.host}"
port = {sink.port}
tls = "off"
[agents.scout]
host = "command"
wake = {str(wake).lower()}
command = {json.dumps(agent)}
"""


def question(message_id: str, text: str, **headers: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = f"Ada <{ASKER}>"
    mail["To"] = INBOX
    mail["Subject"] = "The meeting"
    mail["Message-ID"] = message_id
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail


def by_smtplib(served: Served, mail: EmailMessage) -> None:
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
        assert client.send_message(mail, ASKER, [INBOX]) == {}


def by_swaks(served: Served, mail: EmailMessage) -> None:
    if shutil.which("swaks") is None:
        pytest.skip("swaks is not installed")
    command = ["swaks", "--server", f"{served.smtp[0]}:{served.smtp[1]}", "--from", ASKER, "--to", INBOX, "--data", "-"]
    done = subprocess.run(command, input=mail.as_string(), text=True, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("send", [by_smtplib, by_swaks])
def test_a_mail_goes_round_and_only_the_approved_bytes_leave(tmp_path: Path, send):
    with ThreadedSink() as sink, serving(tmp_path / "house", config(sink)) as served:
        token = served.agent("scout")
        send(served, question("<first@customer.example>", "Can we meet at 15:00?"))

        (held,) = eventually(served.held)
        (received,) = [row for row in served.messages(INBOX) if "received" in row["labels"]]
        assert received["message_id"] == "<first@customer.example>"
        assert (held["to"], held["cc"], held["bcc"]) == ([f"Ada <{ASKER}>"], [], [])
        assert held["thread_id"] == received["thread_id"]
        assert held["boundary"] in ("rule", "wall")
        assert sink.received == []

        status, refused = served.call(
            "POST", f"/api/outgoing/{held['outgoing_id']}/approve", {"digest": held["digest"]}, token=token
        )
        assert (status, refused["code"]) == (403, "forbidden")
        served.cli("held", "approve", held["outgoing_id"], "--digest", held["digest"])

        (taken,) = eventually(lambda: sink.received)
        assert (taken.mail_from, taken.rcpt_to) == (INBOX, (ASKER,))
        assert digest(taken.mail_from, taken.rcpt_to, taken.raw) == held["digest"]
        eventually(lambda: served.ok("GET", f"/api/outgoing/{held['outgoing_id']}")["state"] == "sent")

        answer_id = held["message_id"]
        send(served, question("<second@customer.example>", "Thank you.", In_Reply_To=answer_id, References=answer_id))
        thread = eventually(lambda: whole_thread(served, received["thread_id"], 3))
        assert [row["message_id"] for row in thread] == ["<first@customer.example>", answer_id, "<second@customer.example>"]
        sessions = served.ok("GET", "/api/sessions")["sessions"]
        assert [row["session_id"] for row in sessions] == [f"agentmail-{received['thread_id']}"]
        eventually(lambda: served.ok("GET", "/api/sessions")["sessions"][0]["pending"] == 0)


def whole_thread(served: Served, thread_id: str, count: int) -> list[dict]:
    messages = served.ok("GET", f"/v0/inboxes/{INBOX}/threads/{thread_id}")["messages"]
    return messages if len(messages) == count else []


def digest(mail_from: str, rcpt_to: tuple[str, ...], raw: bytes) -> str:
    """The digest of docs/reference/digest.md, computed here again from what the sink was given."""
    whole = hashlib.sha256()
    recipients = [address.encode() for address in sorted(rcpt_to)]
    for part in (b"postroom-outgoing-bytes-1", mail_from.encode(), str(len(recipients)).encode(), *recipients, raw):
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()


def test_with_wake_off_mail_waits_and_a_person_may_wake_the_session(tmp_path: Path):
    with ThreadedSink() as sink, serving(tmp_path / "house", config(sink, wake=False)) as served:
        served.agent("scout")
        by_smtplib(served, question("<first@customer.example>", "Are you there?"))
        (session,) = eventually(lambda: [row for row in served.ok("GET", "/api/sessions")["sessions"] if row["waiting"]])
        assert (session["waiting"], session["pending"], served.held()) == ("wake is off", 1, [])
        served.ok("POST", f"/api/sessions/{session['session_id']}/wake")
        assert len(eventually(served.held)) == 1
