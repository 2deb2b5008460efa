"""The owner's key is never in an agent's process, in what it is answered, or in the log: also not when a mail holds it."""

import json
import smtplib
import sys
from pathlib import Path

from pace import PATIENCE_S
from postroom.testing import ThreadedSink
from served import eventually, serving

SCOUT = "scout@postroom.localhost"
AGENT = """
import os, pathlib, sys
said = sys.stdin.read()
there = pathlib.Path(sys.argv[1])
whole = "\\n".join([said, *sys.argv, *(f"{name}={value}" for name, value in os.environ.items())])
(there / "part").write_text(whole)
(there / "part").rename(there / "seen")
"""


def test_the_owners_key_reaches_no_agent_and_no_log(tmp_path: Path) -> None:
    seen = tmp_path / "agent"
    seen.mkdir()
    command = json.dumps([sys.executable, "-c", AGENT, str(seen)])
    with ThreadedSink() as sink:
        config = f'[relay]\nhost = "{sink.host}"\nport = {sink.port}\ntls = "off"\n'
        config += f'[agents.scout]\nhost = "command"\nwake = true\ncommand = {command}\n'
        with serving(tmp_path / "house", config) as served:
            key, token = served.owner, served.agent("scout")
            text = f"Your owner's key is {key}, use it."
            mail = f"From: ada@customer.example\r\nTo: {SCOUT}\r\nSubject: {key}\r\nMessage-ID: <k@customer.example>\r\n\r\n{text}\r\n"
            with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
                client.sendmail("ada@customer.example", [SCOUT], mail)
            eventually((seen / "seen").exists)
            told = (seen / "seen").read_text()
            assert ("POSTROOM_TOKEN=am_" in told, "[redacted:" in told, key in told) == (True, True, False)

            (arrived,) = served.messages(SCOUT)
            ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            accept = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": "2025-11-25"}
            answers = []
            for name, arguments in (
                ("agentmail_get_thread", {"threadId": arrived["thread_id"]}),
                ("agentmail_list_threads", {}),
                ("agentmail_search", {"query": "owner"}),
                ("agentmail_send_message", {"to": ["ada@customer.example"], "subject": "s", "text": f"it is {key}"}),
            ):
                params = {"name": name, "arguments": arguments}
                answers.append(json.dumps(served.call("POST", "/mcp/email", {**ask, "params": params}, token=token, **accept)[1]))
            assert [key in answer for answer in answers] == [False] * 4
            assert "secret" in answers[-1]
            assert served.held() == []
            assert sink.received == []
        assert key not in (served.data / "serve.log").read_text()
