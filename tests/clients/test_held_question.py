"""The question about held mail: the official client over `postroom mcp`, against a real daemon."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import ElicitResult

from pace import PATIENCE_S
from served import Served, clean_environment, eventually, serving

DESK = "desk@postroom.localhost"
COMMAND = [sys.executable, "-m", "postroom.cli.main", "mcp"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("house")) as served:
        served.agent("scout")
        served.agent("desk")
        yield served


class Person:
    """Who sits at the client: keeps what is shown, and answers as told; with None never."""

    def __init__(self, answer: ElicitResult | None) -> None:
        self.answer = answer
        self.shown: asyncio.Queue[Any] = asyncio.Queue()

    async def __call__(self, context: object, params: Any) -> ElicitResult:
        await self.shown.put(params)
        if self.answer is None:
            await asyncio.Event().wait()
        assert self.answer is not None
        return self.answer


def connected(house: Served, person: Person | None, mode: str = "legacy") -> Client:
    environ = {"POSTROOM_URL": house.url, "POSTROOM_TOKEN": house.tokens["scout"]}
    command = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environ)
    return Client(stdio_client(command), mode=mode, elicitation_callback=person)


async def sent(client: Client, subject: str) -> str:
    """The id of a mail that is held."""
    told = await client.call_tool("agentmail_send_message", {"to": [DESK], "subject": subject, "text": "t"})
    assert told.structured_content["status"] == "held"
    return told.structured_content["approval_id"]


def mail(house: Served, outgoing_id: str) -> dict[str, Any]:
    return house.ok("GET", f"/api/outgoing/{outgoing_id}")


async def test_a_person_is_shown_who_would_get_it_and_may_refuse_it(house: Served):
    person = Person(ElicitResult(action="accept", content={"decision": "refuse"}))
    async with connected(house, person) as client:
        held = await sent(client, "quarterly figures")
        question = await asyncio.wait_for(person.shown.get(), PATIENCE_S)
        refused = await asyncio.to_thread(eventually, lambda: (now := mail(house, held))["state"] != "held" and now)
    assert question.message.splitlines()[:3] == [f"{held} is held, not sent.", f"to: {DESK}", "subject: quarterly figures"]
    assert f"postroom held approve {held}." in question.message
    assert question.requested_schema["properties"]["decision"]["enum"] == ["wait", "refuse"]
    assert refused["state"] == "refused"
    assert "scout" in refused["decided_by"]
    assert refused["comment"] == "refused in the agent's client"


@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="accept", content={"decision": "approve"}),
        ElicitResult(action="accept", content={"decision": "wait"}),
        ElicitResult(action="accept", content={}),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
    ],
    ids=["approve", "wait", "nothing", "decline", "cancel"],
)
async def test_any_other_answer_leaves_it_held(house: Served, answer: ElicitResult):
    person = Person(answer)
    async with connected(house, person) as client:
        held = await sent(client, f"answered {answer.action} {answer.content}")
        await asyncio.wait_for(person.shown.get(), PATIENCE_S)
        await client.list_tools()  # sent after the answer
    # leaving the block ended the forwarder, which ends when everything it was given is taken
    assert mail(house, held)["state"] == "held"


async def test_a_client_that_never_answers_has_its_result_and_goes_on(house: Served):
    person = Person(None)
    async with connected(house, person) as client:
        first = await sent(client, "unanswered")
        await asyncio.wait_for(person.shown.get(), PATIENCE_S)
        second = await sent(client, "unanswered too")
        await asyncio.wait_for(person.shown.get(), PATIENCE_S)
        assert len((await client.list_tools()).tools) > 0
    assert [mail(house, held)["state"] for held in (first, second)] == ["held", "held"]


async def test_a_client_of_the_era_without_a_handshake_is_not_asked(house: Served):
    person = Person(ElicitResult(action="accept", content={"decision": "refuse"}))
    async with connected(house, person, mode="auto") as client:
        held = await sent(client, "without a handshake")
    assert person.shown.empty()
    assert mail(house, held)["state"] == "held"


def test_a_client_that_declares_no_questions_gets_results_only(house: Served):
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}}
    sending = {"name": "agentmail_send_message", "arguments": {"to": [DESK], "subject": "plain", "text": "t"}}
    environ = {**clean_environment(), "POSTROOM_URL": house.url, "POSTROOM_TOKEN": house.tokens["scout"]}
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as forwarder:
        assert forwarder.stdin is not None
        assert forwarder.stdout is not None
        answers = []
        for number, (method, params) in enumerate([("initialize", greeting), ("tools/call", sending)]):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            forwarder.stdin.write(json.dumps(message) + "\n")
            forwarder.stdin.flush()
            answers.append(json.loads(forwarder.stdout.readline()))
        forwarder.stdin.close()
        rest = forwarder.stdout.read()
    assert answers[1]["result"]["structuredContent"]["status"] == "held"
    assert rest == ""


def test_the_agents_own_token_cannot_approve(house: Served):
    body = {"to": [DESK], "subject": "own question", "text": "t"}
    scout = house.tokens["scout"]
    house.call("POST", "/v0/inboxes/scout@postroom.localhost/messages/send", body, token=scout)
    (held,) = [row for row in house.held() if row["subject"] == "own question"]
    digest = mail(house, held["outgoing_id"])["digest"]
    status, _ = house.call("POST", f"/api/outgoing/{held['outgoing_id']}/approve", {"digest": digest}, token=scout)
    assert status == 403
    status, _ = house.call("POST", f"/api/outgoing/{held['outgoing_id']}/refuse", {}, token=house.tokens["desk"])
    assert status == 404
    assert mail(house, held["outgoing_id"])["state"] == "held"
