"""`postroom mcp`: what it adds to a client's messages, and what it does not."""

import io
import json

import pytest

from postroom.cli.channel import notification
from postroom.cli.mcp_stdio import Forwarder

from .canned import serving

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "_meta": {"claudecode/toolUseId": "toolu_1"}}}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.mark.parametrize(
    ("message", "session", "forwarded"),
    [
        (CALL, "s-1", {**CALL, "params": {"name": "x", "_meta": {"sessionId": "s-1", "claudecode/toolUseId": "toolu_1"}}}),
        (CALL, None, CALL),
        (LIST, "s-1", LIST),
        ({**CALL, "params": None}, "s-1", {**CALL, "params": None}),
    ],
)
def test_a_call_names_the_session_that_the_client_put_into_the_environment(message, session, forwarded):
    with serving() as daemon:
        daemon.answers["POST", "/mcp"] = (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
        environ = {"POSTROOM_URL": daemon.url, "POSTROOM_TOKEN": "t"}
        environ |= {} if session is None else {"CLAUDE_CODE_SESSION_ID": session}
        out = io.BytesIO()
        Forwarder("/mcp", environ, out).run(io.BytesIO(json.dumps(message).encode() + b"\n"))
    assert [body for _, _, body, _ in daemon.asked] == [forwarded]
    assert json.loads(out.getvalue()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_an_announcement_holds_ids_and_the_sender_beside_the_text():
    one = {"kind": "message.received", "inbox_id": "a@x", "thread_id": "t", "message_id": None, "from": "ada@x", "seq": 1}
    assert notification(one) == {
        "jsonrpc": "2.0",
        "method": "notifications/claude/channel",
        "params": {"content": "postroom: new mail", "meta": {"inbox_id": "a@x", "thread_id": "t", "from": "ada@x"}},
    }
