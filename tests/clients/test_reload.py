"""The daemon reads its config again when its owner says so: whom mail wakes changes at once, and nothing else does."""

import json
import sys
from pathlib import Path

import pytest

from postroom.testing import send_mail
from served import Served, eventually, serving

INBOX = "bob@postroom.localhost"
# Writes down what it was handed.
HARNESS = r"""
import json, pathlib, sys, time
handed = json.load(sys.stdin)
place = pathlib.Path(sys.argv[1]) / str(time.monotonic_ns())
place.with_suffix(".part").write_text(json.dumps(handed))
place.with_suffix(".part").rename(place)
"""


def config(place: Path, *, wake: bool, more: str = "") -> str:
    command = json.dumps([sys.executable, "-c", HARNESS, str(place)])
    return f'{more}[agents.bob]\nhost = "command"\nwake = {str(wake).lower()}\ncommand = {command}\n'


def write(house: Served, text: str) -> None:
    (house.data / "postroom.toml").write_text(text, encoding="utf-8")


def told(place: Path) -> list[tuple[str, str]]:
    """Session and kind of every notice that was handed over."""
    turns = [json.loads(path.read_text()) for path in sorted(place.glob("*[0-9]"))]
    return [(turn["session_id"], notice["kind"]) for turn in turns for notice in turn["notices"]]


def mail(house: Served, message_id: str) -> None:
    lines = ["From: ada@customer.example", f"To: {INBOX}", "Subject: Hi", f"Message-ID: {message_id}", "", "hello", ""]
    send_mail(*house.smtp, "ada@customer.example", [INBOX], "\r\n".join(lines).encode())


def send(house: Served) -> int:
    return house.ok("POST", "/mailbox/messages", {"from": "alice", "to": "bob", "text": "hello"})["seq"]


def waiting(house: Served) -> list[str]:
    return sorted(row["waiting"] for row in house.ok("GET", "/api/sessions")["sessions"])


def notified(house: Served, seq: int) -> bool:
    return house.ok("GET", f"/mailbox/messages/{seq}")["receipt"]["state"] == "notified"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "turns").mkdir()
    return tmp_path / "turns"


def test_mail_and_mailbox_that_waited_are_told_once_when_waking_is_switched_on_and_off_again_nothing_is(tmp_path, place):
    with serving(tmp_path / "data", config(place, wake=False)) as house:
        house.agent("bob")
        mail(house, "<one@customer.example>")
        seq = send(house)
        eventually(lambda: waiting(house) == ["wake is off"])
        write(house, config(place, wake=True))
        assert told(place) == []
        assert house.ok("POST", "/api/reload") == {"taken": ["agents.bob.wake"], "restart": []}
        eventually(lambda: len(told(place)) == 2 and waiting(house) == [""] and notified(house, seq))
        assert sorted(kind for _, kind in told(place)) == ["mailbox.message", "message.received"]

        write(house, config(place, wake=False))
        assert house.ok("POST", "/api/reload") == {"taken": ["agents.bob.wake"], "restart": []}
        mail(house, "<two@customer.example>")
        later = send(house)
        eventually(lambda: waiting(house) == ["", "wake is off"])
        assert not notified(house, later)
        assert len(told(place)) == 2

        write(house, config(place, wake=True))
        house.ok("POST", "/api/reload")
        eventually(lambda: waiting(house) == ["", ""] and notified(house, later))
        assert len(told(place)) == 4


def test_what_needs_a_restart_is_named_without_its_value_and_a_config_that_cannot_be_meant_changes_nothing(tmp_path, place):
    with serving(tmp_path / "data", config(place, wake=False)) as house:
        token = house.agent("bob")
        assert house.call("POST", "/api/reload", token=token)[0] == 403
        write(house, config(place, wake=True, more='[relay]\nhost = "secret.example"\n'))
        done = house.cli("reload")
        assert done.stderr.splitlines() == ["taken over: agents.bob.wake", "at the next start: relay.host"]
        assert json.loads(house.cli("reload", "--json").stdout) == {"taken": [], "restart": ["relay.host"]}

        write(house, config(place, wake=False, more="[gate]\naproval = 'risk'\n"))
        wrong = house.cli("reload", check=False)
        assert (wrong.returncode, "unknown config key gate.aproval; did you mean approval?" in wrong.stderr) == (2, True)
        mail(house, "<one@customer.example>")
        eventually(lambda: len(told(place)) == 1)  # waking is on, as it was
