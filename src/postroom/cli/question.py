"""The question a client that can show one is asked when its mail is held: leave it waiting, or refuse it.

It never offers a yes. The answer arrives beside the agent's own token, and whoever answers may be the agent:
so it may only refuse, and approving stays at the owner's door. The question follows the tool's result and
nothing waits for its answer; whatever is not a plain refusal, also none at all, leaves the mail as it is.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from postroom import errors
from postroom.client import connect

_ID: Final = "postroom-held-"
_ASKED_MOST, _NAMED_MOST, _TIMEOUT_S = 64, 20, 20.0
_COMMENT: Final = "refused in the agent's client"
_FORM: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "This mail",
            "description": "wait: leave it for the owner. refuse: it is never sent.",
            "enum": ["wait", "refuse"],
            "default": "wait",
        }
    },
    "required": ["decision"],
}


class Questions:
    """Asks one client. `write` sends it a message."""

    def __init__(self, environ: Mapping[str, str], write: Callable[[bytes], None]) -> None:
        self._environ = environ
        self._write = write
        self._guard = threading.Lock()
        self._shown = False
        self._count = 0
        self._asked: dict[str, str] = {}  # question id -> outgoing id; a client that never answers fills no memory

    def begin(self, greeting: Mapping[str, Any]) -> None:
        """Learn from an `initialize` that was answered whether this client shows forms."""
        self._shown = _shows_forms(greeting.get("params"))

    def follow(self, message: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        """Ask, if this answered call left a mail held. The result is with the client already: nothing here raises."""
        outgoing_id = _held(message, reply) if self._shown else None
        if outgoing_id is None:
            return
        try:
            mail = connect(environ=self._environ, timeout_s=_TIMEOUT_S).get(_path(outgoing_id))
        except errors.PostroomError as problem:
            _say(problem)
            return
        if mail["state"] == "held" and (question_id := self._noted(outgoing_id)):
            params = {"message": rendered(mail), "requestedSchema": _FORM}
            asked = {"jsonrpc": "2.0", "id": question_id, "method": "elicitation/create", "params": params}
            self._write(json.dumps(asked).encode())

    def take(self, message: Mapping[str, Any]) -> bool:
        """Whether this message answers a question of ours; if it refuses, the mail is refused with the agent's token."""
        given = message.get("id")
        if "method" in message or not isinstance(given, str) or not given.startswith(_ID):
            return False
        with self._guard:
            outgoing_id = self._asked.pop(given, None)
        if outgoing_id is not None and _refuses(message.get("result")):
            try:
                connect(environ=self._environ, timeout_s=_TIMEOUT_S).post(f"{_path(outgoing_id)}/refuse", {"comment": _COMMENT})
            except errors.PostroomError as problem:  # decided or expired meanwhile: that stands
                _say(problem)
        return True

    def _noted(self, outgoing_id: str) -> str | None:
        """The id of a new question; None when this mail is asked about already."""
        with self._guard:
            if outgoing_id in self._asked.values():
                return None
            while len(self._asked) >= _ASKED_MOST:
                del self._asked[next(iter(self._asked))]
            self._count += 1
            question_id = f"{_ID}{self._count}"
            self._asked[question_id] = outgoing_id
        return question_id


def rendered(mail: Mapping[str, Any]) -> str:
    """What the question says: recipients, hidden ones first, and subject, each on a line that cannot pose as ours."""
    from postroom.cli.output import address_first, line  # a client that is asked nothing starts sooner without it

    named = [(name, address_first(entry)) for name in ("bcc", "to", "cc") for entry in mail[name]]
    rows = [f"{name}: {line(entry)}" for name, entry in named[:_NAMED_MOST]]
    if len(named) > _NAMED_MOST:
        rows.append(f"and {len(named) - _NAMED_MOST} more recipients")
    rows.append(f"subject: {line(mail['subject'])}")
    outgoing_id = line(mail["outgoing_id"])
    door = f"Approving is done only at the owner's door: postroom held approve {outgoing_id}"
    return "\n".join([f"{outgoing_id} is held, not sent.", *rows, f"{door}. Here it can be left waiting, or refused for good."])


def _shows_forms(params: Any) -> bool:
    capabilities = params.get("capabilities") if isinstance(params, dict) else None
    declared = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(declared, dict) and (not declared or "form" in declared)  # an empty one means forms


def _held(message: Mapping[str, Any], reply: Mapping[str, Any]) -> str | None:
    result = reply.get("result") if message.get("method") == "tools/call" else None
    told = result.get("structuredContent") if isinstance(result, dict) else None
    outgoing_id = told.get("approval_id") if isinstance(told, dict) and told.get("status") == "held" else None
    return outgoing_id if isinstance(outgoing_id, str) else None


def _refuses(result: Any) -> bool:
    content = result.get("content") if isinstance(result, dict) and result.get("action") == "accept" else None
    return isinstance(content, dict) and content.get("decision") == "refuse"


def _path(outgoing_id: str) -> str:
    return f"/api/outgoing/{quote(outgoing_id, safe='')}"


def _say(problem: errors.PostroomError) -> None:
    print(f"postroom mcp: {problem.message}", file=sys.stderr)
