"""The real Claude Code, connected by `postroom connect claude` and nothing else, with a model that answers by script.

Twice: the executable inside the package `claude-agent-sdk`, and the one of npm's `@anthropic-ai/claude-code`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from driven import HOSTILE, Driven, driven, hostile_mail, outside_fences
from modelpeer import Anthropic, flat
from served import Served, eventually, serving

ROOM = Path(__file__).parent / "claude_code"
PLACES = {
    "pypi": ".venv/lib/python3*/site-packages/claude_agent_sdk/_bundled/claude",
    "npm": "node_modules/.bin/claude",
}
KEY = "sk-ant-scripted"
SETTINGS = '{\n   "theme": "dark",\n   "hooks": {"Stop": []}\n}'
READ = "CALL mcp__postroom__agentmail_get_thread "


@dataclass
class Claude:
    """One installation and the person who drives it."""

    program: str
    person: Driven
    model: Anthropic
    daemon: Served
    agent: str
    session: str = ""

    def connect(self, *arguments: str) -> None:
        self.person.connect(self.daemon, "claude", "--agent", self.agent, *arguments)

    def run(self, prompt: str) -> str:
        """One turn without anybody at it; what the model said last. `session` is then Claude's own name for it."""
        done = self.person.run(self.program, "-p", prompt, "--output-format", "json", "--model", "claude-sonnet-4-5")
        said = json.loads(done.stdout)
        self.session = said["session_id"]
        return str(said["result"])

    def last(self) -> str:
        """Every text in the model's last request."""
        return flat(self.model.bodies[-1]["messages"])


@pytest.fixture(scope="module", params=sorted(PLACES))
def program(request: pytest.FixtureRequest) -> str:
    found = sorted(ROOM.glob(PLACES[request.param]))
    if not found:
        pytest.skip(f"no Claude Code of {request.param} here: .ci/run installs it into tests/clients/claude_code")
    return str(found[0])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("claude") / "data") as served:
        yield served


@pytest.fixture
def claude(program: str, daemon: Served, request: pytest.FixtureRequest) -> Iterator[Claude]:
    """Not connected yet; the first-run questions of the terminal interface are answered."""
    model = Anthropic()
    quiet = {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    # On a slow machine it would begin without the tools.
    quiet |= dict.fromkeys(("MCP_TIMEOUT", "MCP_CONNECT_TIMEOUT_MS", "MCP_STARTUP_WAIT_MS"), "60000")
    with driven(ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY=KEY, **quiet) as person:
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "projects": {str(person.workspace): {"hasTrustDialogAccepted": True}},
        }
        state["customApiKeyResponses"] = {"approved": [KEY[-20:]], "rejected": []}
        (person.home / ".claude.json").write_text(json.dumps(state), encoding="utf-8")
        (person.home / ".claude").mkdir()
        (person.home / ".claude" / "settings.json").write_text(SETTINGS, encoding="utf-8")
        yield Claude(program, person, model, daemon, f"claude{len(daemon.ok('GET', '/api/agents')['agents'])}")
    model.close()


def test_connected_its_model_has_tools_and_instructions_and_sees_of_a_hostile_mail_only_fenced_text(claude):
    claude.connect()
    waits = hostile_mail(claude.daemon, claude.agent)
    said = claude.run(f'{READ}{{"threadId": "{waits["thread_id"]}"}}')
    first, last = claude.model.bodies[0], claude.model.bodies[-1]
    assert {"mcp__postroom__agentmail_get_thread", "mcp__postroom__mailbox_send"} <= {tool["name"] for tool in first["tools"]}
    assert f"Your email address is {claude.agent}@postroom.localhost" in flat(first)
    assert said.startswith("tool said: ")
    (result,) = (block for message in last["messages"] for block in blocks(message) if block["type"] == "tool_result")
    seen = first_json(flat(result["content"]))["content"]
    assert HOSTILE in seen
    assert HOSTILE not in outside_fences(seen)
    assert claude.daemon.ok("GET", "/api/waiting", token=token(claude)) == {"waiting": []}


def test_a_call_of_the_model_drafts_a_mail_and_what_it_sends_is_held(claude):
    claude.connect()
    draft = {"to": [f"{claude.agent}@postroom.localhost"], "subject": "Report", "text": "Done."}
    said = claude.run(f"CALL mcp__postroom__agentmail_create_draft {json.dumps(draft)}")
    draft_id = first_json(said)["draftId"]
    said = claude.run(f'CALL mcp__postroom__agentmail_send_draft {{"draftId": "{draft_id}"}}')
    assert first_json(said)["status"] == "held"
    held = [one for one in claude.daemon.held() if one["inbox_id"].startswith(f"{claude.agent}@")]
    assert [(one["subject"], one["session_id"]) for one in held] == [("Report", claude.session)]


def test_a_notice_that_waits_arrives_by_hook_with_ids_and_no_word_of_the_mail(claude):
    claude.connect()
    waits = hostile_mail(claude.daemon, claude.agent)
    claude.run("what is new?")
    assert "SessionStart hook additional context: postroom: 1 notice waiting in your mail." in claude.last()
    assert f"message_id {waits['message_id']}, from ada@customer.example" in claude.last()
    assert HOSTILE not in claude.last()


def test_mail_that_comes_during_a_turn_is_told_after_the_next_tool_call(claude):
    claude.connect()
    claude.run("hello")
    answer = claude.model.events

    def mail_first(body, text, calls):
        if calls and "tool_result" not in json.dumps(body["messages"][-1]):
            hostile_mail(claude.daemon, claude.agent)
        return answer(body, text, calls)

    claude.model.events = mail_first
    claude.run("CALL mcp__postroom__mailbox_peers {}")
    assert "PostToolUse:mcp__postroom__mailbox_peers hook additional context: postroom: 1 notice" in claude.last()
    assert claude.last().count("1 notice waiting") == 1


def test_new_mail_wakes_an_idle_terminal_once_and_the_watcher_ends_with_it(claude):
    claude.connect("--wake")
    terminal = claude.person.terminal(claude.program, "--model", "claude-sonnet-4-5")
    terminal.shows("? for shortcuts")
    terminal.type("hello there")
    claude.model.saw("hello there")
    eventually(lambda: watchers(claude))
    waits = hostile_mail(claude.daemon, claude.agent)
    woken = claude.model.saw("1 notice waiting in your mail")
    assert f"message_id {waits['message_id']}" in flat(woken)
    assert flat(woken["messages"]).count("1 notice waiting") == 1
    eventually(lambda: watchers(claude))  # armed again after the turn it began
    assert HOSTILE not in flat(claude.model.bodies)
    terminal.close()
    eventually(lambda: not watchers(claude))


def test_a_run_that_nobody_sits_at_does_not_wait_for_its_watcher(claude):
    claude.connect("--wake")
    assert claude.run("hello") == "echo: hello"
    eventually(lambda: not watchers(claude))


def test_the_mailbox_commands_are_there(claude):
    claude.connect()
    claude.run("/mailbox-send bob good morning")
    assert "Arguments: bob good morning" in claude.last()
    claude.run("/mailbox")
    assert "Call mailbox_read" in claude.last()


def test_removed_the_settings_are_as_before_and_claude_finds_nothing_of_it(claude):
    before = claude.person.files()
    claude.connect("--wake")
    claude.connect("--remove")
    assert claude.person.files() == before
    claude.connect()
    claude.run("hello")  # it rewrites its own state file
    claude.connect("--remove")
    assert (claude.person.home / ".claude" / "settings.json").read_text(encoding="utf-8") == SETTINGS
    assert "postroom" not in (claude.person.home / ".claude.json").read_text(encoding="utf-8")
    claude.run("and now?")
    assert "mcp__postroom" not in json.dumps(claude.model.bodies[-1]["tools"])


def test_doctor_tries_the_command_that_claude_would_start(claude):
    claude.connect()
    report = claude.daemon.cli("doctor", "--json", **claude.person.environment)
    (line,) = (check for check in json.loads(report.stdout)["checks"] if check["what"] == "client claude")
    assert line["verdict"] == "ok"
    assert line["said"] == f"22 tools; Your email address is {claude.agent}@postroom.localhost"
    (claude.person.home / ".claude" / "postroom" / f"{claude.agent}.token").write_text("am_1_wrong", encoding="ascii")
    report = claude.daemon.cli("doctor", "--json", check=False, **claude.person.environment)
    assert report.returncode == 1
    assert [check["what"] for check in json.loads(report.stdout)["checks"] if check["verdict"] == "wrong"] == ["client claude"]


def first_json(text):
    """The object a tool answered with; newer versions add words of their own after it."""
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]


def blocks(message):
    return message["content"] if isinstance(message["content"], list) else []


def token(claude: Claude) -> str:
    place = claude.person.home / ".claude" / "postroom" / f"{claude.agent}.token"
    return place.read_text(encoding="ascii").strip()


def watchers(claude: Claude) -> list[int]:
    """Running `postroom hook --wake` of this person."""
    wanted = f"file:{claude.person.home}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
        except OSError:
            continue
        if b"--wake" in line and wanted in environment:
            found.append(int(place.name))
    return found
