"""The DSH host beside a stand-in that speaks the runtime's wire, so that its odd moments can be had on purpose."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pace import PATIENCE_S
from postroom import config
from postroom.model.session import Delivery, Liveness, Notice
from postroom.sessions.hosts.dsh import DshHost

# Keeps sessions as files in its home; what it does is said by words in the prompt.
RUNTIME = """
import json, os, pathlib, sys, time
home = pathlib.Path(os.environ["DSH_HOME"]); (home / "log").open("a").write("start\\n")
live, number = set(), 0
def say(**more): print(json.dumps({"jsonrpc": "2.0", **more}), flush=True)
if "broken" in str(home.parent.parent): print("dsh: warning: 1 entry did not activate", file=sys.stderr, flush=True); time.sleep(0.2)
for line in sys.stdin:
    asked = json.loads(line); method, params = asked["method"], asked["params"]
    if method == "session/resume":
        session = params["sessionId"]
        if session in live: say(id=asked["id"], error={"message": "SDK session is already open or opening: " + session})
        elif (home / session).exists(): live.add(session); say(id=asked["id"], result={})
        else: say(id=asked["id"], error={"message": 'session "%s" not found' % session})
    elif method == "session/prompt":
        session, text, number = params["sessionId"], params["contentBlocks"][0]["text"], number + 1
        with (home / session).open("a") as log: log.write(json.dumps(text) + "\\n")
        live.add(session); say(id=asked["id"], result={"messageId": "m%d" % number})
        def event(**more): say(method="session.event", params={"sessionId": session, "event": more})
        event(type="turn/end", data={"reason": {"kind": "completed"}})  # of another turn
        event(type="user/message", data={"id": "m%d" % number})
        if "DIE" in text: os._exit(1)
        if "HANG" in text: continue
        event(type="turn/end", data={"reason": {"kind": "error" if "FAIL" in text else "completed"}})
    else:
        say(id=asked["id"], result={})
        if method == "shutdown": (home / "log").open("a").write("closed\\n"); break
"""


class Issuer:
    def __init__(self) -> None:
        self.issued: list[str] = []
        self.revoked: list[str] = []

    async def issue(self, agent_id: str, session_id: str) -> tuple[str, str]:
        self.issued.append(f"key{len(self.issued)}")
        return f"token-of-{agent_id}", self.issued[-1]

    async def revoke(self, key_id: str) -> None:
        self.revoked.append(key_id)


class Desk:
    """A host over the stand-in."""

    def __init__(self, folder: Path, **sessions: float) -> None:
        script = folder / "runtime.py"
        script.write_text(RUNTIME, encoding="utf-8")
        self.issuer = Issuer()
        self.folder = folder / "dsh"
        self.host = DshHost(
            (sys.executable, str(script)), {}, self.issuer, lambda: "http://127.0.0.1:1",
            folder=self.folder, sessions=config.Sessions(**sessions),
        )  # type: ignore[arg-type]  # numbers of the right kind  # fmt: skip
        self.rebuilt = 0

    async def deliver(self, text: str = "hello", *, session: str = "agentmail-t", seed: str | None = None) -> bool:
        async def rebuild() -> str | None:
            self.rebuilt += 1
            return "SEED"

        notice = Notice(seq=1, event_id="evt_1", kind="message.received", text=text)
        return await self.host.deliver(
            Delivery(
                session_id=session, thread_id="t", inbox_id="i", agent="scout", agent_id="agt_1",
                notices=(notice,), wake=True, seed=seed, rebuild=rebuild,
            )
        )  # fmt: skip

    @property
    def home(self) -> Path:
        return self.folder / "agt_1" / "home"

    def told(self, session: str = "agentmail-t") -> list[str]:
        return [json.loads(line) for line in (self.home / session).read_text(encoding="utf-8").splitlines()]

    def log(self) -> list[str]:
        return (self.home / "log").read_text(encoding="utf-8").split()


@pytest.fixture
async def make(tmp_path) -> AsyncIterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def build(**sessions: float) -> Desk:
        desks.append(Desk(tmp_path, **sessions))
        return desks[-1]

    yield build
    for desk in desks:
        await desk.host.close()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_session_nowhere_is_rebuilt_and_a_live_one_gets_only_the_news(make):
    desk = make()
    assert [await desk.deliver("one"), await desk.deliver("two")] == [True, True]
    assert desk.told() == ["SEED\n\none", "two"]
    assert (desk.rebuilt, await desk.host.liveness("agentmail-t"), desk.log()) == (1, Liveness.LIVE, ["start"])


async def test_a_seed_that_is_there_is_not_made_again(make):
    desk = make()
    await desk.deliver("one", seed="GIVEN")
    assert (desk.told(), desk.rebuilt) == (["GIVEN\n\none"], 0)


async def test_a_runtime_that_dies_took_nothing_and_the_next_one_resumes(make):
    desk = make()
    assert await desk.deliver("DIE") is False
    assert await desk.deliver("again") is True
    assert desk.told() == ["SEED\n\nDIE", "again"]
    assert desk.issuer.revoked == ["key0"]


async def test_a_turn_that_ends_in_an_error_took_nothing(make):
    assert await make().deliver("FAIL") is False


async def test_a_turn_without_an_end_is_given_up(make, monkeypatch):
    monkeypatch.setattr("postroom.limits.SESSION_TURN_S", 0.5)
    assert await make().deliver("HANG") is False


async def test_a_runtime_that_left_a_part_out_is_not_used_and_its_token_is_revoked(tmp_path):
    folder = tmp_path / "broken"
    folder.mkdir()
    desk = Desk(folder)
    assert await desk.deliver() is False
    await desk.host.close()
    assert desk.issuer.revoked == desk.issuer.issued


async def test_a_program_that_cannot_start_took_nothing(tmp_path):
    desk = Desk(tmp_path)
    desk.host._command = (str(tmp_path / "nothing"),)
    assert await desk.deliver() is False
    assert desk.issuer.revoked == ["key0"]


async def test_a59_an_idle_runtime_is_closed_and_nothing_is_lost(make):
    desk = make(idle_dispose_s=0.05)
    await desk.deliver("one")
    await until(lambda: desk.log()[-1] == "closed")
    assert await desk.host.liveness("agentmail-t") is not Liveness.LIVE
    await desk.deliver("two")
    assert desk.told() == ["SEED\n\none", "two"]


async def test_a59_too_many_live_sessions_are_let_go_but_never_one_in_its_turn(make):
    desk = make(max_live=2)
    await desk.deliver("one", session="agentmail-a")
    busy = asyncio.create_task(desk.deliver("HANG", session="agentmail-b"))
    await until((desk.home / "agentmail-b").exists)
    await desk.deliver("three", session="agentmail-c")
    assert desk.log() == ["start"]
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    await until(lambda: desk.log() == ["start", "closed"])


async def test_the_runtime_gets_its_agents_token_and_nothing_else_of_ours(make, monkeypatch):
    monkeypatch.setenv("RELAY_PASSWORD", "secret")
    monkeypatch.setenv("DEEPSEEK_BASE_URL", "http://127.0.0.1:2")
    desk = make()
    await desk.deliver()
    (kept,) = desk.host._runtimes._kept.values()
    environ = Path(f"/proc/{kept.process._process.pid}/environ").read_bytes().decode()
    names = {entry.partition("=")[0] for entry in environ.split("\0")}
    assert {"POSTROOM_AGENT_TOKEN", "DSH_HOME", "DEEPSEEK_BASE_URL"} <= names
    assert "RELAY_PASSWORD" not in names
    patch = (desk.folder / "agt_1" / "postroom.patch.yml").read_text(encoding="utf-8")
    assert "token-of" not in patch
    for row in ("session-log-deepseek", "plugin-package-inventory-deepseek", "session-telemetry-otel"):
        assert f"{{id: {row}, disabled: true}}" in patch
