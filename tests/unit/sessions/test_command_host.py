"""The `command` host: argv on a diet of environment, a token for one turn, exit 0 means taken."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from postroom import config
from postroom.model.session import Delivery, Liveness, Notice
from postroom.sessions.hosts.command import CommandHost


class Issuer:
    """Hands out one token per turn and remembers what was revoked."""

    def __init__(self) -> None:
        self.issued: list[tuple[str, str]] = []
        self.revoked: list[str] = []

    async def issue(self, agent_id: str, session_id: str) -> tuple[str, str]:
        self.issued.append((agent_id, session_id))
        return "am_turn_secret", f"key_{len(self.issued)}"

    async def revoke(self, key_id: str) -> None:
        self.revoked.append(key_id)


NOTICE = Notice(seq=7, event_id="evt_1", kind="message.received", text="New mail", message_id="<a@b.example>", thread_id="t")
DELIVERY = Delivery(
    session_id="agentmail-t", thread_id="t", inbox_id="scout@postroom.localhost", agent="scout", agent_id="agt_1",
    notices=(NOTICE,), wake=True, seed=None,
)  # fmt: skip


def host(program: str, issuer: Issuer, tmp_path: Path, **settings: Any) -> CommandHost:
    agent = config.Agent(host="command", command=(sys.executable, "-c", program), cwd=str(tmp_path), **settings)
    return CommandHost({"scout": agent}, issuer, lambda: "http://127.0.0.1:4470")


async def test_the_child_gets_the_notices_a_token_and_little_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setenv("MODEL_KEY", "its own")
    program = "import json,os,sys; json.dump([json.load(sys.stdin), dict(os.environ)], open('seen.json','w'))"
    issuer = Issuer()
    assert await host(program, issuer, tmp_path, environment=("MODEL_KEY", "NOT_SET")).deliver(DELIVERY) is True

    message, environment = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))
    assert message["session_id"] == "agentmail-t"
    assert message["agent"] == "scout"
    assert message["notices"] == [
        {
            "seq": 7, "event_id": "evt_1", "kind": "message.received", "text": "New mail",
            "message_id": "<a@b.example>", "thread_id": "t", "repeated": False,
        }
    ]  # fmt: skip
    assert environment["POSTROOM_TOKEN"] == "am_turn_secret"
    assert environment["POSTROOM_URL"] == "http://127.0.0.1:4470"
    assert environment["MODEL_KEY"] == "its own"
    assert not {"AWS_SECRET_ACCESS_KEY", "NOT_SET"} & environment.keys()
    assert (issuer.issued, issuer.revoked) == ([("agt_1", "agentmail-t")], ["key_1"])


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
async def test_a_child_that_fails_took_nothing_and_its_token_is_revoked(program: str, tmp_path: Path):
    issuer = Issuer()
    assert await host(program, issuer, tmp_path).deliver(DELIVERY) is False
    assert issuer.revoked == ["key_1"]


async def test_a_child_that_never_reads_and_talks_much_is_no_obstacle(tmp_path: Path):
    assert await host("print('x' * 3_000_000)", Issuer(), tmp_path).deliver(DELIVERY) is True


async def test_a_program_that_is_not_there_took_nothing(tmp_path: Path):
    issuer = Issuer()
    missing = config.Agent(host="command", command=(str(tmp_path / "absent"),))
    assert await CommandHost({"scout": missing}, issuer, lambda: "").deliver(DELIVERY) is False
    assert issuer.revoked == ["key_1"]


async def test_a_turn_over_its_time_is_ended(tmp_path: Path):
    issuer = Issuer()
    command = host("import time; time.sleep(60)", issuer, tmp_path, turn_s=0.2)
    assert await command.deliver(DELIVERY) is False
    assert await command.liveness("agentmail-t") is Liveness.UNKNOWN
    assert issuer.revoked == ["key_1"]
