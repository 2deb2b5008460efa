"""The reader's doors on a running daemon: MCP over HTTP and stdio, the command line, and an agent's permission."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from dovecot import Dovecot, running
from served import Served, serving

CONFIG = """
[[reader.accounts]]
id = "work"
provider = "imap"
address = "me@example.org"
host = "127.0.0.1"
port = {port}
user = "me"
password = "env:READER_TEST_PASSWORD"
"""

ACCOUNT = "work"


@pytest.fixture(scope="module")
def box() -> Iterator[Dovecot]:
    with running() as dovecot:
        yield dovecot


@pytest.fixture(scope="module")
def house(box: Dovecot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(box.folder / "cert.pem"))
        patch.setenv("READER_TEST_PASSWORD", "imap-password")
        with serving(tmp_path_factory.mktemp("house"), CONFIG.format(port=box.port)) as served:
            served.agent("scout")
            served.agent("other")
            yield served


async def over_http(served: Served, token: str, path: str, **arguments):
    """Tool names, instructions and one read, by the official client."""
    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(f"{served.url}{path}", http_client=http)) as client,
    ):
        tools = (await client.list_tools()).tools
        return tools, client.instructions or "", await client.call_tool("email_read", arguments)


async def test_an_agent_reads_an_account_once_the_owner_allowed_it_and_no_other_agent_does(house: Served):
    tools, instructions, result = await over_http(house, house.tokens["scout"], "/mcp/reader")
    assert ([tool.name for tool in tools], "email_read" in instructions) == ([], False)
    assert result.structured_content["error"] == "MAIL_ACCOUNT_UNKNOWN"

    allowed = house.cli("agent", "allow", "scout", "--account", "work")
    assert "scout may read work" in allowed.stderr
    assert house.ok("GET", "/api/reader/accounts")["accounts"][0]["agents"] == ["scout"]
    tools, instructions, result = await over_http(house, house.tokens["scout"], "/mcp/reader", limit=2)
    assert [tool.name for tool in tools] == ["email_read"]
    assert tools[0].annotations.read_only_hint is True
    assert "the mail accounts work" in instructions
    assert result.content[0].text.count("<untrusted_email ") == 2
    assert len(result.structured_content["messages"]) == 2

    tools, _, result = await over_http(house, house.tokens["other"], "/mcp/reader", account="work")
    assert (tools, result.structured_content["error"]) == ([], "MAIL_ACCOUNT_UNKNOWN")

    house.cli("agent", "deny", "scout", "--account", "work")
    _, _, result = await over_http(house, house.tokens["scout"], "/mcp/reader")
    assert result.structured_content["error"] == "MAIL_ACCOUNT_UNKNOWN"


async def test_mcp_offers_all_a_token_may_do_and_stdio_the_same(house: Served):
    house.cli("agent", "allow", "other", "--account", "work")
    tools, _, _ = await over_http(house, house.tokens["other"], "/mcp")
    assert {"email_read", "agentmail_get_thread"} <= {tool.name for tool in tools}
    tools, _, _ = await over_http(house, house.tokens["other"], "/mcp/email")
    assert "email_read" not in {tool.name for tool in tools}
    environment = {"POSTROOM_URL": house.url, "POSTROOM_TOKEN": house.tokens["other"]}
    command = StdioServerParameters(command=sys.executable, args=["-m", "postroom.cli.main", "mcp"], env=environment)
    async with Client(stdio_client(command)) as client:
        result = await client.call_tool("email_read", {"limit": 1})
    assert result.content[0].text.startswith("account: work\ntrust: untrusted_external_content\n\n1. id=")
    house.cli("agent", "deny", "other", "--account", "work")


async def test_programs_ask_for_the_references_fields(house: Served):
    _, _, result = await over_http(house, house.owner, "/mcp/reader?fields=canonical", limit=2)
    message = result.structured_content["messages"][1]
    assert set(message) == {"id", "threadId", "from", "to", "subject", "date", "text", "hasAttachments", "attachments"}
    assert message["attachments"] == [{"filename": "résumé.pdf", "contentType": "application/pdf", "size": 6}]


def test_the_owner_lists_checks_reads_and_revokes_on_the_command_line(house: Served, box: Dovecot):
    before = box.flags()
    listed = json.loads(house.cli("reader", "list", "--json").stdout)
    (row,) = listed["accounts"]
    assert row == {"id": "work", "provider": "imap", "address": "me@example.org", "state": "ready", "agents": []}
    assert "work" in house.cli("reader", "list").stdout
    assert "work can be read" in house.cli("reader", "add", "work").stderr
    assert "work works" in house.cli("reader", "check", "work").stderr
    mail = house.cli("reader", "mail", "--limit", "1")
    assert mail.stdout.startswith("account: work\n")
    found = json.loads(house.cli("reader", "mail", "work", "--query", "Shown", "--json").stdout)
    assert [message["subject"] for message in found["messages"]] == ["html"]
    assert "there was none" in house.cli("reader", "revoke", "work").stderr
    assert box.flags() == before


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("reader", "check", "nobody"), 4, "there is no such mail account"),
        (("agent", "allow", "scout", "--account", "nobody"), 4, "there is no such mail account"),
        (("agent", "allow", "nobody", "--account", "work"), 4, "there is no agent of that name"),
        (("reader", "mail", "--after", "soon"), 2, "after is a calendar day"),
        (("reader", "mail", "--limit", "x"), 2, ""),
    ],
)
def test_what_is_wrong_is_said_with_an_exit_status(house: Served, arguments: tuple[str, ...], status: int, said: str):
    done = house.cli(*arguments, check=False)
    assert done.returncode == status, done.stderr
    assert said in done.stderr


def test_an_agent_manages_no_accounts(house: Served):
    for method, path in (
        ("POST", f"/api/reader/accounts/{ACCOUNT}/check"),
        ("POST", f"/api/reader/accounts/{ACCOUNT}/authorization"),
        ("DELETE", f"/api/reader/accounts/{ACCOUNT}/grant"),
        ("PUT", "/api/agents/scout/accounts/work"),
    ):
        status, body = house.call(method, path, token=house.tokens["scout"])
        assert (status, body["code"]) in ((403, "forbidden"), (404, "MAIL_ACCOUNT_UNKNOWN")), (path, body)
    assert house.call("GET", "/api/reader/accounts", token=house.tokens["scout"]) == (200, {"accounts": []})


def test_what_an_agent_read_is_in_the_read_log_and_the_password_in_no_log(house: Served, tmp_path: Path):
    import sqlite3

    house.cli("agent", "allow", "scout", "--account", "work")
    status, body = house.call("GET", "/api/reader/mail?limit=1", token=house.tokens["scout"])
    assert status == 200
    with sqlite3.connect(f"file:{house.data}/postroom.db?mode=ro", uri=True) as database:
        refs = [row[0] for row in database.execute("SELECT ref FROM read_log")]
    database.close()
    house.cli("agent", "deny", "scout", "--account", "work")
    assert f"reader:work:{body['messages'][0]['id']}" in refs
    assert "imap-password" not in (house.data / "serve.log").read_text(encoding="utf-8")
