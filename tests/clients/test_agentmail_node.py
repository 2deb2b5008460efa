"""The official AgentMail client for Node against `postroom serve`, changed in nothing but its base URL."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from egress.egress_watch import node_environment
from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from served import serving

NODE = Path(__file__).parent / "node"
SCOUT, NORA, OMAR = (f"{name}@postroom.localhost" for name in ("scout", "nora", "omar"))


@pytest.fixture(scope="module", params=ENGINES)
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client was answered in one run through everything."""
    if shutil.which("node") is None or not (NODE / "node_modules" / "agentmail").is_dir():
        pytest.skip("peer absent: AgentMail's client for Node (npm ci in tests/clients/node)")
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")} | node_environment()
    with url_of(request.param) as url, serving(tmp_path_factory.mktemp("house"), settings(url)) as served:
        command = ["node", "agentmail.mjs", served.url, served.owner, served.agent("scout")]
        done = subprocess.run(command, cwd=NODE, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_inboxes(said: dict[str, Any]) -> None:
    assert said["inboxes"] == {
        "id": NORA,
        "name": "Nora",
        "metadata": {"team": "blue"},
        "same": True,
        "dated": True,
        "listed": sorted([NORA, OMAR, SCOUT]),
        "renamed": "Nora N.",
        "taken": {"type": "AgentMailError", "status": 403, "code": "already_exists", "name": "AlreadyExistsError"},
    }
    assert said["deleted"]["status"] == 404


def test_mail_with_an_attachment_and_the_event_of_its_arrival(said: dict[str, Any]) -> None:
    assert said["mail"] == {
        "same": True,
        "heard": "message.received",
        "heardAbout": True,
        "labels": ["received", "unread"],
        "text": "What is it?",
        "html": True,
        "attachment": "a.txt",
        "content": "file",
        "raw": True,
    }


def test_replies_threads_labels_and_search(said: dict[str, Any]) -> None:
    assert said["thread"] == {
        "texts": ["What is it?", "Ten."],
        "joined": 3,
        "forwarded": "Fwd: Price?",
        "labels": ["done", "received"],
        "found": True,
        "batch": 1,
    }


def test_drafts_and_pages(said: dict[str, Any]) -> None:
    assert said["drafts"] == {"text": "two", "listed": ["Draft"], "sent": True, "left": 0}
    assert said["pages"] is True


def test_an_agents_mail_is_held_and_errors_are_the_clients_own(said: dict[str, Any]) -> None:
    errors = {what: (error["type"], error["status"], error.get("code")) for what, error in said["agent"].items()}
    assert errors == {
        "held": ("MessageRejectedError", 403, "held_for_approval"),
        "foreign": ("NotFoundError", 404, "not_found"),
        "forbidden": ("AgentMailError", 403, "forbidden"),
        "missing": ("NotFoundError", 404, "not_found"),
        "wrong": ("AgentMailError", 401, "unknown_api_key"),
        "invalid": ("ValidationError", 400, "invalid_address"),
    }
