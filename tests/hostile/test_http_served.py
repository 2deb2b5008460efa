"""The daemon as a stranger meets it: start, stop, and every route without a token."""

import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pace import PATIENCE_S
from served import Served, clean_environment, serving, start

OPEN = {("GET", "/"), ("GET", "/health")}
OURS = [
    ("GET", "/api/agents"),
    ("POST", "/api/agents"),
    ("DELETE", "/api/agents/scout"),
    ("POST", "/api/agents/scout/rotate"),
    ("GET", "/api/outgoing"),
    ("GET", "/api/outgoing/out_1"),
    ("GET", "/api/outgoing/out_1/raw"),
    ("POST", "/api/outgoing/out_1/approve"),
    ("POST", "/api/outgoing/out_1/refuse"),
    ("GET", "/api/sessions"),
    ("GET", "/api/sessions/s/pending"),
    ("POST", "/api/sessions/s/wake"),
    ("GET", "/api/audit?outgoing=out_1"),
    ("GET", "/api/health"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("POST", "/mcp/email"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing"),
]
METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served") / "house") as daemon:
        yield daemon


def refuse(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A start that must fail."""
    command = [sys.executable, "-m", "postroom.cli.main", "serve", "--data", str(data), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=clean_environment())


def test_every_route_asks_for_a_token(served: Served):
    document = served.ok("GET", "/openapi.json")
    offered = [(method.upper(), path) for path, verbs in document["paths"].items() for method in verbs if method in METHODS]
    assert len(offered) > 20
    answers = {route: served.call(*route, token="am_wrong") for route in [*offered, *OURS]}
    assert {route for route, (status, _) in answers.items() if status != 401} == set()
    assert {body["code"] for _, body in answers.values()} == {"unknown_api_key"}


def test_what_is_open_says_no_more_than_it_must(served: Served):
    assert {route: served.call(*route, token="none")[0] for route in OPEN} == dict.fromkeys(OPEN, 200)
    assert set(served.call("GET", "/health", token="none")[1]) == {"status", "version"}
    assert served.call("GET", "/dl/x", token="none")[0] == 404


def test_a_page_of_another_origin_gets_nothing_even_with_the_key(served: Served):
    status, body = served.call("GET", "/api/agents", Origin="http://evil.example")
    assert (status, body["code"]) == (403, "forbidden_origin")
    assert served.call("GET", "/api/agents", Origin=served.url)[0] == 200


def test_the_folder_is_the_owners_alone_and_says_where_the_daemon_is(served: Served):
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [served.data, *served.data.iterdir()]}
    assert modes.pop(served.data.name) == 0o700
    assert {name for name, mode in modes.items() if mode & 0o077 and name not in ("postroom.toml", "serve.log")} == set()
    told = json.loads((served.data / "endpoint.json").read_text())
    assert (told["http"], told["pid"]) == (served.url, served.process.pid)


def test_a_second_daemon_on_the_folder_is_told_who_has_it(served: Served):
    done = refuse(served.data, "--http", "127.0.0.1:0", "--smtp", "off")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"process {served.process.pid} is using the data folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("door", ["--http", "--smtp"])
def test_a_taken_port_is_a_clear_error_and_nothing_is_left_running(tmp_path: Path, door: str):
    other = {"--http": "--smtp", "--smtp": "--http"}[door]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = refuse(tmp_path / "house", door, f"127.0.0.1:{port}", other, "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_config_names_the_key_and_starts_nothing(tmp_path: Path):
    (tmp_path / "odd.toml").write_text("[gate]\naproval = 'risk'\n")
    done = refuse(tmp_path / "house", "--config", str(tmp_path / "odd.toml"), "--http", "127.0.0.1:0", "--smtp", "off")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean approval?" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_stop_it_ends_with_0_whoever_is_connected(tmp_path: Path, how: signal.Signals):
    daemon = start(tmp_path / "house")
    half = socket.create_connection((daemon.host, daemon.port))
    half.sendall(b"POST /v0/inboxes HTTP/1.1\r\nHost: %s:%d\r\n" % (daemon.host.encode(), daemon.port))
    body = socket.create_connection((daemon.host, daemon.port))
    head = f"POST /api/agents HTTP/1.1\r\nHost: {daemon.host}:{daemon.port}\r\nAuthorization: Bearer {daemon.owner}\r\n"
    body.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
    mail = socket.create_connection(daemon.smtp)
    assert daemon.stop(how) == 0
    assert daemon.process.stdout is not None
    assert daemon.process.stdout.read() == ""  # the ready line was all it ever said there
    daemon.process.stdout.close()
    for connection in (half, body, mail):
        connection.close()
    assert not (tmp_path / "house" / "endpoint.json").exists()


def test_smtp_may_be_off(tmp_path: Path):
    command = [sys.executable, "-m", "postroom.cli.main", "serve", "--data", str(tmp_path / "house")]
    command += ["--http", "[::1]:0", "--smtp", "off"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0
    assert line.startswith("postroom ready http://[::1]:")
    assert line.endswith(" smtp://off\n")


def test_what_a_bare_daemon_does_not_need_is_not_loaded(tmp_path: Path):
    command = [sys.executable, "-X", "importtime", "-m", "postroom.cli.main", "serve", "--data", str(tmp_path / "house")]
    command += ["--http", "127.0.0.1:0", "--smtp", "off"]
    with (tmp_path / "imports").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=clean_environment())
    assert process.stdout is not None
    assert process.stdout.readline().startswith("postroom ready")
    process.terminate()
    assert process.wait(timeout=PATIENCE_S) == 0
    process.stdout.close()
    rows = (tmp_path / "imports").read_text().splitlines()
    loaded = {row.rpartition("|")[2].strip().partition(".")[0] for row in rows if row.startswith("import time:")}
    late = {"a2a", "acp", "agentmail", "alembic", "httpx", "imapclient", "keyring", "mcp", "typer"}
    assert (loaded & late, "uvicorn" in loaded) == (set(), True)
