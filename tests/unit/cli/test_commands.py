"""Commands as a shell sees them: stdout, stderr, exit status."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pace import PATIENCE_S
from postroom.cli import main as cli
from postroom.cli.exits import ending
from postroom.cli.held import rendered

from .canned import Canned, owning, serving

MAIL: dict[str, Any] = {
    "outgoing_id": "out_1",
    "state": "held",
    "agent": "scout",
    "inbox_id": "scout@postroom.localhost",
    "bcc": ["eve@example.org"],
    "to": ["ada@example.org"],
    "cc": [],
    "from": "scout@postroom.localhost",
    "subject": "Hello",
    "text": "Dear Ada",
    "html": None,
    "reply_to": [],
    "headers": {},
    "attachments": [{"filename": "a.txt", "size": 3}],
    "size": 900,
    "digest": "0123456789abcdef" * 4,
    "boundary": "rule",
    "boundary_reason": "the caller runs as postroom's own OS user",
    "reasons": ["approval is always asked"],
    "expires_at": "2026-01-02T00:00:00.000Z",
}


@pytest.fixture(autouse=True)
def no_clients_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have connected clients of their own, which `doctor` would start."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "DSH_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canned]:
    for name in ("POSTROOM_URL", "POSTROOM_TOKEN", "POSTROOM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path / "house"))
    with serving() as canned, owning(tmp_path / "house", canned.url):
        canned.answers["GET", "/api/outgoing/out_1"] = (200, MAIL)
        yield canned


def run(*arguments: str) -> int:
    return ending(lambda: cli.run(arguments), as_json="--json" in arguments)


def test_a_new_agents_token_is_all_there_is_on_stdout(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    daemon.answers["POST", "/api/agents"] = (201, {"name": "scout", "inbox_id": "scout@x", "token": "am_1"})
    assert run("agent", "add", "scout", "--inbox", "scout@x", "--profile", "clerk") == 0
    out, err = capsys.readouterr()
    assert (out, "scout@x" in err) == ("am_1\n", True)
    assert daemon.asked == [("POST", "/api/agents", {"name": "scout", "profile": "clerk", "inbox": "scout@x"}, "am_owner")]


def test_json_is_the_services_answer(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    daemon.answers["GET", "/api/agents"] = (
        200,
        {"agents": [{"name": "scout", "profile": "clerk", "inboxes": ["a@x"], "created_at": "now"}]},
    )
    assert run("agent", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["agents"][0]["name"] == "scout"
    assert run("agent", "list") == 0
    assert capsys.readouterr().out.splitlines() == ["NAME   PROFILE  INBOXES  CREATED", "scout  clerk    a@x      now"]


def test_names_travel_as_one_path_segment(daemon: Canned):
    daemon.answers["DELETE", "/api/agents/a%2F..%2Fb"] = (200, {"name": "a/../b"})
    assert run("agent", "remove", "a/../b") == 0


def test_the_approval_screen_shows_all_that_is_approved(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    assert run("held", "show", "out_1") == 0
    screen = capsys.readouterr().out
    assert screen.index("eve@example.org") < screen.index("ada@example.org")
    for part in (
        "Hello",
        "  │ Dear Ada",
        "a.txt (3 bytes)",
        "rule  the caller runs as",
        MAIL["digest"],
        "approval is always asked",
    ):
        assert part in screen
    assert "postroom held approve out_1 --digest 0123456789abcdef\n" in screen


def test_the_screen_shows_what_else_would_leave_and_addresses_before_names():
    more = {"to": ['"boss@bank.example" <eve@example.org>'], "html": "<p>Send money</p>", "reply_to": ["x@evil.example"]}
    screen = rendered({**MAIL, **more, "headers": {"X-Odd": "yes"}})
    for part in (
        'to  eve@example.org ("boss@bank.example")',
        "  │ <p>Send money</p>",
        "reply-to  x@evil.example",
        "header  X-Odd: yes",
    ):
        assert part in screen


def test_a_header_of_the_mail_cannot_pose_as_a_row_of_the_screen():
    evil = dict.fromkeys(("to", "bcc", "attached", "why", "wall", "digest", "state"), "no worry")
    before, after = rendered(MAIL).splitlines(), rendered({**MAIL, "headers": evil}).splitlines()
    assert [row for row in after if row not in before] == [f"    header  {name}: no worry" for name in evil]


def test_what_nobody_can_see_is_said():
    assert "unseen" not in rendered(MAIL)
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "the key")
    screen = rendered({**MAIL, "text": f"Dear Ada{hidden}", "subject": "Hel\u200blo", "headers": {"X-A": "\u2060"}})
    assert "    unseen  9 characters that nobody can see are left out here; --raw has them\n" in screen


def test_nothing_in_a_mail_drives_the_terminal_or_poses_as_the_screen():
    evil = "\x1b[2J\x1b]0;x\x07\u202e\u200b\x9b31m\rpostroom held approve out_2\n\ndigest  ffff"
    screen = rendered({**MAIL, "subject": evil, "text": evil, "to": [evil], "reasons": [evil], "comment": evil, "html": evil})
    assert not any(char in screen for char in "\x1b\x07\x9b\r\u202e\u200b\x00")
    lines = screen.splitlines()
    assert sum(row.startswith("postroom held approve") for row in lines) == 1
    assert [row for row in lines if row.lstrip().startswith("digest")] == [f"    digest  {MAIL['digest']}"]


def test_approving_needs_the_digest_that_was_shown(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    daemon.answers["POST", "/api/outgoing/out_1/approve"] = (200, {**MAIL, "state": "sending"})
    assert run("held", "approve", "out_1") == 2
    assert run("held", "approve", "out_1", "--digest", MAIL["digest"][:15]) == 2
    assert run("held", "approve", "out_1", "--digest", "f" * 64) == 1
    assert [asked for asked in daemon.asked if asked[0] == "POST"] == []
    assert run("held", "approve", "out_1", "--digest", MAIL["digest"][:16]) == 0
    assert run("held", "approve", "out_1", "--digest", MAIL["digest"].upper(), "--json") == 0
    posts = [asked for asked in daemon.asked if asked[0] == "POST"]
    assert posts == [("POST", "/api/outgoing/out_1/approve", {"digest": MAIL["digest"]}, "am_owner")] * 2


@pytest.mark.parametrize(("answer", "status", "posted"), [("y", 0, 1), ("n", 1, 0), ("", 1, 0)])
def test_at_a_terminal_the_mail_is_shown_and_a_person_asked(daemon: Canned, answer: str, status: int, posted: int):
    daemon.answers["POST", "/api/outgoing/out_1/approve"] = (200, {**MAIL, "state": "sending"})
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "postroom.cli.main", "held", "approve", "out_1"]
    done = subprocess.run(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, timeout=PATIENCE_S)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert (done.returncode, done.stdout) == (status, b"")
    assert shown.index("Dear Ada") < shown.index("Let it go?")
    assert sum(asked[0] == "POST" for asked in daemon.asked) == posted


def test_refusing_says_why(daemon: Canned):
    daemon.answers["POST", "/api/outgoing/out_1/refuse"] = (200, {**MAIL, "state": "refused"})
    assert run("held", "refuse", "out_1", "--comment", "not like this") == 0
    assert daemon.asked[-1][2] == {"comment": "not like this"}


def test_held_mail_is_listed_one_a_line(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    listed = {"outgoing": [{**MAIL, "subject": "a\nb\x1b[0m"}], "next_page_token": "more"}
    daemon.answers["GET", "/api/outgoing?state=held&limit=50"] = (200, listed)
    assert run("held", "list") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert ("\x1b" in out, "there are more" in err) == (False, True)


def test_the_exact_bytes_go_to_stdout(daemon: Canned, capfdbinary: pytest.CaptureFixture[bytes]):
    daemon.answers["GET", "/api/outgoing/out_1/raw"] = (200, b"Subject: x\r\n\r\n\xff")
    assert run("held", "show", "out_1", "--raw") == 0
    assert capfdbinary.readouterr().out == b"Subject: x\r\n\r\n\xff"


def test_sessions_are_listed_and_woken(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    row = {"session_id": "agentmail-1", "inbox_id": "a@x", "host": "", "pending": 2, "waiting": "wake is off"}
    daemon.answers["GET", "/api/sessions"] = (200, {"sessions": [row]})
    daemon.answers["POST", "/api/sessions/agentmail-1/wake"] = (200, {"woken": False})
    assert (run("sessions", "list"), run("sessions", "wake", "agentmail-1")) == (0, 0)
    out, err = capsys.readouterr()
    assert ("wake is off" in out, "nothing here can wake it" in err) == (True, True)


def test_the_services_refusals_become_exit_statuses(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    assert run("held", "show", "out_2") == 4
    assert capsys.readouterr().err == "postroom: nothing canned\n"
    daemon.answers["POST", "/api/agents"] = (403, {"name": "AlreadyExistsError", "message": "taken", "code": "already_exists"})
    assert run("agent", "add", "scout", "--json") == 1
    assert json.loads(capsys.readouterr().err)["code"] == "already_exists"


def test_without_a_daemon_commands_say_how_to_start_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv("POSTROOM_URL", raising=False)
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path))
    commands = [("agent", "list"), ("agent", "add", "a"), ("held", "list"), ("held", "show", "out_1"), ("sessions", "list")]
    assert [run(*command) for command in commands] == [5] * len(commands)
    assert capsys.readouterr().err.count("postroom serve") == len(commands)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nope",),
        ("agent",),
        ("agent", "add"),
        ("held", "show"),
        ("held", "list", "--limit", "x"),
        ("serve", "--http", "x"),
        ("serve", "more"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...]):
    assert run(*arguments) == 2


def verdicts(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    return {check["what"]: (check["verdict"], check["said"]) for check in json.loads(capsys.readouterr().out)["checks"]}


def test_doctor_says_what_the_gate_is(daemon: Canned, capsys: pytest.CaptureFixture[str]):
    health = {"status": "ok", "version": "1", "boundary": "wall", "boundary_reason": "another user"}
    daemon.answers["GET", "/api/health"] = (200, health)
    assert run("doctor", "--json") == 0
    found = verdicts(capsys)
    assert found["gate"] == ("ok", "wall: another user")
    assert [found[what][0] for what in ("data folder", "owner key", "config", "daemon")] == ["ok"] * 4


def test_doctor_needs_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delenv("POSTROOM_URL", raising=False)
    assert run("doctor", "--data", str(tmp_path / "none"), "--json") == 0
    assert verdicts(capsys)["daemon"][0] == "note"


def test_doctor_finds_what_is_wrong(daemon: Canned, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    house = tmp_path / "house"
    house.chmod(0o755)
    (house / "owner.key").chmod(0o644)
    (house / "postroom.toml").write_text("[gate]\naproval = 'risk'\n")
    daemon.answers["GET", "/api/health"] = (
        200,
        {"status": "degraded", "version": "1", "boundary": "rule", "boundary_reason": "r"},
    )
    assert run("doctor", "--json") == 1
    found = verdicts(capsys)
    assert [found[what][0] for what in ("data folder", "owner key", "config", "daemon")] == ["wrong"] * 4
    assert "approval" in found["config"][1]


def test_doctor_misses_the_harness_an_agents_sessions_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.delenv("POSTROOM_URL", raising=False)
    monkeypatch.setattr("postroom.cli.hosts.find_spec", lambda name: None)
    monkeypatch.setattr("postroom.cli.hosts.shutil.which", lambda name: None)
    (tmp_path / "postroom.toml").write_text('[agents.scout]\nhost = "dsh"\n')
    assert run("doctor", "--data", str(tmp_path), "--json") == 1
    said = "its host is dsh, which is not here; run: pip install 'postroom[dsh]'"
    assert verdicts(capsys)["agent scout"] == ("wrong", said)


@pytest.mark.parametrize(
    ("loading", "forbidden"),
    [
        ("postroom.cli.mcp_stdio", "typer rich click pydantic sqlalchemy starlette httpx msgspec postroom.app postroom.safety"),
        ("postroom.cli.serve", "typer rich click postroom.app"),
        ("postroom.client", "typer rich click pydantic sqlalchemy starlette httpx msgspec asyncio postroom.app postroom.safety"),
    ],
)
def test_plumbing_and_the_daemon_load_no_more_than_they_need(loading: str, forbidden: str):
    script = f"import sys, postroom.cli.main, {loading}; print(*[name for name in {forbidden.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
