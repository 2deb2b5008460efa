"""The real `dsh` beside a test: found, started as `dsh web` over a home of its own, and a stand-in for the person at its page."""

import contextlib
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pace import PATIENCE_S
from served import Served, clean_environment, eventually

ROOT = Path(__file__).resolve().parents[1]
TURN_S = PATIENCE_S
AS_NOBODY = (  # another user to whoever asks who connects, and still one that may read the files of whoever runs the tests
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_override", "--ambient-caps=+dac_override",
)  # fmt: skip


def program() -> str:
    """The `dsh` of `.venv-dsh`, else the one on the path."""
    place = ROOT / ".venv-dsh" / "bin" / "dsh"
    found = str(place) if place.exists() else shutil.which("dsh")
    if found is None:
        pytest.skip("no DSH here: pip install deepseek-harness-sdk==0.2.1rc2 in .venv-dsh")
    return found


class Person:
    """What the person at the page does and is shown. `answer` says what they click: an outcome, or None to leave the dialog open."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.withdrawn: list[dict[str, Any]] = []
        self.answer: str | None = None
        self._acts: queue.Queue[dict[str, Any]] = queue.Queue()
        self._done: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._over = threading.Event()
        person = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                """Stay quiet."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                content = json.dumps(person.hear(self.path, body)).encode()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(200)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def hear(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/next":
            try:
                return self._acts.get(timeout=0.5)
            except queue.Empty:
                return {}
        if path == "/done":
            self._done[body["id"]].put(body)
        elif path == "/withdrawn":
            self.withdrawn.append(body)
        elif path == "/asked":
            self.asked.append(body)
            while self.answer is None and not self._over.wait(0.02):
                pass
            return {"outcome": self.answer or "unavailable"}
        return {}

    def does(self, op: str, **fields: Any) -> dict[str, Any]:
        """One act, done."""
        number = next(self._numbers)
        self._done[number] = queue.Queue()
        self._acts.put({"id": number, "op": op, **fields})
        done = self._done[number].get(timeout=PATIENCE_S)
        assert "error" not in done, done
        return done

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def person_patch(home: Path, person: Person) -> Path:
    """A patch file that puts the person into a harness, whatever its profile."""
    path = home.with_name(f"{home.name}-person.yml")
    row = {"id": "test-person", "name": str(ROOT / "tests/clients/dsh_person.mjs"), "config": {"url": person.url}}
    path.write_text(f"- insert: [{json.dumps(row)}]\n", encoding="utf-8")
    return path


@dataclass
class Web:
    """One `dsh web`, over a home that outlives it. `paged`: its page is there to be used, and no person's stand-in."""

    home: Path
    model_url: str
    person: Person
    paged: bool = False
    prefix: tuple[str, ...] = ()
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def patch(self) -> Path:
        return self.home / "profiles" / "web" / "cordis.patch.yml"

    @property
    def url(self) -> str:
        """Where its page is, with the token it asks for; "" before it says so."""
        return next((found[0] for line in self.lines if (found := re.search(r"http://\S+token=\S+", line))), "")

    def start(self) -> None:
        """Until it says where its page is."""
        self.home.mkdir(exist_ok=True)
        workspace = self.home.with_name(f"{self.home.name}-workspace")
        workspace.mkdir(exist_ok=True)
        extra = ROOT / "tests/clients/dsh_page.yml" if self.paged else person_patch(self.home, self.person)
        environ = {**clean_environment(), "DSH_HOME": str(self.home), "DSH_TELEMETRY_MODE": "DISABLED"}
        environ |= {"DEEPSEEK_API_KEY": "scripted", "DEEPSEEK_BASE_URL": self.model_url}
        command = [*self.prefix, program(), "web", "--patch", str(extra), "--no-open", "--port", "0"]
        self.lines = []
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environ,
            cwd=workspace,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self.process, self.lines), daemon=True).start()
        eventually(lambda: self.url, PATIENCE_S)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, and wait until it is gone."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, how)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE_S)
        self.process = None

    @staticmethod
    def _listen(process: subprocess.Popen[str], lines: list[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            lines.extend(process.stdout)


@contextlib.contextmanager
def web(home: Path, model_url: str, *, paged: bool = False, prefix: tuple[str, ...] = ()) -> Iterator[Web]:
    """A running `dsh web` for the length of a block."""
    person = Person()
    harness = Web(home, model_url, person, paged=paged, prefix=prefix)
    try:
        harness.start()
        yield harness
    finally:
        harness.stop()
        person.close()


def each_once_in_order(told: str, ids: list[str]) -> None:
    """A session's history has every mail, in the order they came; what stands there more than once says so."""
    places = [told.find(one) for one in ids]
    assert -1 not in places, places
    assert places == sorted(places)
    for one in ids:
        again = re.findall(rf"(\(offered before[^\n]*\n)?New mail in [^\n]*message_id {re.escape(one)}:", told)
        assert again, one
        assert all(again[1:]), (one, again)


def connect(
    daemon: Served, home: Path, *arguments: str, profile: str = "web", check: bool = True
) -> subprocess.CompletedProcess[str]:
    """`postroom connect dsh`."""
    return daemon.cli("connect", "dsh", "--profile", profile, "--home", str(home), *arguments, check=check)
