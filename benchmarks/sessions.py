"""Mail reaching an agent's session, and what its tools and hooks cost.

SMTP's 250 to the notice in the model request of a live session in a running `dsh web` (scripted model), beside
a prompt its person types into the same session; `hook` and `wait` from start to request, beside the smallest
program that asks the same with the standard library; the bytes of the tool schemas, beside the references'.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

MAILS, STARTS = 20, 15
INBOX = "dsh@postroom.localhost"
ASKING = "import http.client, json, sys; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1])); c.request('GET', '/'); c.getresponse().read()"
QUOTED = {"email": 3939, "mailbox": 6522}  # bytes of the reference plugins' schemas, as the design quotes them


def rows() -> Iterator[dict[str, Any]]:
    """All three."""
    yield from notices()
    yield from starts()
    yield from schemas()


def notices() -> list[dict[str, Any]]:
    """From the 250, and from the person's key press, to the model's request."""
    from dshkit import web
    from postroom.testing.scripted_model import Reply, ScriptedModel
    from served import eventually, serving

    seen: list[tuple[float, str]] = []
    model = ScriptedModel()

    def plan(body: dict[str, Any]) -> Reply:
        seen.append((time.perf_counter(), json.dumps(body["messages"][-1])))
        return Reply("understood")

    model.plan = plan

    def took(text: str, begin: float) -> float:
        return eventually(lambda: next((at for at, said in list(seen) if text in said), 0.0), 60) - begin

    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "data", "[inbound]\nwake_idle_agent = true\n") as daemon,
        web(Path(folder) / "home", model.url) as harness,
    ):
        daemon.cli("connect", "dsh", "--profile", "web", "--home", str(harness.home))
        mailed, typed = [], []
        for number in range(MAILS + 1):
            quiet(daemon)
            mailed.append(took(f"<{number}@customer.example>", mail(daemon, number)))
            quiet(daemon)
            session_id = daemon.ok("GET", "/api/sessions")["sessions"][0]["session_id"]
            begin = time.perf_counter()
            harness.person.does("prompt", sessionId=session_id, text=f"typed {number}.")
            typed.append(took(f"typed {number}.", begin))
    model.close()
    value, reference = (statistics.median(times[1:]) * 1000 for times in (mailed, typed))  # the first makes the session
    about = {"reference": "a prompt typed into the same session", "reference_value": reference, "ratio": value / reference}
    return [{"name": "SMTP 250 to the notice in a live DSH session's model request, p50", "value": value, "unit": "ms", **about}]


def quiet(daemon: Any) -> None:
    """Until every turn has taken what was told."""
    from served import eventually

    eventually(lambda: not any(row["pending"] for row in daemon.ok("GET", "/api/sessions")["sessions"]), 60)


def mail(daemon: Any, number: int) -> float:
    """One mail in the one thread; the moment of its 250."""
    from postroom.testing import send_mail

    head = f"From: ada@customer.example\r\nTo: {INBOX}\r\nSubject: x\r\nMessage-ID: <{number}@customer.example>\r\n"
    head += f"In-Reply-To: <{number - 1}@customer.example>\r\n" if number else ""
    send_mail(*daemon.smtp, "ada@customer.example", [INBOX], f"{head}\r\nhello\r\n".encode())
    return time.perf_counter()


def starts() -> list[dict[str, Any]]:
    """From the start of the program to its request."""
    postroom = str(Path(sys.executable).with_name("postroom"))
    event = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "x"})
    bare = start_to_request(lambda port: ([sys.executable, "-c", ASKING, str(port)], ""))
    out = []
    for name, command in (("hook", (postroom, "hook")), ("wait", (postroom, "wait"))):
        value = start_to_request(lambda port, command=command: (list(command), event))  # type: ignore[misc]
        about = {"reference": "the same request from bare http.client", "reference_value": bare, "ratio": value / bare}
        out.append({"name": f"postroom {name}, start to request, p50", "value": value, "unit": "ms", **about})
    return out


def start_to_request(command_of: Callable[[int], tuple[list[str], str]]) -> float:
    """Milliseconds, the median of some runs."""
    arrived = threading.Event()
    moments: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            """Stay quiet."""

        def do_GET(self) -> None:
            moments.append(time.perf_counter())
            arrived.set()
            content = b'{"waiting": [], "messages": [], "cursor": 0}'
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the program was ended: its request was what counts
                self.end_headers()
                self.wfile.write(content)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    environ = {"POSTROOM_URL": f"http://127.0.0.1:{port}", "POSTROOM_TOKEN": "am_x", "PATH": "/usr/bin:/bin"}
    times = []
    for _ in range(STARTS):
        arrived.clear()
        moments.clear()
        command, given = command_of(port)
        begin = time.perf_counter()
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ
        ) as process:
            assert process.stdin is not None
            process.stdin.write(given.encode())
            process.stdin.close()
            assert arrived.wait(30), command
            times.append(moments[0] - begin)
            process.kill()
    server.shutdown()
    server.server_close()
    return statistics.median(times) * 1000


def schemas() -> list[dict[str, Any]]:
    """Name, description and input schema of each tool, as compact JSON."""
    from postroom.tools.mailbox_schemas import MAILBOX_TOOLS
    from postroom.tools.reader import EMAIL_READ
    from postroom.tools.schemas import EMAIL_TOOLS, schema_bytes

    out = []
    for name, specs in (("email", EMAIL_TOOLS), ("mailbox", MAILBOX_TOOLS), ("reader", (EMAIL_READ,))):
        value = schema_bytes(specs)
        row: dict[str, Any] = {"name": f"tools/list, {len(specs)} {name} tools", "value": value, "unit": "B"}
        if name in QUOTED:
            about = {"reference": "reference plugin (quoted, not in this run)", "reference_value": QUOTED[name]}
            row |= {**about, "ratio": value / QUOTED[name]}
        out.append(row)
    return out
