"""agentmail-toolkit from PyPI against `postroom serve`: every tool through two frameworks' adapters, unmodified.

It lives in an environment of its own (`toolkit/requirements.txt`): its frameworks must not decide our versions.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from served import clean_environment, serving

TOOLKIT = Path(__file__).parent / "toolkit"
PYTHON = TOOLKIT / ".venv" / "bin" / "python"


@pytest.fixture(
    scope="module", params=[(engine, adapter) for engine in ENGINES for adapter in ("langchain", "openai")], ids=" ".join
)
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the tools answered in one run through all of them."""
    if not PYTHON.exists():
        pytest.skip(
            "peer absent: agentmail-toolkit (pip install --no-deps -r tests/clients/toolkit/requirements.txt into .venv there)"
        )
    engine, adapter = request.param
    with url_of(engine) as url, serving(tmp_path_factory.mktemp("house"), settings(url)) as served:
        command = [PYTHON, "scenario.py", served.url, served.owner, served.agent("scout"), adapter]
        done = subprocess.run(command, cwd=TOOLKIT, capture_output=True, text=True, timeout=PATIENCE_S, env=clean_environment())
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def test_every_tool_of_the_toolkit_does_its_work(said: dict[str, Any]) -> None:
    assert said["tools"] == [
        "agent_attach_human",
        "agent_verify",
        "create_inbox",
        "delete_inbox",
        "forward_message",
        "get_attachment",
        "get_inbox",
        "get_thread",
        "list_inboxes",
        "list_threads",
        "reply_to_message",
        "send_message",
        "update_message",
    ]
    assert said["inboxes"] == [f"{name}@postroom.localhost" for name in ("nora", "omar", "scout")]
    done = {name: said[name] for name in ("inbox", "thread", "attachment", "labels", "forwarded")}
    assert done == {
        "inbox": "Nora",
        "thread": ["Price?", "What is it?"],
        "attachment": "a.txt",
        "labels": ["done", "received"],
        "forwarded": True,
    }


def test_refusals_reach_the_model_as_text_it_can_act_on(said: dict[str, Any]) -> None:
    assert said["held"].startswith("the message was not sent: it waits for its owner's approval")
    assert "postroom held approve out_" in said["held"]
    for name in ("foreign", "deleted"):
        assert said[name].startswith("Inbox not found")
    assert said["human"].startswith("agent sign-up: not offered by this server")
