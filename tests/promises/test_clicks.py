"""A bridge's key is an agent's: from another OS user its report of a click lets nothing go, from our own it does what the owner allowed."""

import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pace import PATIENCE_S
from postroom.testing import ThreadedSink
from served import Served, eventually, serving

ASKER = "ada@customer.example"
CALL = {
    "name": "agentmail_send_message",
    "callId": "toolu_1",
    "sessionId": "s",
    "arguments": {"to": [ASKER], "subject": "Offer", "text": "40"},
}


def config(sink: ThreadedSink, approvals: str) -> str:
    relay = f'[relay]\nhost = "{sink.host}"\nport = {sink.port}\ntls = "off"\n'
    return relay + f'[gate]\nharness_approvals = "{approvals}"\n'


def from_another_user(served: Served, key: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    """The plugin's request, made by a user that is neither root nor us."""
    url = f"{served.url}/bridge/{verb}"
    curl = f"curl -s -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d @- {url}"
    command = ["su", "-s", "/bin/sh", pwd.getpwnam("nobody").pw_name, "-c", curl]
    done = subprocess.run(command, input=json.dumps(body), capture_output=True, text=True, timeout=PATIENCE_S, cwd="/")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize(("approvals", "asked"), [("auto", False), ("off", False), ("on", True)])
def test_behind_a_wall_a_click_counts_only_if_the_owner_said_so(tmp_path: Path, approvals: str, asked: bool):
    if os.getuid() != 0:
        pytest.skip("needs root to become a second user")
    for peer in ("curl", "su"):
        if shutil.which(peer) is None:
            pytest.skip(f"{peer} is not installed")
    with ThreadedSink() as sink, serving(tmp_path / "house", config(sink, approvals)) as served:
        served.agent("scout")
        key = served.ok("POST", "/api/agents/scout/bridge")["token"]
        assert ("question" in from_another_user(served, key, "question", CALL)) is asked
        held = from_another_user(served, key, "tool", CALL)["data"]
        yes = {"outgoingId": held["approval_id"], "digest": held["digest"], "allowed": True}
        told = from_another_user(served, key, "answer", yes)
        (mail,) = served.ok("GET", "/api/outgoing")["outgoing"]
        assert mail["boundary"] == "wall"
        if asked:
            eventually(lambda: sink.received)
        else:
            assert told["name"] == "ForbiddenError"
            assert mail["state"] == "held"
            assert sink.received == []


def test_as_our_own_user_a_click_counts_and_only_for_the_digest_that_was_shown(tmp_path: Path):
    with ThreadedSink() as sink, serving(tmp_path / "house", config(sink, "auto")) as served:
        token = served.agent("scout")
        key = served.ok("POST", "/api/agents/scout/bridge")["token"]
        asked = served.ok("POST", "/bridge/question", CALL, token=key)
        yes = {"outgoingId": asked["outgoingId"], "digest": asked["digest"], "allowed": True}
        assert served.call("POST", "/bridge/answer", yes, token=token)[0] == 403  # an agent's own token reports nothing
        assert served.call("POST", "/bridge/answer", yes | {"digest": "0" * 64}, token=key)[0] == 409
        assert served.call("POST", f"/api/outgoing/{yes['outgoingId']}/approve", {"digest": yes["digest"]}, token=key)[0] == 403
        assert sink.received == []
        served.ok("POST", "/bridge/answer", yes, token=key)
        eventually(lambda: sink.received)
