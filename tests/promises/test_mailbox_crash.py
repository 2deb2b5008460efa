"""What was acknowledged is there: 4 processes with 8 connections each send into a daemon that is killed again and again."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from served import Served, clean_environment, eventually, start

PROCESSES, CONNECTIONS = 4, 8

# Sends with a key until it is answered, and notes what was acknowledged; ends when its standard input does.
CLIENT = r"""
import http.client, json, os, sys, threading
host, port, token, number, connections = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
ending = threading.Event()
lock = threading.Lock()

def ask(connection, method, path, body=None):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())

def work(at):
    name, count, cursor = f"w{number}-{at}", 0, 0
    connection = http.client.HTTPConnection(host, port, timeout=240)
    while not ending.is_set():
        key = f"{name}-{count}"
        try:
            status, sent = ask(connection, "POST", "/mailbox/messages", {"from": name, "to": "sink", "text": f"text of {key}", "idempotency_key": key})
            if status >= 500:
                continue
            assert status in (200, 201), sent
            with lock:
                print(json.dumps(["sent", key, sent["seq"], sent["link"]]), flush=True)
            count += 1
            status, page = ask(connection, "GET", f"/mailbox/messages?reader=sink&since={cursor}&limit=50")
            if status == 200:
                with lock:
                    print(json.dumps(["read", name, page["cursor"], page["link"]]), flush=True)
                cursor = page["cursor"]
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()
            connection = http.client.HTTPConnection(host, port, timeout=240)
            ending.wait(0.02)

threads = [threading.Thread(target=work, args=(at,)) for at in range(connections)]
for thread in threads: thread.start()
sys.stdin.read()
ending.set()
for thread in threads: thread.join()
"""


class Clients:
    """The client processes, and what they were told."""

    def __init__(self, served: Served) -> None:
        self.said: list[tuple[str, str, int, str]] = []
        arguments = [served.host, str(served.port), served.owner]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", CLIENT, *arguments, str(number), str(CONNECTIONS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=clean_environment(),
            )
            for number in range(PROCESSES)
        ]
        self.listeners = [threading.Thread(target=self._listen, args=(one,), daemon=True) for one in self.processes]
        for listener in self.listeners:
            listener.start()

    def stop(self) -> None:
        for process in self.processes:
            process.stdin.close()
        for process, listener in zip(self.processes, self.listeners, strict=True):
            assert process.wait(PATIENCE_S) == 0
            listener.join()
            process.stdout.close()

    def kill(self) -> None:
        """End whoever is left, so that a failure is told instead of waited out."""
        for process in self.processes:
            process.kill()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout:
            self.said.append(tuple(json.loads(line)))


@pytest.fixture(params=ENGINES)
def config(request: pytest.FixtureRequest) -> Iterator[str]:
    """The config of a daemon on either engine."""
    with url_of(request.param) as url:
        yield settings(url)


@pytest.mark.timeout(1800)
def test_b4_acknowledged_is_stored_once_and_cursors_never_go_back(tmp_path: Path, config: str, long: bool):
    served = start(tmp_path / "data", config)
    served.ok("POST", "/mailbox/announce", {"name": "sink"})
    clients = Clients(served)
    try:
        served = killed_again_and_again(served, config, clients, 200 if long else 20)
        clients.stop()
        check(served, clients.said)
        assert served.stop() == 0
    finally:
        clients.kill()
        served.process.kill()
        served.process.stdout.close()


def killed_again_and_again(served: Served, config: str, clients: Clients, times: int) -> Served:
    """The daemon that was started after the last kill."""
    rng = random.Random(5)
    for _ in range(times):
        told = len(clients.said)
        eventually(lambda told=told: len(clients.said) > told + 20)
        time.sleep(rng.random() * 0.05)  # somewhere inside whatever it is doing
        served.process.send_signal(signal.SIGKILL)
        served.process.wait(PATIENCE_S)
        served.process.stdout.close()
        served = start(served.data, config, "--http", f"{served.host}:{served.port}")
    return served


def check(served: Served, said: list[tuple[str, str, int, str]]) -> None:
    acknowledged = {key: (seq, link) for what, key, seq, link in said if what == "sent"}
    records = [json.loads(line) for line in served.cli("mailbox", "export").stdout.splitlines()]
    stored = {record["key"]: (record["seq"], record["link"]) for record in records if record["kind"] == "message"}
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert len(stored) == sum(record["kind"] == "message" for record in records)  # none doubled by key
    assert {key: stored.get(key) for key in acknowledged} == acknowledged
    cursors: dict[str, int] = {}
    for what, name, cursor, _ in said:
        if what == "read":
            assert cursor >= cursors.get(name, 0)
            cursors[name] = cursor
    witnesses = "&".join(f"witness={seq}:{link}" for _, _, seq, link in said[-50:] if seq)
    assert served.ok("GET", f"/mailbox/verify?{witnesses}")["valid"] is True
    assert served.cli("data", "verify").returncode == 0


def test_b5_a_second_daemon_on_the_same_folder_refuses(tmp_path: Path):
    served = start(tmp_path / "data")
    try:
        second = served.cli("serve", "--data", str(served.data), "--http", "127.0.0.1:0", "--smtp", "off", check=False)
        assert second.returncode == 1
        assert "is using the data folder" in second.stderr
    finally:
        served.stop()
        served.process.stdout.close()
