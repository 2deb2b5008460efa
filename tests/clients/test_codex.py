"""The real Codex CLI, connected by `postroom connect codex` and nothing else, with a model that answers by script."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driven import HOSTILE, Driven, driven, hostile_mail, outside_fences
from modelpeer import Responses, flat
from served import Served, eventually, serving

PROGRAM = Path(__file__).parent / "codex" / "node_modules" / ".bin" / "codex"
TRUSTED = "--dangerously-bypass-hook-trust"  # a person reviews hooks in /hooks; a test cannot


@dataclass
class Codex:
    """One installation and the person who drives it."""

    person: Driven
    model: Responses
    daemon: Served
    agent: str

    @property
    def config(self) -> Path:
        return self.person.home / ".codex" / "config.toml"

    def connect(self, *arguments: str) -> str:
        return self.person.connect(self.daemon, "codex", "--agent", self.agent, *arguments).stderr

    def run(self, prompt: str, *arguments: str) -> tuple[str, str]:
        """One turn without anybody at it; the thread's id and what the model said last."""
        if "postroom" in self.config.read_text(encoding="utf-8"):
            arguments += ("-c", "mcp_servers.postroom.required=true")  # on a slow machine it would begin without the tools
        done = self.person.run(str(PROGRAM), "exec", *arguments, "--json", "--skip-git-repo-check", prompt)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        said = [row["item"]["text"] for row in rows if row.get("item", {}).get("type") == "agent_message"]
        return next(row["thread_id"] for row in rows if row["type"] == "thread.started"), said[-1]

    def last(self) -> str:
        """Every text in the model's last request."""
        return flat(self.model.bodies[-1]["input"])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("codex") / "data") as served:
        yield served


@pytest.fixture
def codex(daemon: Served) -> Iterator[Codex]:
    """Not connected yet."""
    if not PROGRAM.exists():
        pytest.skip("no Codex here: .ci/run installs it into tests/clients/codex")
    model = Responses()
    with driven(SCRIPTED_KEY="k") as person:
        person.environment["PATH"] = f"{PROGRAM.parent}:{person.environment['PATH']}"
        one = Codex(person, model, daemon, f"codex{len(daemon.ok('GET', '/api/agents')['agents'])}")
        one.config.parent.mkdir()
        one.config.write_text(settings(model.url, person.workspace), encoding="utf-8")
        yield one
    model.close()


def settings(url: str, workspace: Path) -> str:
    """A person's config.toml, with the scripted model for its model and whatever reaches out switched off."""
    return f"""# a person's own notes
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[features]
plugins = false
remote_plugin = false
apps = false
[analytics]
enabled = false
[projects."{workspace}"]
trust_level = "trusted" # mine"""


def test_connected_its_model_has_tools_and_instructions_and_sees_of_a_hostile_mail_only_fenced_text(codex):
    assert "review the hooks once" in codex.connect()
    waits = hostile_mail(codex.daemon, codex.agent)
    _, said = codex.run(f'CALL mcp__postroom__agentmail_get_thread {{"threadId": "{waits["thread_id"]}"}}')
    (ours,) = (tool for tool in codex.model.bodies[0]["tools"] if tool.get("name") == "mcp__postroom")
    assert {"agentmail_get_thread", "mailbox_send"} <= {tool["name"] for tool in ours["tools"]}
    assert f"Your email address is {codex.agent}@postroom.localhost" in ours["description"]
    assert said.startswith("tool said: ")
    (result,) = (item for item in codex.model.bodies[-1]["input"] if item.get("type") == "function_call_output")
    seen = first_json(flat(result["output"]))["content"]
    assert HOSTILE in seen
    assert HOSTILE not in outside_fences(seen)


def test_a_call_of_the_model_drafts_a_mail_and_what_it_sends_is_held(codex):
    codex.connect()
    draft = {"to": [f"{codex.agent}@postroom.localhost"], "subject": "Report", "text": "Done."}
    draft_id = first_json(codex.run(f"CALL mcp__postroom__agentmail_create_draft {json.dumps(draft)}")[1])["draftId"]
    thread, said = codex.run(f'CALL mcp__postroom__agentmail_send_draft {{"draftId": "{draft_id}"}}')
    assert first_json(said)["status"] == "held"
    held = [one for one in codex.daemon.held() if one["inbox_id"].startswith(f"{codex.agent}@")]
    assert [(one["subject"], one["session_id"]) for one in held] == [("Report", thread)]


def test_connected_with_ask_it_refuses_to_call_unasked(codex):
    codex.connect("--ask")
    draft = {"to": [f"{codex.agent}@postroom.localhost"], "subject": "Report", "text": "Done."}
    _, said = codex.run(f"CALL mcp__postroom__agentmail_create_draft {json.dumps(draft)}")
    assert "requires approval" in said


def test_a_notice_that_waits_arrives_by_hook_with_ids_and_no_word_of_the_mail(codex):
    codex.connect()
    waits = hostile_mail(codex.daemon, codex.agent)
    codex.run("what is new?", TRUSTED)
    assert "postroom: 1 notice waiting in your mail." in codex.last()
    assert f"message_id {waits['message_id']}, from ada@customer.example" in codex.last()
    assert HOSTILE not in codex.last()


def test_hooks_that_nobody_reviewed_do_not_run(codex):
    codex.connect()
    hostile_mail(codex.daemon, codex.agent)
    codex.run("what is new?")
    assert "notice waiting" not in codex.last()


def test_mail_that_comes_during_a_turn_is_told_with_the_next_tool_result(codex):
    codex.connect()
    answer = codex.model.events

    def mail_first(body: Any, text: Any, calls: Any) -> Any:
        if calls:
            hostile_mail(codex.daemon, codex.agent)
        return answer(body, text, calls)

    codex.model.events = mail_first
    codex.run("CALL mcp__postroom__mailbox_peers {}", TRUSTED)
    assert codex.last().count("1 notice waiting in your mail") == 1


def test_new_mail_wakes_an_idle_thread_once_and_the_watcher_ends_with_codex(codex):
    codex.connect("--wake")
    terminal = codex.person.terminal(str(PROGRAM), "--no-daemon", "--no-alt-screen", TRUSTED)
    terminal.shows("for shortcuts")
    terminal.type("hello there")
    codex.model.saw("hello there")
    eventually(lambda: watchers(codex))
    waits = hostile_mail(codex.daemon, codex.agent)
    woken = codex.model.saw("1 notice waiting in your mail")
    assert f"message_id {waits['message_id']}" in flat(woken)
    assert flat(woken["input"]).count("1 notice waiting") == 1
    eventually(lambda: watchers(codex))  # armed again after the turn it began
    assert HOSTILE not in flat(codex.model.bodies)
    terminal.close()
    eventually(lambda: not watchers(codex))


def test_removed_its_files_are_as_before_to_the_byte(codex):
    before = codex.person.files()
    codex.connect("--wake")
    codex.run("hello", TRUSTED)
    codex.connect("--remove")
    own = {path: content for path, content in codex.person.files().items() if path in before or "postroom" in path}
    assert own == before
    assert not (codex.config.parent / "hooks.json").exists()
    codex.run("and now?")
    assert "mcp__postroom" not in json.dumps(codex.model.bodies[-1]["tools"])


def test_doctor_tries_the_command_that_codex_would_start(codex):
    codex.connect()
    report = codex.daemon.cli("doctor", "--json", **codex.person.environment)
    (line,) = (check for check in json.loads(report.stdout)["checks"] if check["what"] == "client codex")
    assert (line["verdict"], line["said"]) == ("ok", f"22 tools; Your email address is {codex.agent}@postroom.localhost")


def first_json(text):
    """The object a tool answered with, without what Codex says before it."""
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]


def watchers(codex: Codex) -> list[int]:
    """Running `postroom hook --queue` of this person."""
    wanted = f"file:{codex.person.home}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
        except OSError:
            continue
        if b"--queue" in line and wanted in environment:
            found.append(int(place.name))
    return found
