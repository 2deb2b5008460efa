"""A real `postroom serve` as a child process, spoken to from outside only."""

import contextlib
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from pace import PATIENCE_S

T = TypeVar("T")
READY = re.compile(r"postroom ready http://([^ ]+):(\d+) smtp://(?:([^ ]+):(\d+)|off)\n")


@dataclass
class Served:
    """One running daemon. `call` speaks HTTP to it with a bearer token."""

    process: subprocess.Popen[str]
    data: Path
    host: str
    port: int
    smtp: tuple[str, int]
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def owner(self) -> str:
        return (self.data / "owner.key").read_text(encoding="utf-8").strip()

    def call(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON body of one request; `token` None is the owner's key."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        sent = {
            "Authorization": f"Bearer {token or self.owner}",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        content = None if body is None else json.dumps(body)
        if content is not None:
            sent["Content-Type"] = "application/json"
        with contextlib.closing(connection):
            connection.request(method, path, content, sent)
            answer = connection.getresponse()
            text = answer.read()
        return answer.status, json.loads(text) if text else None

    def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The body of a request that must succeed."""
        status, answer = self.call(method, path, body, **more)
        assert status < 300, (method, path, status, answer)
        return answer

    def agent(self, name: str, **more: Any) -> str:
        """Make an agent with an inbox; its token."""
        answer = self.ok("POST", "/api/agents", {"name": name, **more})
        self.tokens[name] = answer["token"]
        return self.tokens[name]

    def messages(self, inbox: str, **more: Any) -> list[dict[str, Any]]:
        """The newest messages of an inbox, as the owner sees them."""
        return self.ok("GET", f"/v0/inboxes/{quote(inbox)}/messages?limit=100", **more)["messages"]

    def held(self) -> list[dict[str, Any]]:
        """What waits for the owner."""
        return self.ok("GET", "/api/outgoing?state=held")["outgoing"]

    def cli(self, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the `postroom` command against this daemon."""
        done = subprocess.run(
            [sys.executable, "-m", "postroom.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**clean_environment(), "POSTROOM_DATA": str(self.data), **environment},
        )
        assert not check or done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the daemon; its exit status."""
        self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE_S)


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}


def start(data: Path, config: str = "", *arguments: str) -> Served:
    """Start a daemon on free ports and wait until it says that it listens."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / "postroom.toml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "postroom.cli.main", "serve", "--data", str(data)]
    command += ["--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0", *arguments]
    log = (data / "serve.log").open("a", encoding="utf-8")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=clean_environment())
    log.close()
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    line = process.stdout.readline() if readable else ""
    found = READY.fullmatch(line)
    if found is None:
        process.kill()
        raise AssertionError((line, (data / "serve.log").read_text(encoding="utf-8")[-4000:]))
    smtp = (found[3], int(found[4])) if found[3] else ("", 0)
    return Served(process, data, found[1], int(found[2]), smtp)


@contextlib.contextmanager
def serving(data: Path, config: str = "", *arguments: str) -> Iterator[Served]:
    """A daemon for the length of a block."""
    served = start(data, config, *arguments)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.stop()
        if served.process.stdout is not None:
            served.process.stdout.close()


def eventually(look: Callable[[], T], within_s: float = PATIENCE_S) -> T:
    """The first truthy answer of `look`, asked again until the bound."""
    end = time.monotonic() + within_s
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < end, f"nothing within {within_s} s: {answer!r}"
        time.sleep(0.02)  # the daemon is another process: there is nothing to wait on but its answers
