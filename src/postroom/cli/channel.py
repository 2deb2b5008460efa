"""Claude Code's channels: what waits, pushed into the session as it comes. Standard library only.

An extra that nobody relies on. The client's vendor must have switched channels on for the person, the client
confirms nothing, and pushes are known to get lost; so what is announced here counts as told to nobody else,
and hooks say it as if there were no channel. Ids and senders only: the sender as an attribute, never in the text.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from postroom import errors
from postroom.cli.hook import SAID, ask
from postroom.client import connect

_POLL_S, _RETRY_S = 50, 5.0
_CAPABILITY: Final = "claude/channel"
_TOLD: Final = " A channel tag from this server says by ids what waits in your mail; nobody expects an answer to it."


class Channel:
    """Announces to one client. `write` sends it a message."""

    def __init__(self, environ: Mapping[str, str], write: Callable[[bytes], None]) -> None:
        self._environ = environ
        self._write = write
        self._begun = False

    def declared(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The answer to a greeting, with the capability in it."""
        result = reply["result"]
        capabilities = result.get("capabilities") or {}
        experimental = {**(capabilities.get("experimental") or {}), _CAPABILITY: {}}
        told = {"instructions": (result.get("instructions") or "") + _TOLD}
        return {**reply, "result": {**result, **told, "capabilities": {**capabilities, "experimental": experimental}}}

    def begin(self) -> None:
        """Announce from now on, once, until the process ends."""
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        me = {"session_id": f"channel {self._environ.get('CLAUDE_CODE_SESSION_ID') or time.time_ns()}"}
        while True:
            try:
                waiting = ask(connect(environ=self._environ, timeout_s=_POLL_S + 10), me, again=False, wait_s=_POLL_S)
            except errors.PostroomError:
                time.sleep(_RETRY_S)  # the daemon is away; it is found anew
                continue
            for one in waiting:
                self._write(json.dumps(notification(one)).encode())


def notification(one: Mapping[str, Any]) -> dict[str, Any]:
    """One notice as the client takes it."""
    given = {name: one.get(name) for name in ("inbox_id", "thread_id", "message_id", "from")}
    meta = {name: str(value) for name, value in given.items() if value}
    params = {"content": f"postroom: {SAID.get(one['kind'], one['kind'])}", "meta": meta}
    return {"jsonrpc": "2.0", "method": "notifications/claude/channel", "params": params}
