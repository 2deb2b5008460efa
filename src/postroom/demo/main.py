"""The demo: a temporary house on free ports, an outside world that is a real SMTP server, and the whole loop.

It runs what a user runs: `postroom serve` as a process of its own, spoken to by SMTP and HTTP only.
Waking is on here, which it is not by default: the demo has nobody sitting at the agent's terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from postroom.client import Client, connect
from postroom.errors import Invalid, PostroomError
from postroom.policy.digest import digest_bytes
from postroom.testing import ThreadedSink, send_mail
from postroom.testing.scripted_model import Reply, ScriptedModel, newest

T = TypeVar("T")
AGENT, INBOX, ADA = "scout", "scout@postroom.localhost", "ada@customer.example"
QUESTION = "Hello Scout,\n\ncan we meet tomorrow at 15:00?\n\nAda\n"
THANKS = "Thank you, see you then.\n\nAda\n"
WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class House:
    """The running daemon and the outside world's mail server."""

    client: Client
    smtp: tuple[str, int]
    folder: Path
    sink: ThreadedSink


class Steps:
    """Shows each step once: as text, or as one JSON object a line."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._count = 0

    def show(self, step: str, told: str, *shown: str, **facts: Any) -> None:
        """`told` is one sentence, `shown` is text set apart, `facts` are ids for machines."""
        self._count += 1
        if self._as_json:
            print(json.dumps({"step": step, **facts}, ensure_ascii=False), flush=True)
            return
        print(f"\n{self._count}. {told}", flush=True)
        for text in shown:
            print("\n".join(f"     {line}" for line in text.rstrip().splitlines()), flush=True)


def main(*, as_json: bool = False, keep: bool = False, host: str = "command") -> int:
    """Run the loop; 0 when every step happened. With `keep` the house stays up until interrupted."""
    steps = Steps(as_json=as_json)
    temporary = tempfile.TemporaryDirectory(prefix="postroom-demo-")
    with (
        temporary as name,
        ThreadedSink() as sink,
        mind(host) as environ,
        serving(Path(name) / "house", sink, host, environ) as house,
    ):
        loop(house, steps)
        if keep:
            stay(house, as_json=as_json)
    return 0


@contextlib.contextmanager
def mind(host: str) -> Iterator[dict[str, str]]:
    """What the agent thinks with: its own program, or for DSH a model that answers by script. The variables that say so."""
    if host == "command":
        yield {}
        return
    from postroom.sessions.hosts.dsh import installed

    if host != "dsh":
        raise Invalid("--host is command or dsh")
    if not installed():
        raise Invalid("DSH is not installed", fix="pip install 'postroom[dsh]'")
    model = ScriptedModel(answer)
    try:
        yield {"DEEPSEEK_BASE_URL": model.url, "DEEPSEEK_API_KEY": "scripted"}
    finally:
        model.close()


def answer(body: dict[str, Any]) -> Reply:
    """What the scripted model does: it answers Ada's question with a tool, and takes note of all else."""
    told = newest(body)
    asked = re.search(r"New mail in .*message_id (<[^>]+>)", told)
    if asked is None or QUESTION.splitlines()[2] not in told:
        return Reply("Noted.")
    text = "Thank you for your mail. The answer is: yes, at 15:00."
    return Reply(tool="mcp__postroom__agentmail_reply", arguments={"messageId": asked[1], "text": text})


@contextlib.contextmanager
def serving(folder: Path, sink: ThreadedSink, agents_host: str, environ: Mapping[str, str]) -> Iterator[House]:
    """`postroom serve` on free ports, ended with SIGTERM."""
    folder.mkdir(mode=0o700)
    (folder / "postroom.toml").write_text(configuration(sink, agents_host), encoding="utf-8")
    command = [sys.executable, "-m", "postroom.cli.main", "serve", "--data", str(folder)]
    command += ["--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0"]
    with (folder / "serve.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **environ}
        )
    try:
        if process.stdout is None or not process.stdout.readline().startswith("postroom ready "):
            raise PostroomError("the house did not start", details={"log": (folder / "serve.log").read_text(encoding="utf-8")})
        endpoint = json.loads((folder / "endpoint.json").read_text(encoding="utf-8"))
        host, _, port = endpoint["smtp"].removeprefix("smtp://").rpartition(":")
        yield House(connect(folder), (host, int(port)), folder, sink)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def configuration(sink: ThreadedSink, host: str) -> str:
    """A relay to the outside world, and an agent that is woken for each mail."""
    command = json.dumps([sys.executable, "-m", "postroom.demo.example_agent"])
    return (
        f'[relay]\nhost = "{sink.host}"\nport = {sink.port}\ntls = "off"\n'
        f'[agents.{AGENT}]\nhost = "{host}"\nwake = true\ncommand = {command}\n'
    )


def loop(house: House, steps: Steps) -> None:
    """Mail in, session, answer held, approved, out, and the reply back into the same thread."""
    made = house.client.post("/api/agents", {"name": AGENT})
    steps.show(
        "agent",
        f"An agent named {AGENT} has the inbox {INBOX}. Its program is woken for each mail; by default mail waits instead.",
        agent_id=made["agent_id"],
        inbox_id=INBOX,
    )
    first = write(house, steps, "<question@customer.example>", QUESTION, answers=None)
    session = until(lambda: session_of(house, first["thread_id"]))
    steps.show(
        "session",
        f"The mail belongs to thread {first['thread_id']}, so session {session['session_id']} is told, as a fenced notice.",
        session_id=session["session_id"],
        thread_id=first["thread_id"],
        message_id=first["message_id"],
    )
    row = until(lambda: next(iter(house.client.get("/api/outgoing", state="held")["outgoing"]), None))
    held = house.client.get(f"/api/outgoing/{row['outgoing_id']}")
    steps.show(
        "held",
        "The agent read the thread and answered with a tool. Nothing has left: the gate holds the answer, and its owner sees:",
        approval_screen(held),
        outgoing_id=held["outgoing_id"],
        digest=held["digest"],
        thread_id=held["thread_id"],
        boundary=held["boundary"],
    )
    approve(house, steps, held)
    second = write(house, steps, "<thanks@customer.example>", THANKS, answers=held["message_id"])
    same = second["thread_id"] == first["thread_id"]
    until(lambda: (session_of(house, second["thread_id"]) or {}).get("pending") == 0)
    steps.show(
        "closed",
        f"It is the same thread and the same session ({session['session_id']}), which has taken it."
        if same
        else "The reply opened another thread; that is a fault.",
        thread_id=second["thread_id"],
        session_id=session["session_id"],
        same_thread=same,
    )
    if not same:
        raise PostroomError("the reply did not land in its thread")


def write(house: House, steps: Steps, message_id: str, text: str, *, answers: str | None) -> Any:
    """Ada sends a mail by SMTP; returns the message as the inbox has it."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Message-ID"] = f"Ada <{ADA}>", INBOX, "Meeting", message_id
    if answers is not None:
        mail["In-Reply-To"] = mail["References"] = answers
    mail.set_content(text)
    sent = send_mail(*house.smtp, ADA, [INBOX], mail.as_bytes().replace(b"\n", b"\r\n"))
    reply = f"{sent.code} {sent.text}"
    told = "Ada writes" if answers is None else "Ada answers the mail she got"
    steps.show(
        "received" if answers is None else "reply_received",
        f"{told}, from any mail program. The 250 means it is on disk:",
        f"{text}\n<- {reply}",
        message_id=message_id,
        smtp_reply=reply,
    )
    path = f"/v0/inboxes/{INBOX}/messages/{quote(message_id, safe='')}"
    return until(lambda: found(house, path))


def approve(house: House, steps: Steps, held: dict[str, Any]) -> None:
    """A person approves exactly this mail; the relay gets exactly its bytes."""
    house.client.post(f"/api/outgoing/{held['outgoing_id']}/approve", {"digest": held["digest"]})
    taken = until(lambda: next(iter(house.sink.received), None))
    digest = digest_bytes(taken.mail_from, taken.rcpt_to, taken.raw)
    steps.show(
        "sent",
        "You approve (the demo does it for you). The answer leaves by SMTP; Ada's mail server got these bytes:",
        f"MAIL FROM:<{taken.mail_from}>  RCPT TO:<{'>, <'.join(taken.rcpt_to)}>\n\n{taken.raw.decode()}\n"
        f"digest of these bytes and recipients: {digest}\n"
        f"digest that was approved:             {held['digest']}",
        outgoing_id=held["outgoing_id"],
        message_id=held["message_id"],
        digest=held["digest"],
        digest_at_relay=digest,
        recipients=list(taken.rcpt_to),
    )
    if digest != held["digest"]:
        raise PostroomError("the bytes that left are not those that were approved")


def approval_screen(held: dict[str, Any]) -> str:
    """The held mail as `postroom held show` prints it."""
    from postroom.cli.held import rendered

    return rendered(held)


def session_of(house: House, thread_id: str) -> dict[str, Any] | None:
    """The session of a thread, once it exists."""
    rows: list[dict[str, Any]] = house.client.get("/api/sessions")["sessions"]
    return next((row for row in rows if row["thread_id"] == thread_id), None)


def found(house: House, path: str) -> Any:
    """What is at `path`, or None as long as nothing is."""
    try:
        return house.client.get(path)
    except PostroomError as problem:
        if problem.code == "not_found":
            return None
        raise


def until(look: Callable[[], T | None]) -> T:
    """The first truthy answer, within 30 s."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if answer := look():
            return answer
        time.sleep(0.05)
    raise PostroomError("the next step did not happen within 30 s")


def stay(house: House, *, as_json: bool) -> None:
    """Leave the house running and say how to write to it by hand."""
    host, port = house.smtp
    talk = sys.stderr if as_json else sys.stdout
    print(
        f"\nThe house stays up. Write to it:\n"
        f"  swaks --server {host}:{port} --from you@example.org --to {INBOX} --header 'Subject: Hi' --body 'Are you there?'\n"
        f"Then: postroom held list   (with POSTROOM_DATA={house.folder})\n"
        f"What you approve goes to the demo's own mail server and no further. Ctrl-C ends it.",
        file=talk,
        flush=True,
    )
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
