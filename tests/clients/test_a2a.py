"""A2A from outside: the library's own client holds a conversation with a mailbox agent, over both bindings and in both versions."""

import asyncio
import json
import uuid
from collections.abc import Iterator

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format

from pace import PATIENCE_S
from postroom.interfaces.a2a.cards import agent_card
from served import Served, eventually, serving


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("house")) as served:
        for name in ("alice", "bob", "carol"):
            served.agent(name)
        yield served


def rpc(house: Served, method: str, params: dict, *, by: str = "alice", version: str = "1.0") -> dict:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return house.call("POST", "/a2a", body, token=house.tokens[by], **{"A2A-Version": version})[1]


def words(text: str, **more: object) -> dict:
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}


def submit(house: Served, text: str, *, to: str = "bob", **more: object) -> dict:
    params = {"tenant": to, "message": words(text, **more), "configuration": {"returnImmediately": True}}
    return rpc(house, "SendMessage", params)["result"]["task"]


def reply(house: Served, task: dict, text: str, *, by: str = "bob", **more: object) -> None:
    body = {"to": "alice", "text": text, "reply_to": int(task["id"].removeprefix("task-")), **more}
    house.ok("POST", "/mailbox/messages", body, token=house.tokens[by])


def state(house: Served, task: dict) -> str:
    return rpc(house, "GetTask", {"id": task["id"]})["result"]["status"]["state"]


def test_b48_both_cards_are_open_claim_what_answers_and_cannot_be_pointed_elsewhere(house: Served):
    for path in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
        answer = httpx.get(
            f"{house.url}{path}?port=9999@evil.example", headers={"Host": f"{house.host}:{house.port}"}, timeout=PATIENCE_S
        )
        card = answer.json()
        assert "evil" not in answer.text
        assert len(card["skills"]) == 11
        assert answer.headers["cache-control"].startswith("public")
        url = card["url"] if "url" in card else card["supportedInterfaces"][0]["url"]
        assert url == f"{house.url}/a2a"
    json_format.ParseDict(agent_card(house.url), pb.AgentCard())


def test_stored_is_submitted_acknowledged_is_working_and_answered_is_completed(house: Served):
    task = submit(house, "please build")
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    house.ok("GET", "/mailbox/messages", token=house.tokens["bob"])
    assert state(house, task) == "TASK_STATE_SUBMITTED"  # delivery alone is no work
    house.ok("POST", "/mailbox/acknowledge", {"up_to": int(task["id"].removeprefix("task-"))}, token=house.tokens["bob"])
    assert state(house, task) == "TASK_STATE_WORKING"
    reply(house, task, "built")
    done = rpc(house, "GetTask", {"id": task["id"]})["result"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["artifacts"][0]["parts"][0]["text"] == "built"
    assert [one["role"] for one in done["history"]] == ["ROLE_USER", "ROLE_AGENT"]


def test_an_agent_asks_back_and_the_answer_resumes_the_task(house: Served):
    task = submit(house, "deploy")
    reply(house, task, "which branch?", priority="input-required")
    asked = rpc(house, "GetTask", {"id": task["id"]})["result"]
    assert (asked["status"]["state"], asked["status"]["message"]["parts"][0]["text"]) == (
        "TASK_STATE_INPUT_REQUIRED",
        "which branch?",
    )
    again = rpc(house, "SendMessage", {"message": words("main", taskId=task["id"]), "configuration": {"returnImmediately": True}})
    assert again["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    last = house.ok("GET", "/mailbox/messages?newest=1&limit=1", token=house.tokens["bob"])["messages"][0]
    assert (last["text"], last["thread"]) == ("main", task["contextId"])
    house.ok("POST", "/mailbox/messages", {"to": "alice", "text": "deployed", "reply_to": last["seq"]}, token=house.tokens["bob"])
    assert state(house, task) == "TASK_STATE_COMPLETED"
    refused = rpc(house, "SendMessage", {"message": words("more", taskId=task["id"])})
    assert refused["error"]["code"] == -32004


def test_a_message_sent_twice_is_one_task_and_the_context_is_the_clients(house: Served):
    message = words("once", contextId="project-x")
    first, second = (
        rpc(house, "SendMessage", {"tenant": "bob", "message": message, "configuration": {"returnImmediately": True}})
        for _ in range(2)
    )
    assert first["result"]["task"]["id"] == second["result"]["task"]["id"]
    assert first["result"]["task"]["contextId"] == "project-x"
    other = rpc(house, "SendMessage", {"tenant": "bob", "message": {**message, "parts": [{"text": "other"}]}})
    assert other["error"]["code"] == -32602


def test_cancelling_takes_back_what_was_not_taken_up(house: Served):
    task = submit(house, "never mind")
    assert rpc(house, "CancelTask", {"id": task["id"]})["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    taken = submit(house, "too late")
    house.ok("POST", "/mailbox/acknowledge", {"up_to": int(taken["id"].removeprefix("task-"))}, token=house.tokens["bob"])
    assert rpc(house, "CancelTask", {"id": taken["id"]})["error"]["code"] == -32002


def test_a_task_the_agent_asks_about_can_be_cancelled_and_its_refusal_ends_one(house: Served):
    asked, refused, failed = (submit(house, text) for text in ("which", "no", "tried"))
    reply(house, asked, "which one?", priority="input-required")
    assert rpc(house, "CancelTask", {"id": asked["id"]})["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    for task, word, ends in ((refused, "rejected", "TASK_STATE_REJECTED"), (failed, "failed", "TASK_STATE_FAILED")):
        reply(house, task, "why", priority=word)
        told = rpc(house, "GetTask", {"id": task["id"]})["result"]
        assert (told["status"]["state"], told["status"]["message"]["parts"][0]["text"]) == (ends, "why")
        assert "artifacts" not in told
        assert rpc(house, "CancelTask", {"id": task["id"]})["error"]["code"] == -32002


def rest(house: Served, path: str, body: bytes, **headers: str) -> httpx.Response:
    given = {
        "Authorization": f"Bearer {house.tokens['alice']}",
        "A2A-Version": "1.0",
        "Content-Type": "application/json",
        **headers,
    }
    return httpx.post(f"{house.url}/a2a{path}", content=body, headers=given, timeout=PATIENCE_S)


def test_the_tenant_of_a_path_names_the_agent(house: Served):
    body = json.dumps({"message": words("by path"), "configuration": {"returnImmediately": True}}).encode()
    sent = rest(house, "/bob/message:send", body)
    assert (sent.status_code, sent.json()["task"]["status"]["state"]) == (200, "TASK_STATE_SUBMITTED")
    nobody = rest(house, "/message:send", body)
    assert (nobody.status_code, "name the agent" in nobody.text) == (400, True)


def test_a_body_or_a_part_of_a_type_that_is_not_taken_is_told_so_in_each_binding(house: Served):
    odd = {"message": words("x", parts=[{"raw": "dGNr", "mediaType": "application/x-unheard-of"}])}
    assert rpc(house, "SendMessage", {"tenant": "bob", **odd})["error"]["code"] == -32005
    assert "CONTENT_TYPE_NOT_SUPPORTED" in rest(house, "/bob/message:send", json.dumps(odd).encode()).text
    text = {"Content-Type": "text/plain"}
    refused = rest(house, "/bob/message:send", json.dumps({"message": words("x")}).encode(), **text)
    assert (refused.status_code, refused.json()["error"]["code"]) == (415, 415)
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"tenant": "bob", "message": words("x")}}
    assert rest(house, "", json.dumps(call).encode(), **text).json()["error"]["code"] == -32005


def test_an_answer_that_is_a_file_is_fetched_where_it_says(house: Served):
    task = submit(house, "the file please")
    reply(house, task, "(files)", attachments=[{"content": "b3V0", "name": "output.txt", "mediaType": "text/plain"}])
    (part,) = rpc(house, "GetTask", {"id": task["id"]})["result"]["artifacts"][0]["parts"]
    assert (part["filename"], part["mediaType"]) == ("output.txt", "text/plain")
    fetched = httpx.get(part["url"], headers={"Authorization": f"Bearer {house.tokens['alice']}"}, timeout=PATIENCE_S)
    assert fetched.content == b"out"


def test_what_is_not_offered_is_said_by_its_code_in_each_binding(house: Served):
    task = submit(house, "no push")
    config = {"taskId": task["id"], "url": "https://example.com/hook"}
    assert rpc(house, "CreateTaskPushNotificationConfig", config)["error"]["code"] == -32003
    assert rpc(house, "GetExtendedAgentCard", {})["error"]["code"] == -32007
    assert rpc(house, "NoSuchMethod", {})["error"]["code"] == -32601
    missing = httpx.get(
        f"{house.url}/a2a/tasks/task-999999",
        headers={"Authorization": f"Bearer {house.tokens['alice']}", "A2A-Version": "1.0"},
        timeout=PATIENCE_S,
    )
    assert (missing.status_code, missing.json()["error"]["details"][0]["reason"]) == (404, "TASK_NOT_FOUND")


def test_tasks_are_their_senders_alone(house: Served):
    task = submit(house, "between us")
    for by in ("bob", "carol"):
        assert rpc(house, "GetTask", {"id": task["id"]}, by=by)["error"]["code"] == -32001
    for odd in ("task-0", "task-999999", "x", "task-1e9", ""):
        assert rpc(house, "GetTask", {"id": odd})["error"]["code"] in (-32001, -32602)
    assert rpc(house, "GetTask", {"id": task["id"]}, version="9.9")["error"]["code"] == -32009
    assert house.call("POST", "/a2a", {}, token="am_key_none")[0] == 401


def test_listing_pages_through_the_callers_tasks(house: Served):
    made = [submit(house, f"listed {n}", to="carol", contextId="list")["id"] for n in range(5)]
    first = rpc(house, "ListTasks", {"contextId": "list", "pageSize": 100})["result"]
    assert [task["id"] for task in first["tasks"]][:5] == made[::-1]
    page = rpc(house, "ListTasks", {"pageSize": 2})["result"]
    assert [task["id"] for task in page["tasks"]] == made[:2:-1]
    older = rpc(house, "ListTasks", {"pageSize": 2, "pageToken": page["nextPageToken"]})["result"]
    assert [task["id"] for task in older["tasks"]] == made[2:0:-1]
    assert rpc(house, "ListTasks", {"pageSize": 0})["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"tenant": "bob"}, -32602),
        ({"message": words("no addressee")}, -32602),
        ({"tenant": "nobody-here", "message": words("x")}, -32602),
        ({"tenant": "bob", "message": words(" ")}, -32602),
        ({"tenant": "bob", "message": {**words("x"), "parts": []}}, -32602),
    ],
)
def test_what_is_no_message_is_refused_by_name(house: Served, params: dict, code: int):
    assert rpc(house, "SendMessage", params)["error"]["code"] == code
    assert rpc(house, "NoSuchMethod", {})["error"]["code"] == -32601


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_librarys_own_client_holds_a_conversation(house: Served, binding: str):
    card = json_format.ParseDict(agent_card(house.url), pb.AgentCard())
    for interface in card.supported_interfaces:
        interface.tenant = "bob"
    headers = {"Authorization": f"Bearer {house.tokens['alice']}"}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        config = ClientConfig(httpx_client=http, streaming=True, supported_protocol_bindings=[binding])
        client = ClientFactory(config).create(card)
        message = pb.Message(message_id=str(uuid.uuid4()), role=pb.Role.ROLE_USER, parts=[pb.Part(text=f"hello over {binding}")])
        events = []
        async for event in client.send_message(pb.SendMessageRequest(tenant="bob", message=message)):
            events.append(event)
            if event.WhichOneof("payload") == "task":
                task = json_format.MessageToDict(event.task)
                await asyncio.to_thread(reply, house, task, f"hi over {binding}")
        kinds = [event.WhichOneof("payload") for event in events]
        assert (kinds[0], kinds[-1]) == ("task", "status_update")
        assert events[-1].status_update.status.state == pb.TaskState.TASK_STATE_COMPLETED
        got = await client.get_task(pb.GetTaskRequest(tenant="bob", id=task["id"]))
        assert got.artifacts[0].parts[0].text == f"hi over {binding}"


def test_paths_that_are_none_are_404_and_wrong_methods_405(house: Served):
    assert house.call("GET", "/a2a/no/such/path")[0] == 404
    assert house.call("DELETE", "/a2a")[0] == 405
    assert house.call("PUT", "/a2a/bob/message:send", {})[0] == 405


def test_a_client_of_version_0_3_is_answered_on_the_same_path(house: Served):
    message = {"messageId": str(uuid.uuid4()), "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "old"}]}
    params = {"message": {**message, "metadata": {"to": "bob"}}, "configuration": {"blocking": False}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    answer = house.call("POST", "/a2a", body, token=house.tokens["alice"])[1]
    assert answer["result"]["status"]["state"] == "submitted", json.dumps(answer)


def test_a_blocking_send_returns_with_the_answer(house: Served):
    import threading

    def answer() -> None:
        found = eventually(lambda: [m for m in newest(house) if m["text"] == "block for me"])
        reply(house, {"id": f"task-{found[0]['seq']}"}, "unblocked")

    thread = threading.Thread(target=answer)
    thread.start()
    done = rpc(house, "SendMessage", {"tenant": "bob", "message": words("block for me")})["result"]["task"]
    thread.join()
    assert (done["status"]["state"], done["artifacts"][0]["parts"][0]["text"]) == ("TASK_STATE_COMPLETED", "unblocked")


def newest(house: Served) -> list[dict]:
    return house.ok("GET", "/mailbox/messages?newest=1&limit=5", token=house.tokens["bob"])["messages"]
