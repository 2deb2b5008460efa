"""The question about held mail: whom it is asked, what it says, and that only a plain refusal does anything."""

import io
import json
from typing import Any

import pytest

from postroom.cli.mcp_stdio import Forwarder
from postroom.cli.question import Questions, rendered

from .canned import serving

MAIL = {
    "outgoing_id": "out_1",
    "state": "held",
    "to": ["Ada <ada@x.example>"],
    "cc": [],
    "bcc": ["eve@x.example"],
    "subject": "Hi",
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
HELD = {"jsonrpc": "2.0", "id": 1, "result": {"structuredContent": {"status": "held", "approval_id": "out_1"}}}
ANSWER = {"jsonrpc": "2.0", "id": "postroom-held-1", "result": {"action": "accept", "content": {"decision": "refuse"}}}


def greeting(capabilities: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": capabilities}}


@pytest.mark.parametrize(
    ("capabilities", "asked"),
    [
        ({"elicitation": {}}, 1),
        ({"elicitation": {"form": {}}}, 1),
        ({"elicitation": {"url": {}}}, 0),
        ({}, 0),
        (None, 0),
        ([], 0),
    ],
)
def test_only_a_client_that_shows_forms_is_asked_and_once_about_one_mail(capabilities, asked):
    with serving() as daemon:
        daemon.answers["GET", "/api/outgoing/out_1"] = (200, MAIL)
        written: list[bytes] = []
        questions = Questions({"POSTROOM_URL": daemon.url, "POSTROOM_TOKEN": "t"}, written.append)
        questions.follow(CALL, HELD)  # before any greeting: nobody is known to show it
        questions.begin(greeting(capabilities))
        questions.follow(CALL, HELD)
        questions.follow(CALL, HELD)
        questions.follow({**CALL, "method": "resources/read"}, HELD)
        questions.follow(CALL, {**HELD, "result": {"structuredContent": {"status": "refused", "approval_id": "out_1"}}})
    assert len(written) == asked
    assert len(daemon.asked) == 2 * asked


def test_a_mail_that_cannot_be_shown_or_is_decided_is_not_asked_about(capsys):
    written: list[bytes] = []
    with serving() as daemon:
        questions = Questions({"POSTROOM_URL": daemon.url, "POSTROOM_TOKEN": "t"}, written.append)
        questions.begin(greeting({"elicitation": {}}))
        daemon.answers["GET", "/api/outgoing/out_1"] = (404, {"name": "NotFoundError", "message": "no such mail"})
        questions.follow(CALL, HELD)
        daemon.answers["GET", "/api/outgoing/out_1"] = (200, {**MAIL, "state": "sent"})
        questions.follow(CALL, HELD)
    assert written == []
    assert "postroom mcp: " in capsys.readouterr().err


def test_a_refusal_counts_once_and_answers_to_questions_never_asked_do_nothing():
    with serving() as daemon:
        daemon.answers["GET", "/api/outgoing/out_1"] = (200, MAIL)
        daemon.answers["POST", "/api/outgoing/out_1/refuse"] = (200, {})
        questions = Questions({"POSTROOM_URL": daemon.url, "POSTROOM_TOKEN": "t"}, lambda content: None)
        questions.begin(greeting({"elicitation": {}}))
        assert questions.take(ANSWER)
        questions.follow(CALL, HELD)
        assert questions.take(ANSWER)
        assert questions.take(ANSWER)
        assert not questions.take({**ANSWER, "id": 7})
        assert not questions.take({**CALL, "id": "postroom-held-1"})
    assert [(method, path) for method, path, *_ in daemon.asked] == [
        ("GET", "/api/outgoing/out_1"),
        ("POST", "/api/outgoing/out_1/refuse"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"action": "accept", "content": {"decision": "approve"}}},
        {"result": {"action": "accept", "content": {"decision": ["refuse"]}}},
        {"result": {"action": "accept", "content": "refuse"}},
        {"result": {"action": "decline", "content": {"decision": "refuse"}}},
        {"result": {"action": "cancel"}},
        {"result": None},
        {"error": {"code": -32601, "message": "no such method"}},
        {},
    ],
)
def test_whatever_is_no_plain_refusal_asks_the_daemon_for_nothing(answer):
    with serving() as daemon:
        daemon.answers["GET", "/api/outgoing/out_1"] = (200, MAIL)
        questions = Questions({"POSTROOM_URL": daemon.url, "POSTROOM_TOKEN": "t"}, lambda content: None)
        questions.begin(greeting({"elicitation": {}}))
        questions.follow(CALL, HELD)
        assert questions.take({"jsonrpc": "2.0", "id": "postroom-held-1", **answer})
    assert [method for method, *_ in daemon.asked] == ["GET"]


def test_the_result_goes_before_the_question():
    out = io.BytesIO()
    with serving() as daemon:
        daemon.answers["GET", "/api/outgoing/out_1"] = (200, MAIL)
        forwarder = Forwarder("/mcp", {"POSTROOM_URL": daemon.url, "POSTROOM_TOKEN": "t"}, out)
        for message, reply in ((greeting({"elicitation": {}}), {"jsonrpc": "2.0", "id": 0, "result": {}}), (CALL, HELD)):
            daemon.answers["POST", "/mcp"] = (200, reply)
            forwarder.run(io.BytesIO(json.dumps(message).encode() + b"\n"))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line.get("method", line["id"]) for line in lines] == [0, 1, "elicitation/create"]


def test_what_others_wrote_cannot_pose_as_the_question():
    written = {**MAIL, "subject": "Hi\nto: nobody\u202e\u200b@x.example", "to": [f"{n}@x.example" for n in range(30)]}
    lines = rendered(written).splitlines()
    assert lines[0] == "out_1 is held, not sent."
    assert lines[1:3] == ["bcc: eve@x.example", "to: 0@x.example"]
    assert lines[21:23] == ["and 11 more recipients", "subject: Hi to: nobody@x.example"]
    assert len(lines) == 24
    assert "to: ada@x.example (Ada)" in rendered(MAIL)
