"""What `connect` writes into the files of clients a person drives, and that it comes out again to the byte."""

import json
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.cli.connect import claude, codex, files, gemini, opencode
from postroom.cli.connect.agent import link
from postroom.cli.connect.jsonfile import Ours, change
from postroom.errors import Invalid

OURS = Ours(
    values={("mcpServers", "postroom"): {"command": "postroom"}},
    hooks={"Stop": {"hooks": [{"command": "env POSTROOM_TOKEN=file:/t postroom hook"}]}},
    entries={("permissions", "allow"): "mcp__postroom"},
    mark="POSTROOM_TOKEN=file:",
)
LEAF = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
VALUE = st.recursive(
    LEAF, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3))
)
TREE = st.fixed_dictionaries(
    {},
    optional={
        "mcpServers": st.dictionaries(st.sampled_from(["mail", "other"]), VALUE),
        "hooks": st.dictionaries(st.sampled_from(["Stop", "PreToolUse"]), st.lists(VALUE, max_size=2)),
        "permissions": st.fixed_dictionaries({}, optional={"allow": st.lists(st.text(max_size=5), max_size=2), "deny": VALUE}),
        "theme": VALUE,
    },
)


@pytest.fixture
def to(tmp_path, monkeypatch):
    monkeypatch.setenv("POSTROOM_DATA", str(tmp_path / "a folder"))
    monkeypatch.delenv("POSTROOM_URL", raising=False)
    return link("scout", tmp_path / "postroom")


@given(TREE, st.sampled_from([None, 1, 2, 4, "\t"]), st.sampled_from(["", "\n", "\n\n"]))
def test_whatever_a_person_wrote_comes_back_to_the_byte(tmp_path_factory, tree, indent, end):
    file = tmp_path_factory.mktemp("json") / "settings.json"
    text = json.dumps(tree, indent=indent, ensure_ascii=False) + end
    file.write_text(text, encoding="utf-8")
    one = change(file, OURS)
    files.install([one])
    put = json.loads(file.read_text(encoding="utf-8"))
    assert put["mcpServers"]["postroom"] == {"command": "postroom"}
    assert put["hooks"]["Stop"][-1] == OURS.hooks["Stop"]
    assert "mcp__postroom" in put["permissions"]["allow"]
    files.install([one])
    assert json.loads(file.read_text(encoding="utf-8")) == put
    files.remove([one])
    assert file.read_text(encoding="utf-8") == text
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def test_what_the_client_or_its_owner_changed_meanwhile_stays(tmp_path):
    file = tmp_path / "settings.json"
    file.write_text('{"theme":"dark"}', encoding="utf-8")
    files.install([change(file, OURS)])
    tree = json.loads(file.read_text(encoding="utf-8"))
    tree["theme"] = "light"
    tree["mcpServers"]["other"] = {}
    file.write_text(json.dumps(tree), encoding="utf-8")
    files.remove([change(file, OURS)])
    assert json.loads(file.read_text(encoding="utf-8")) == {"theme": "light", "mcpServers": {"other": {}}}


def test_a_file_that_was_made_for_it_goes_again_and_a_link_to_one_stays_a_link(tmp_path):
    made, kept, linked = tmp_path / "new" / "made.json", tmp_path / "kept.json", tmp_path / "linked.json"
    kept.write_text("{}", encoding="utf-8")
    kept.chmod(0o640)
    linked.symlink_to(kept)
    changes = [change(made, OURS), change(linked, OURS)]
    files.install(changes)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert linked.is_symlink()
    assert "postroom" in kept.read_text(encoding="utf-8")
    files.remove(changes)
    assert not made.parent.exists()
    assert kept.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("text", ['{"a": 1, // note\n}', "[]", '{"mcpServers": []}', '{"hooks": {"Stop": {}}}', "\udcff{}"])
def test_a_file_it_cannot_change_safely_is_refused_and_left_alone(tmp_path, text):
    file = tmp_path / "settings.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(Invalid):
        files.check([change(file, OURS)])
    assert file.read_bytes() == text.encode("utf-8", "surrogateescape")


def test_claude_code_gets_its_server_hooks_permission_and_commands(to, tmp_path):
    home = tmp_path / "claude"
    files.install(claude.changes(to, home, wake=True))
    assert claude.server(home) == {
        "type": "stdio",
        "command": to.program,
        "args": ["mcp"],
        "env": {"POSTROOM_DATA": str(tmp_path / "a folder"), "POSTROOM_TOKEN": f"file:{tmp_path}/postroom/scout.token"},
        "alwaysLoad": True,
    }
    settings = json.loads((home / "settings.json").read_text(encoding="utf-8"))
    assert list(settings["hooks"]) == ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"]
    (watcher,) = settings["hooks"]["Stop"][0]["hooks"]
    assert watcher["asyncRewake"] is True
    assert watcher["command"].startswith("exec env 'POSTROOM_DATA=")
    assert watcher["command"].endswith("hook --wake")
    commands = sorted(path.name for path in (home / "commands").iterdir())
    assert commands == ["mailbox-peers.md", "mailbox-search.md", "mailbox-send.md", "mailbox.md"]
    files.install(claude.changes(to, home, ask=True))
    settings = json.loads((home / "settings.json").read_text(encoding="utf-8"))
    assert "permissions" not in settings
    assert "Stop" not in settings["hooks"]
    files.remove(claude.changes(to, home))
    assert list(home.iterdir()) == []


def test_a_command_of_that_name_that_a_person_wrote_stays(to, tmp_path):
    own = tmp_path / "commands" / "mailbox.md"
    own.parent.mkdir()
    own.write_text("mine", encoding="utf-8")
    files.install(claude.changes(to, tmp_path))
    assert own.read_text(encoding="utf-8") == "mine"
    files.remove(claude.changes(to, tmp_path))
    assert [path.name for path in own.parent.iterdir()] == ["mailbox.md"]
    assert own.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("text", ["", "# mine\nmodel = 'x' # keep\n", "[mcp_servers.other]\ncommand = 'x'", "\n\n"])
def test_codex_gets_a_marked_block_and_its_file_comes_back_to_the_byte(to, tmp_path, text):
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    files.install(codex.changes(to, tmp_path))
    assert file.read_text(encoding="utf-8").startswith(text)
    assert codex.server(tmp_path)["env"] == to.environment
    assert codex.server(tmp_path)["default_tools_approval_mode"] == "approve"
    files.install(codex.changes(to, tmp_path, ask=True))
    assert "default_tools_approval_mode" not in codex.server(tmp_path)
    files.remove(codex.changes(to, tmp_path))
    assert file.read_text(encoding="utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_codex_may_add_to_its_file_meanwhile(to, tmp_path):
    file = tmp_path / "config.toml"
    files.install(codex.changes(to, tmp_path))
    file.write_text(file.read_text(encoding="utf-8") + '[projects."/x"]\ntrust_level = "trusted"\n', encoding="utf-8")
    files.remove(codex.changes(to, tmp_path))
    assert tomllib.loads(file.read_text(encoding="utf-8")) == {"projects": {"/x": {"trust_level": "trusted"}}}


@pytest.mark.parametrize("text", ["[mcp_servers.postroom]\ncommand = 'x'\n", "[broken"])
def test_a_server_of_that_name_or_a_broken_file_is_refused(to, tmp_path, text):
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    with pytest.raises(Invalid):
        files.check(codex.changes(to, tmp_path))


def test_gemini_and_opencode_get_their_own_forms(to, tmp_path):
    files.install([*gemini.changes(to, tmp_path), *opencode.changes(to, tmp_path)])
    settings = json.loads((tmp_path / "settings.json").read_text(encoding="utf-8"))
    assert gemini.server(tmp_path)["trust"] is True
    assert {event: group[0]["hooks"][0]["timeout"] for event, group in settings["hooks"].items()} == {
        "SessionStart": 10_000,
        "BeforeAgent": 10_000,
        "AfterTool": 10_000,
    }
    assert opencode.server(tmp_path) == {"command": to.program, "args": ["mcp"], "env": to.environment}


def test_nothing_that_is_written_holds_a_token(to, tmp_path):
    to.token.parent.mkdir()
    to.token.write_text("am_1_secret", encoding="ascii")
    changes = [*claude.changes(to, tmp_path, wake=True, channel=True), *codex.changes(to, tmp_path)]
    assert "am_1_secret" not in "".join(one.put("") for one in changes)


def test_a_name_that_is_no_agents_is_refused(tmp_path):
    with pytest.raises(Invalid):
        link("../x", Path(tmp_path))
