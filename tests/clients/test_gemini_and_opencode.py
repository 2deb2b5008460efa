"""The real Gemini CLI and the real opencode, connected by `postroom connect` and nothing else: they reach the service."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from driven import Driven, driven
from served import Served, serving

ROOM = Path(__file__).parent
SETTINGS = {
    "gemini": (
        ".gemini/settings.json",
        '{"security": {"auth": {"selectedType": "gemini-api-key"}},\n "hooks": {"AfterAgent": []}}',
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        '{\n\t"$schema": "https://opencode.ai/config.json",\n\t"autoupdate": false\n}\n',
    ),
}
PROGRAMS = {
    "gemini": ROOM / "gemini" / "node_modules" / ".bin" / "gemini",
    "opencode": ROOM / "opencode" / "node_modules" / "opencode-linux-x64" / "bin" / "opencode",
}
REACHED = {"gemini": "✓ postroom: ", "opencode": "✓ postroom"}
QUIET = ("MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("others") / "data") as served:
        yield served


@pytest.fixture
def person() -> Iterator[Driven]:
    """A home whose clients reach for nothing outside."""
    quiet = {f"OPENCODE_DISABLE_{name}": "1" for name in QUIET} | {"GEMINI_API_KEY": "k", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    with driven(**quiet) as one:
        (one.home / ".npmrc").write_text("registry=http://127.0.0.1:9/\nfetch-retries=0\n", encoding="utf-8")
        for path, text in SETTINGS.values():
            (one.home / path).parent.mkdir(parents=True)
            (one.home / path).write_text(text, encoding="utf-8")
        yield one


@pytest.mark.parametrize("client", sorted(SETTINGS))
def test_connected_the_client_reaches_the_service_and_removed_its_file_is_as_before_to_the_byte(client, daemon, person):
    program = PROGRAMS[client]
    if not program.exists():
        pytest.skip(f"no {client} here: .ci/run installs it into tests/clients/{client}")
    done = person.connect(daemon, client)
    assert done.stderr.endswith(f"22 tools; Your email address is {client}@postroom.localhost\n")
    listed = person.run(str(program), "mcp", "list")
    assert REACHED[client] in listed.stdout + listed.stderr
    report = json.loads(daemon.cli("doctor", "--json", **person.environment).stdout)
    assert [check["verdict"] for check in report["checks"] if check["what"] == f"client {client}"] == ["ok"]

    person.connect(daemon, client, "--remove")
    path, text = SETTINGS[client]
    assert (person.home / path).read_text(encoding="utf-8") == text
    assert not list(person.home.rglob("*postroom*"))


def test_any_other_client_gets_an_entry_in_its_file_and_connecting_again_after_removal_works(daemon, person):
    file = person.workspace / ".mcp.json"
    for _ in range(2):
        person.connect(daemon, "generic", "--file", str(file), "--agent", "other")
        assert list(json.loads(file.read_text(encoding="utf-8"))["mcpServers"]) == ["postroom"]
        person.connect(daemon, "generic", "--file", str(file), "--agent", "other", "--remove")
        assert not file.exists()


def test_printing_writes_nothing_and_needs_no_agent(daemon, person):
    before, agents = person.files(), daemon.ok("GET", "/api/agents")
    for client in ("claude", "codex", "gemini", "opencode", "generic"):
        done = person.connect(daemon, client, "--print", "--agent", "nobody")
        assert '"postroom"' in done.stdout or "[mcp_servers.postroom]" in done.stdout
        assert "postroom/nobody.token" in done.stdout
    assert (person.files(), daemon.ok("GET", "/api/agents")) == (before, agents)


def test_a_file_that_cannot_be_changed_safely_is_left_alone_and_no_agent_is_made(daemon, person):
    file = person.home / ".gemini" / "settings.json"
    file.write_text("{} // mine", encoding="utf-8")
    before, agents = person.files(), daemon.ok("GET", "/api/agents")
    done = daemon.cli("connect", "gemini", "--agent", "spoiled", check=False, **person.environment)
    assert done.returncode == 2
    assert "is not plain JSON" in done.stderr
    assert (person.files(), daemon.ok("GET", "/api/agents")) == (before, agents)
