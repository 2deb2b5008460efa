"""The claim: with an agent's token and the network, nothing leaves that its owner did not allow.

Every route that exists is tried, against a real daemon, a real relay sink, and from a real shell
under a second user. The local recipient counts too: mail between inboxes of the house is mail.
"""

import json
import os
import pwd
import shutil
import smtplib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pace import PATIENCE_S
from postroom.testing import ThreadedSink
from served import Served, eventually, serving

SCOUT, OTHER = "scout@postroom.localhost", "other@postroom.localhost"
STRANGER, ASKER = "mallory@elsewhere.example", "ada@customer.example"
MAIL = b"From: Ada <ada@customer.example>\r\nTo: scout@postroom.localhost\r\nSubject: Hi\r\nMessage-ID: <hi@customer.example>\r\n\r\nHello?\r\n"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[tuple[Served, ThreadedSink, str]]:
    """A daemon with a relay, two agents, and one mail from outside in scout's inbox."""
    with ThreadedSink() as sink:
        config = f'[relay]\nhost = "{sink.host}"\nport = {sink.port}\ntls = "off"\n'
        with serving(tmp_path / "house", config) as served:
            token = served.agent("scout")
            served.agent("other")
            with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
                client.sendmail(ASKER, [SCOUT], MAIL)
            eventually(lambda: served.messages(SCOUT))
            yield served, sink, token


def tool(served: Served, token: str, name: str, arguments: dict) -> dict:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    accept = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": "2025-11-25"}
    status, answer = served.call("POST", "/mcp/email", request, token=token, **accept)
    assert status == 200, answer
    return answer["result"]


def nothing_left(served: Served, sink: ThreadedSink) -> None:
    assert sink.received == []
    assert served.messages(OTHER) == []
    states = {row["state"] for row in served.ok("GET", "/api/outgoing")["outgoing"]}
    assert states <= {"held", "refused"}


def test_tools_hold(house):
    served, sink, token = house
    (mail,) = served.messages(SCOUT)
    for recipient in (STRANGER, OTHER):
        sent = tool(served, token, "agentmail_send_message", {"to": [recipient], "subject": "s", "text": f"t {recipient}"})
        assert sent["structuredContent"]["status"] == "held"
    replied = tool(served, token, "agentmail_reply", {"messageId": mail["message_id"], "text": "yes"})
    assert replied["structuredContent"]["status"] == "held"
    draft = tool(served, token, "agentmail_create_draft", {"to": [STRANGER], "subject": "d", "text": "draft"})
    sent = tool(served, token, "agentmail_send_draft", {"draftId": draft["structuredContent"]["draftId"]})
    assert sent["structuredContent"]["status"] == "held"
    nothing_left(served, sink)
    assert len(served.held()) == 4


@pytest.mark.parametrize("recipient", [STRANGER, OTHER, SCOUT])
@pytest.mark.parametrize("field", ["to", "cc"])
def test_rest_sends_hold(house, recipient: str, field: str):
    served, sink, token = house
    body = {field: recipient, "subject": "s", "text": "t"}
    status, answer = served.call("POST", f"/v0/inboxes/{SCOUT}/messages/send", body, token=token)
    assert (status, answer["name"], answer["code"]) == (403, "MessageRejectedError", "held_for_approval")
    assert answer["approval_id"] == served.held()[0]["outgoing_id"]
    nothing_left(served, sink)


def test_a_hidden_recipient_is_refused_and_said_to_be(house):
    served, sink, token = house
    body = {"to": ASKER, "bcc": STRANGER, "subject": "s", "text": "t"}
    status, answer = served.call("POST", f"/v0/inboxes/{SCOUT}/messages/send", body, token=token)
    assert (status, answer["code"], answer["addresses"]) == (403, "message_rejected", [STRANGER])
    assert "agents may not send Bcc here" in answer["message"]
    nothing_left(served, sink)


@pytest.mark.parametrize("verb", ["reply", "reply-all", "forward"])
def test_rest_answers_hold(house, verb: str):
    served, sink, token = house
    path = f"/v0/inboxes/{SCOUT}/messages/{quote('<hi@customer.example>', safe='')}/{verb}"
    body = {"text": "t"} | ({"to": STRANGER} if verb == "forward" else {})
    status, answer = served.call("POST", path, body, token=token)
    assert (status, answer["code"]) == (403, "held_for_approval")
    nothing_left(served, sink)


def test_a_scheduled_draft_in_the_past_is_held_when_due(house):
    served, sink, token = house
    body = {"to": [STRANGER], "subject": "s", "text": "t", "send_at": "2020-01-01T00:00:00Z"}
    served.ok("POST", f"/v0/inboxes/{SCOUT}/drafts", body, token=token)
    (held,) = eventually(served.held)
    assert held["to"] == [STRANGER]
    nothing_left(served, sink)


def test_editing_a_draft_after_submit_changes_nothing_that_was_asked(house):
    served, sink, token = house
    drafts = f"/v0/inboxes/{SCOUT}/drafts"
    draft = served.ok("POST", drafts, {"to": [ASKER], "subject": "s", "text": "harmless"}, token=token)
    status, answer = served.call("POST", f"{drafts}/{draft['draft_id']}/send", {}, token=token)
    assert (status, answer["code"]) == (403, "held_for_approval")
    (held,) = served.held()
    served.ok("PATCH", f"{drafts}/{draft['draft_id']}", {"to": [STRANGER], "text": "the secret"}, token=token)
    nothing_left(served, sink)

    served.ok("POST", f"/api/outgoing/{held['outgoing_id']}/approve", {"digest": held["digest"]})
    (taken,) = eventually(lambda: sink.received)
    assert taken.rcpt_to == (ASKER,)
    assert b"harmless" in taken.raw
    assert b"the secret" not in taken.raw


def test_an_agent_may_refuse_but_never_approve(house):
    served, sink, token = house
    body = {"to": STRANGER, "subject": "s", "text": "t"}
    served.call("POST", f"/v0/inboxes/{SCOUT}/messages/send", body, token=token)
    (held,) = served.held()
    path = f"/api/outgoing/{held['outgoing_id']}"
    assert served.call("POST", f"{path}/approve", {"digest": held["digest"]}, token=token)[0] == 403
    assert served.call("POST", f"{path}/approve", {"digest": held["digest"]}, token=served.tokens["other"])[0] in (403, 404)
    assert served.call("GET", path, token=served.tokens["other"])[0] == 404
    assert served.call("POST", f"{path}/refuse", {"comment": "no"}, token=token)[0] == 200
    status, answer = served.call("POST", f"{path}/approve", {"digest": held["digest"]})
    assert (status, answer["code"]) == (409, "wrong_state")
    nothing_left(served, sink)


def test_an_agent_cannot_widen_its_own_rights(house):
    served, sink, token = house
    inbox = f"/v0/inboxes/{SCOUT}"
    for method, path, body in [
        ("POST", "/v0/inboxes", {}),
        ("POST", "/v0/api-keys", {"name": "k"}),
        ("POST", f"{inbox}/api-keys", {"name": "k"}),
        ("POST", "/v0/webhooks", {"url": "http://127.0.0.1:9/", "event_types": ["message.received"]}),
        ("POST", f"{inbox}/lists/send/allow", {"entry": STRANGER}),
        ("DELETE", f"{inbox}/lists/send/block/{STRANGER}", None),
        ("DELETE", inbox, None),
        ("DELETE", f"{inbox}/messages/{quote('<hi@customer.example>', safe='')}", None),
        ("POST", "/api/agents", {"name": "third"}),
        ("POST", "/api/agents/other/rotate", None),
        ("DELETE", "/api/agents/other", None),
        ("POST", "/v0/pods", {}),
    ]:
        status, answer = served.call(method, path, body, token=token)
        assert status in (403, 404), (method, path, status, answer)
    for path in (f"/v0/inboxes/{OTHER}", f"/v0/inboxes/{OTHER}/messages", f"/v0/inboxes/{OTHER}/threads"):
        assert served.call("GET", path, token=token)[0] == 404
    assert served.call("POST", f"/v0/inboxes/{OTHER}/messages/send", {"to": STRANGER, "text": "t"}, token=token)[0] == 404
    nothing_left(served, sink)


def test_smtp_neither_relays_nor_speaks_for_a_local_inbox(house):
    served, sink, token = house
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
        client.ehlo()
        assert client.docmd("AUTH", f"PLAIN {token}")[0] == 501
        assert client.mail(SCOUT)[0] in (250, 550)
        assert client.rcpt(STRANGER)[0] in (503, 550)
    forged = MAIL.replace(b"Ada <ada@customer.example>", b"scout@postroom.localhost").replace(b"To: scout@", b"To: other@")
    for sender in (SCOUT, ASKER, ""):
        with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client, pytest.raises(smtplib.SMTPException):
            client.sendmail(sender, [OTHER], forged)
    nothing_left(served, sink)


@pytest.mark.parametrize("recipient", [STRANGER, OTHER])
def test_smtp_submission_holds_and_speaks_for_the_tokens_own_inbox_only(house, recipient: str):
    served, sink, token = house
    mail = f"From: %s\r\nTo: {recipient}\r\nSubject: s\r\n\r\nt\r\n"
    for _ in range(2):  # sent again it is the same mail
        with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
            client.login(SCOUT, token)
            with pytest.raises(smtplib.SMTPDataError) as held:
                client.sendmail(SCOUT, [recipient], mail % SCOUT)
        assert held.value.smtp_code == 451, held.value
        (row,) = served.held()
        assert (held.value.smtp_code, row["outgoing_id"] in held.value.smtp_error.decode()) == (451, True)
        assert (row["from"], row["to"]) == (SCOUT, [recipient])
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
        with pytest.raises(smtplib.SMTPAuthenticationError) as refused:
            client.login(OTHER, token)
        assert refused.value.smtp_code == 535
        client.login(SCOUT, token)
        with pytest.raises(smtplib.SMTPDataError) as forged:
            client.sendmail(SCOUT, [recipient], mail % OTHER)
        assert (forged.value.smtp_code, b"5.1.8" in forged.value.smtp_error) == (550, True)
        assert client.mail(OTHER)[0] == 550
    nothing_left(served, sink)


def second_user() -> str:
    """A user that is neither root nor us."""
    if os.getuid() != 0:
        pytest.skip("needs root to become a second user")
    return pwd.getpwnam("nobody").pw_name


def test_from_a_shell_under_another_user_the_gate_is_a_wall(house, tmp_path: Path):
    served, sink, token = house
    user = second_user()
    for peer in ("curl", "swaks", "su"):
        if shutil.which(peer) is None:
            pytest.skip(f"{peer} is not installed")
    script = f"""
cat {served.data}/owner.key && echo READ-OWNER-KEY
ls {served.data} && echo LISTED-FOLDER
curl -s -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \
  -d '{{"to":"{STRANGER}","subject":"s","text":"t"}}' {served.url}/v0/inboxes/{SCOUT}/messages/send
curl -s -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' -d '{{}}' {served.url}/api/agents
swaks --server {served.smtp[0]}:{served.smtp[1]} --from {SCOUT} --to {STRANGER}
swaks --server {served.smtp[0]}:{served.smtp[1]} --from {SCOUT} --to {OTHER} --auth plain --auth-user {SCOUT} --auth-password {token}
true
"""
    done = subprocess.run(
        ["su", "-s", "/bin/sh", user, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, cwd="/"
    )
    assert "READ-OWNER-KEY" not in done.stdout
    assert "LISTED-FOLDER" not in done.stdout
    assert "held_for_approval" in done.stdout
    nothing_left(served, sink)
    assert [held["boundary"] for held in served.held()] == ["wall", "wall"]  # by HTTP and by SMTP
    held = served.held()[0]
    assert json.loads(served.cli("held", "show", held["outgoing_id"], "--json").stdout)["boundary"] == "wall"
