"""MCP from outside: the official client against a real daemon, over HTTP and over `postroom mcp`, in both protocol eras."""

import asyncio
import json
import smtplib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from pace import PATIENCE_S
from served import Served, clean_environment, eventually, serving, start

SCOUT = "scout@postroom.localhost"
MAIL = b"From: Ada <ada@customer.example>\r\nTo: scout@postroom.localhost\r\nSubject: Hi\r\nMessage-ID: <hi@customer.example>\r\n\r\nHello?\r\n"
HEADERS = {"Accept": "application/json, text/event-stream"}
ERAS = ["legacy", "auto"]
COMMAND = [sys.executable, "-m", "postroom.cli.main", "mcp"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("house")) as served:
        served.agent("scout")
        served.agent("watcher", profile="observer")
        with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
            client.sendmail("ada@customer.example", [SCOUT], MAIL)
        eventually(lambda: served.messages(SCOUT))
        yield served


def environment(served: Served, token: str) -> dict[str, str]:
    return {"POSTROOM_URL": served.url, "POSTROOM_TOKEN": token}


async def over_http(served: Served, token: str, era: str, path: str = "/mcp/email"):
    """The official client on the daemon's own address."""
    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(f"{served.url}{path}", http_client=http), mode=era) as client,
    ):
        return await visit(client)


async def over_stdio(served: Served, token: str, era: str):
    """The official client on `postroom mcp`."""
    command = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment(served, token))
    async with Client(stdio_client(command), mode=era) as client:
        return await visit(client)


async def visit(client: Client) -> tuple[str, list[str], str, dict]:
    """Instructions, tool names, the text of the one thread, and what sending comes to."""
    tools = (await client.list_tools()).tools
    (row,) = (await client.call_tool("agentmail_list_threads", {})).structured_content["threads"]
    read = await client.call_tool("agentmail_get_thread", {"threadId": row["threadId"]})
    mail = {"to": ["ada@customer.example"], "subject": "s", "text": "t"}
    sent = await client.call_tool("agentmail_send_message", mail)
    return client.instructions, of_email(tool.name for tool in tools), read.content[0].text, sent.structured_content


def of_email(names: Iterable[str]) -> list[str]:
    """The email tools among all a token may use."""
    return [name for name in names if name.startswith("agentmail_")]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", [over_http, over_stdio])
async def test_the_official_client_reads_and_is_told_what_became_of_its_mail(house: Served, way, era: str):
    instructions, names, text, sent = await way(house, house.tokens["scout"], era)
    assert SCOUT in instructions
    assert len([name for name in names if name.startswith("agentmail_")]) == 11
    assert "Hello?" in text
    assert sent["refused"] == ["ada@customer.example"]
    assert "no relay" in sent["reasons"][0]


async def test_an_observer_is_offered_what_reads(house: Served):
    command = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment(house, house.tokens["watcher"]))
    async with Client(stdio_client(command)) as client:
        assert len(of_email(tool.name for tool in (await client.list_tools()).tools)) == 4
        refused = await client.call_tool("agentmail_send_message", {"to": ["a@b.example"], "subject": "s", "text": "t"})
    assert refused.is_error
    assert "Unknown tool" in refused.content[0].text


def call(served: Served, path: str, token: str | None = None, **fields: object) -> tuple[int, dict]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", **fields}
    return served.call("POST", path, body, token=token, **HEADERS)


def test_the_owner_names_the_inbox_in_the_address_and_programs_ask_for_canonical_fields(house: Served):
    threads = {"name": "agentmail_list_threads", "arguments": {}}
    _, asked = call(house, "/mcp", method="tools/call", params=threads)
    assert asked["result"]["structuredContent"]["error"] == "inbox_needed"
    _, told = call(house, f"/mcp?inbox={SCOUT}&fields=canonical", method="tools/call", params=threads)
    assert told["result"]["structuredContent"]["threads"][0]["subject"] == "Hi"


@pytest.mark.parametrize(
    ("meta", "named"), [({"sessionId": "s-1"}, "s-1"), ({"threadId": "t.1"}, "t.1"), ({"sessionId": "a b\n"}, None), ({}, None)]
)
def test_the_session_a_client_names_is_told_to_whoever_approves_and_an_odd_name_is_not(house: Served, meta, named):
    mail = {"to": ["ada@customer.example"], "subject": json.dumps(meta), "text": "t"}
    params = {"name": "agentmail_send_message", "arguments": mail, "_meta": meta}
    call(house, "/mcp", house.tokens["scout"], method="tools/call", params=params)
    rows = [one for one in house.ok("GET", "/api/outgoing")["outgoing"] if one["subject"] == mail["subject"]]
    assert [row.get("session_id") for row in rows] == [named]


def test_only_what_is_offered_answers(house: Served):
    assert call(house, "/mcp")[0] == 200
    assert call(house, "/mcp/nothing")[0] == 404
    assert call(house, "/mcp", token="am_none_none")[0] == 401
    assert house.call("GET", "/mcp", **HEADERS)[0] == 405


def test_a_body_between_the_librarys_cap_and_ours_is_taken(house: Served):
    arguments = {"to": ["ada@customer.example"], "subject": "s", "text": "x" * (5 * 1024 * 1024)}
    status, answer = call(
        house,
        "/mcp",
        house.tokens["scout"],
        method="tools/call",
        params={"name": "agentmail_send_message", "arguments": arguments},
    )
    assert status == 200
    assert answer["result"]["structuredContent"]["status"] == "refused"


def piped(lines: list[object], **environ: str) -> list[dict]:
    """What `postroom mcp` answers to these lines, and that it ends well when its input does."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    done = subprocess.run(
        COMMAND, input=text, text=True, capture_output=True, timeout=PATIENCE_S, env={**clean_environment(), **environ}
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_without_a_daemon_each_request_is_answered_with_what_to_do(tmp_path: Path):
    (answer,) = piped(
        [{"jsonrpc": "2.0", "id": 7, "method": "tools/list"}, {"jsonrpc": "2.0", "method": "notifications/x"}],
        POSTROOM_DATA=str(tmp_path),
    )
    assert (answer["id"], answer["error"]["code"]) == (7, -32000)
    assert "postroom serve" in answer["error"]["message"]


def names(answer: dict) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


def test_a_bad_token_and_bad_lines_are_errors_and_the_pipe_goes_on(house: Served):
    wrong = environment(house, "am_none_none")
    (answer,) = piped([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}], **wrong)
    assert answer["error"]["data"] == {"code": "unknown_api_key"}
    right = environment(house, house.tokens["scout"])
    answers = piped(["{oops", "[]", "", "[" * 100000, {"jsonrpc": "2.0", "id": "ü", "method": "tools/list"}], **right)
    codes = sorted(answer["error"]["code"] for answer in answers if "error" in answer)
    assert codes == [-32700, -32700, -32600]
    assert [len(of_email(names(answer))) for answer in answers if answer["id"] == "ü"] == [11]


def test_the_pipe_survives_a_restart_of_the_daemon(tmp_path: Path):
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}) + "\n"
    with serving(tmp_path / "house") as served:
        environ = {**clean_environment(), "POSTROOM_DATA": str(served.data)}
        with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as pipe:

            def ask() -> dict:
                pipe.stdin.write(request)
                pipe.stdin.flush()
                return json.loads(pipe.stdout.readline())

            assert len(of_email(names(ask()))) == 11
            served.stop()
            assert "postroom serve" in ask()["error"]["message"]
            again = start(served.data)
            assert len(of_email(names(ask()))) == 11
            again.stop()
            again.process.stdout.close()
            pipe.stdin.close()


def test_many_requests_at_once_are_each_answered(house: Served):
    answers = piped(
        [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(20)],
        **environment(house, house.tokens["scout"]),
    )
    assert sorted(answer["id"] for answer in answers) == list(range(20))


def test_the_pipe_loads_no_library(tmp_path: Path):
    script = "import sys, postroom.cli.mcp_stdio; print([name for name in ('mcp', 'pydantic', 'httpx', 'typer', 'asyncio') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.strip() == "[]"


async def test_a_client_that_goes_away_mid_call_leaves_the_daemon_answering(house: Served):
    _, writer = await asyncio.open_connection(house.host, house.port)
    head = f"POST /mcp HTTP/1.1\r\nHost: {house.host}:{house.port}\r\nAuthorization: Bearer {house.owner}\r\n"
    writer.write((head + "Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{").encode())
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert call(house, "/mcp")[0] == 200
