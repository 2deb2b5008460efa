"""Does a client reach the service? Runs the very command that its configuration names, and speaks MCP to it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from postroom.errors import TransportFailure

_WAIT_S: Final = 30
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_DATA_HOME")
_ME: Final = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "postroom doctor", "version": "1"}}
_ASKED: Final = ({"id": 1, "method": "initialize", "params": _ME}, {"id": 2, "method": "tools/list", "params": {}})


def reached(server: Mapping[str, Any]) -> str:
    """What the client finds: how many tools, and the first thing it is told. Raises `TransportFailure`."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | dict(server.get("env") or {})
    asked = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in _ASKED)
    try:
        done = subprocess.run(  # noqa: S603 - the command is the one the client itself starts
            [server["command"], *server.get("args", ())],
            input=asked, capture_output=True, text=True, timeout=_WAIT_S, check=False, env=environment,
        )  # fmt: skip
        answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines()) if "id" in answer}
        refused = next((answer["error"]["message"] for answer in answers.values() if "error" in answer), None)
        if refused is None:
            told = str(answers[1]["result"].get("instructions") or "")
            return f"{len(answers[2]['result']['tools'])} tools; {told.partition('. ')[0]}"
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as problem:
        refused = f"its command does not answer ({type(problem).__name__})"
    raise TransportFailure(str(refused), kind="permanent", fix="connect the client again")
