"""The ACP host beside an agent made with the protocol's own library, so that its odd moments can be had on purpose."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pace import PATIENCE_S
from postroom import config
from postroom.model.session import Delivery, Liveness, Notice
from postroom.sessions.hosts import acp_agent, acp_tools
from postroom.sessions.hosts.acp import AcpHost

# Keeps sessions as files in its workspace; what it can is said by PEER, what it does by words in the prompt.
PEER = """
import asyncio, json, os, pathlib, subprocess, sys
from acp import Agent, RequestError, run_agent, schema as S, update_agent_message_text, update_user_message_text
can = os.environ.get("PEER", "load").split()
def log(name, value):
    with open(name, "a") as file: file.write(json.dumps(value) + "\\n")
log("log", {"pid": os.getpid(), "names": sorted(os.environ)})
class Peer(Agent):
    def on_connect(self, client): self.client, self.told = client, asyncio.Event()
    async def initialize(self, protocol_version, **more):
        if "dumb" in can: await asyncio.Event().wait()
        mcp, resume = S.McpCapabilities(http="http" in can), S.SessionResumeCapabilities() if "resume" in can else None
        able = S.AgentCapabilities(load_session="load" in can, mcp_capabilities=mcp, session_capabilities=S.SessionCapabilities(resume=resume))
        return S.InitializeResponse(protocol_version=2 if "newer" in can else protocol_version, agent_capabilities=able)
    async def new_session(self, cwd, mcp_servers, **more):
        if "login" in can: raise RequestError.auth_required()
        session = "s%d" % len(list(pathlib.Path(".").glob("s[0-9]*")))
        pathlib.Path(session).touch(); log("servers", [one.model_dump(mode="json", by_alias=True) for one in mcp_servers])
        return S.NewSessionResponse(session_id=session)
    async def load_session(self, cwd, session_id, **more):
        if not pathlib.Path(session_id).exists(): raise RequestError.resource_not_found(session_id)
        for line in pathlib.Path(session_id).read_text().splitlines(): await self.client.session_update(session_id, update_user_message_text(line))
        log("loaded", session_id)
        return S.LoadSessionResponse()
    async def resume_session(self, cwd, session_id, **more):
        log("resumed", session_id)
        return S.ResumeSessionResponse()
    async def cancel(self, session_id, **more): self.told.set()
    async def prompt(self, prompt, session_id, **more):
        text = prompt[0].text
        log(session_id, text)
        await self.client.session_update(session_id, update_agent_message_text("on it"))
        if "DIE" in text: os._exit(3)
        if "HANG" in text: await asyncio.Event().wait()
        if "FAIL" in text: raise RequestError.internal_error()
        if "LONG" in text: os.set_blocking(1, True); print("x" * 3_000_000, flush=True); await asyncio.Event().wait()
        if "GARBAGE" in text: print('loading…\\n\\n42\\n[1]\\n{"id": 77}\\n{"jsonrpc": "2.0", "method": "session/update", "params": 7}', flush=True)
        if "START" in text: log("started", subprocess.Popen(["sleep", "600"]).pid)
        if "ASK" in text: await self.ask(session_id, *text.split("ASK ")[1].split(" "))
        if "ODD" in text: return S.PromptResponse.model_construct(stop_reason="odd")
        if "SLOW" in text: await self.told.wait(); return S.PromptResponse(stop_reason="cancelled")
        return S.PromptResponse(stop_reason="refusal" if "REFUSE" in text else "max_tokens" if "FULL" in text else "end_turn")
    async def ask(self, session_id, title, kind, *options):
        offered = [S.PermissionOption(option_id=one + "!", name=one, kind=one) for one in options]
        call = S.ToolCallUpdate(tool_call_id="c", title=title, kind=kind)
        answer = await self.client.request_permission(options=offered, session_id=session_id, tool_call=call)
        log("answers", answer.outcome.model_dump(mode="json", by_alias=True, exclude_none=True))
        try: await self.client.read_text_file(path="/etc/passwd", session_id=session_id)
        except RequestError as refused: log("answers", refused.code)
asyncio.run(run_agent(Peer(), use_unstable_protocol=True))
"""


class Issuer:
    def __init__(self) -> None:
        self.issued: list[tuple[str, str]] = []
        self.revoked: list[str] = []

    async def issue(self, agent_id: str, session_id: str) -> tuple[str, str]:
        self.issued.append((agent_id, session_id))
        return f"token{len(self.issued)}", f"key{len(self.issued)}"

    async def revoke(self, key_id: str) -> None:
        self.revoked.append(key_id)

    @property
    def open(self) -> int:
        """How many keys are good."""
        return len(self.issued) - len(self.revoked)


class Desk:
    """A host over the peer. A second desk in the same folder is the daemon started again."""

    def __init__(self, folder: Path, *program: str, **agent: object) -> None:
        script = folder / "peer.py"
        script.write_text(PEER, encoding="utf-8")
        self.issuer = Issuer()
        self.folder = folder / "acp"
        self.agents: dict[str, config.Agent] = {}
        self.set(command=program or (sys.executable, str(script)), **agent)
        self.host = AcpHost(
            self.agents, self.issuer, lambda: "http://127.0.0.1:1", folder=self.folder, sessions=config.Sessions(), reading=("agentmail_search",)
        )  # fmt: skip
        self.rebuilt = 0

    def set(self, **agent: object) -> None:
        before = self.agents.get("scout", config.Agent(host="acp", environment=("PEER",)))
        self.agents["scout"] = config.Agent(**{name: getattr(before, name) for name in before.__slots__} | agent)  # type: ignore[arg-type]  # values of the right kind

    async def deliver(self, text: str = "hello", *, session: str = "agentmail-t", seed: str | None = None) -> bool:
        async def rebuild() -> str | None:
            self.rebuilt += 1
            return "SEED"

        notice = Notice(seq=1, event_id="evt_1", kind="message.received", text=text)
        return await self.host.deliver(
            Delivery(
                session_id=session, thread_id="t", inbox_id="scout@postroom.localhost", agent="scout", agent_id="agt_1",
                notices=(notice,), wake=True, seed=seed, rebuild=rebuild,
            )
        )  # fmt: skip

    @property
    def workspace(self) -> Path:
        return self.folder / "agt_1" / "workspace"

    def read(self, name: str) -> list:
        """What the peer wrote down under a name."""
        file = self.workspace / name
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []

    def pids(self) -> list[int]:
        return [entry["pid"] for entry in self.read("log")]


@pytest.fixture
async def make(tmp_path, monkeypatch) -> AsyncIterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def build(*program: str, can: str = "load", **agent: object) -> Desk:
        monkeypatch.setenv("PEER", can)
        desks.append(Desk(tmp_path, *program, **agent))
        return desks[-1]

    yield build
    for desk in desks:
        await desk.host.close()
        assert desk.issuer.open == 0


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_session_nowhere_is_rebuilt_a_live_one_gets_only_the_news_and_one_the_agent_kept_is_loaded(make):
    desk = make()
    assert [await desk.deliver("one"), await desk.deliver("two")] == [True, True]
    assert await desk.host.liveness("agentmail-t") is Liveness.LIVE
    assert len(desk.pids()) == 1
    await desk.host.close()

    again = make()
    assert await again.host.liveness("agentmail-t") is Liveness.PERSISTED
    assert await again.host.liveness("agentmail-*") is Liveness.UNKNOWN
    assert await again.deliver("three") is True
    assert again.read("s0") == ["SEED\n\none", "two", "three"]
    assert (again.read("loaded"), desk.rebuilt, again.rebuilt) == (["s0"], 1, 0)


async def test_a_seed_that_is_there_is_not_made_again_and_another_session_is_another(make):
    desk = make()
    await asyncio.gather(desk.deliver("one", seed="GIVEN"), desk.deliver("two", session="agentmail-u"))
    assert sorted([*desk.read("s0"), *desk.read("s1")]) == ["GIVEN\n\none", "SEED\n\ntwo"]
    assert (desk.rebuilt, len(desk.pids())) == (1, 1)


async def test_a_load_that_is_refused_makes_a_new_session_that_is_told_everything(make):
    desk = make()
    await desk.deliver("one")
    await desk.host.close()
    (desk.workspace / "s0").rename(desk.workspace / "gone")
    again = make()
    assert await again.deliver("two") is True
    assert again.read("s0") == ["SEED\n\ntwo"]


@pytest.mark.parametrize(
    ("can", "resumed", "told"), [("", [], ["SEED\n\none", "SEED\n\ntwo"]), ("resume", ["s0"], ["SEED\n\none", "two"])]
)
async def test_an_agent_that_loads_nothing_is_told_everything_again_unless_it_resumes(make, can, resumed, told):
    desk = make(can=can)
    await desk.deliver("one")
    await desk.host.close()
    again = make(can=can)
    assert await again.host.liveness("agentmail-t") is (Liveness.PERSISTED if resumed else Liveness.UNKNOWN)
    await again.deliver("two")
    assert [*again.read("s0"), *again.read("s1")] == told
    assert again.read("resumed") == resumed


@pytest.mark.parametrize("can", ["", "http"])
async def test_a_session_gets_our_tools_with_a_token_of_its_own_the_way_the_agent_can(make, can):
    desk = make(can=can)
    await desk.deliver()
    ((server,),) = desk.read("servers")
    assert desk.issuer.issued == [("agt_1", "agentmail-t")]
    assert server["name"] == "postroom"
    if can:
        assert server["url"] == "http://127.0.0.1:1/mcp?inbox=scout%40postroom.localhost"
        assert [(one["name"], one["value"]) for one in server["headers"]] == [("Authorization", "Bearer token1")]
    else:
        assert [server["command"], *server["args"]] == [
            sys.executable, "-m", "postroom.cli.main", "mcp", "--inbox", "scout@postroom.localhost",
        ]  # fmt: skip
        assert {one["name"]: one["value"] for one in server["env"]} == {
            "POSTROOM_URL": "http://127.0.0.1:1", "POSTROOM_TOKEN": "token1",
        }  # fmt: skip


async def test_the_agent_gets_the_names_its_config_adds_and_nothing_else_of_ours(make, monkeypatch):
    monkeypatch.setenv("RELAY_PASSWORD", "secret")
    desk = make()
    await desk.deliver()
    ((names,),) = [[entry["names"] for entry in desk.read("log")]]
    assert "PEER" in names
    assert not {"RELAY_PASSWORD", "POSTROOM_TOKEN", "PYTHONPATH"} & set(names)


async def test_an_agent_that_dies_took_nothing_and_the_next_one_is_told_in_a_new_session(make):
    desk = make()
    assert await desk.deliver("DIE") is False
    assert await desk.deliver("again") is True
    assert [desk.read("s0"), desk.read("s1")] == [["SEED\n\nDIE"], ["SEED\n\nagain"]]
    assert len(set(desk.pids())) == 2


async def test_a_session_known_to_the_agent_is_loaded_after_it_was_killed(make):
    desk = make()
    await desk.deliver("one")
    os.kill(desk.pids()[0], signal.SIGKILL)
    await until(lambda: not running(desk.pids()[0]))
    while not await desk.deliver("two"):  # told before the end was seen, it took nothing
        pass
    assert desk.read("loaded") == ["s0"]
    assert desk.read("s0")[-1] == "two"


@pytest.mark.parametrize(
    ("said", "taken"), [("FULL", True), ("REFUSE", False), ("FAIL", False), ("ODD", False), ("GARBAGE", True)]
)
async def test_only_a_turn_that_ended_took_its_notices_and_what_is_no_message_is_passed_over(make, said, taken):
    desk = make()
    assert await desk.deliver(said) is taken
    assert await desk.deliver("next") is True
    assert len(desk.pids()) == 1


async def test_a_turn_over_its_time_is_cancelled_and_the_agent_serves_on(make, monkeypatch):
    monkeypatch.setattr(acp_agent, "_CANCEL_S", PATIENCE_S)
    desk = make()
    await desk.deliver("one")
    desk.set(turn_s=0.05)
    assert await desk.deliver("SLOW") is False
    desk.set(turn_s=None)
    assert await desk.deliver("three") is True
    assert (desk.read("s0")[1:], len(desk.pids())) == (["SLOW", "three"], 1)


async def test_an_agent_that_does_not_end_its_turn_is_ended(make, monkeypatch):
    monkeypatch.setattr(acp_agent, "_CANCEL_S", 0.05)
    desk = make()
    await desk.deliver("one")
    desk.set(turn_s=0.05)
    assert await desk.deliver("HANG") is False
    await until(lambda: not running(desk.pids()[0]))
    desk.set(turn_s=None)
    assert await desk.deliver("three") is True
    assert len(desk.pids()) == 2


async def test_a_line_without_end_ends_the_agent(make, monkeypatch):
    monkeypatch.setattr(acp_agent, "_LINE_BYTES", 1_000_000)
    desk = make()
    assert await desk.deliver("LONG") is False
    await until(lambda: not running(desk.pids()[0]))
    assert await desk.deliver("next") is True


@pytest.mark.parametrize("can", ["login", "newer"])
async def test_an_agent_that_wants_a_login_or_another_version_took_nothing(make, can):
    desk = make(can=can)
    assert await desk.deliver() is False
    assert desk.read("s0") == []


async def test_an_agent_that_says_nothing_is_ended(make, monkeypatch):
    monkeypatch.setattr(acp_agent, "_CALL_S", 0.05)
    desk = make("sleep", "600")
    assert await desk.deliver() is False


@pytest.mark.parametrize("program", [(sys.executable, "-c", "raise SystemExit(3)"), ("/absent/agent",), ("true",)])
async def test_a_program_that_ends_or_is_not_there_took_nothing(make, program):
    desk = make(*program)
    assert await desk.deliver() is False
    assert await desk.host.liveness("agentmail-t") is Liveness.UNKNOWN


async def test_a_folder_that_is_not_there_is_not_made(make, tmp_path):
    desk = make(cwd=str(tmp_path / "absent"))
    assert await desk.deliver() is False
    assert not (tmp_path / "absent").exists()


async def test_an_idle_agent_is_ended_with_all_it_started(make, tmp_path, monkeypatch):
    desk = make()
    desk.host._processes._sessions = config.Sessions(idle_dispose_s=0.05)
    await desk.deliver("START")
    pids = [*desk.pids(), *desk.read("started")]
    assert len(pids) == 2
    await until(lambda: not any(map(running, pids)))
    await until(lambda: desk.issuer.open == 0)
    assert await desk.host.liveness("agentmail-t") is Liveness.PERSISTED


@pytest.mark.parametrize(
    ("title", "kind", "options", "answer"),
    [
        ("postroom_agentmail_search", "other", "allow_always allow_once reject_once", {"outcome": "selected", "optionId": "allow_once!"}),
        ("mcp__postroom__agentmail_search", "read", "allow_once", {"outcome": "selected", "optionId": "allow_once!"}),
        ("postroom_agentmail_search", "execute", "allow_once reject_once", {"outcome": "selected", "optionId": "reject_once!"}),
        ("postroom_agentmail_reply", "other", "allow_once reject_once", {"outcome": "selected", "optionId": "reject_once!"}),
        ("agentmail_search", "other", "allow_once reject_always", {"outcome": "cancelled"}),
    ],
)  # fmt: skip
async def test_only_a_read_of_ours_is_allowed_and_only_once_and_no_file_is_offered(make, title, kind, options, answer):
    desk = make()
    assert await desk.deliver(f"ASK {title} {kind} {options}") is True
    assert desk.read("answers") == [answer, -32601]


@pytest.mark.parametrize(
    "title", [None, "", "postroom_agentmail_search; rm -rf /", "Postroom_agentmail_search", "mail_agentmail_search"]
)
def test_a_title_that_is_not_exactly_one_of_ours_is_somebody_elses(title):
    assert acp_tools.allows(title, "other", acp_tools.titles(["agentmail_search"])) is False
