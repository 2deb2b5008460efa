"""Mail in by SMTP, to the 250 and to indexed: 8 connections, 5 KiB, beside aiosmtpd that only commits to SQLite.

Both servers are processes of their own and take the same mails from the same client, in turn:
Postfix's smtp-source where it is installed (it costs the two cores least), else a client here.
A 250 means synced to disk on both sides. "Indexed" ends when the last mail stands in its inbox,
searchable; the reference is its rate to the 250, since it does nothing after that.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import smtplib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAILS = int(os.environ.get("BENCH_SMTP_MAILS", "2000"))
CONNECTIONS = 8
ROUNDS = 3
GIVE_UP_S = 600
SIZE = 5 * 1024
INBOX = "bench@postroom.localhost"
SENDER = "ann@example.org"
SOURCE = shutil.which("smtp-source", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

REFERENCE = r"""
import asyncio, sqlite3, sys
from aiosmtpd.smtp import SMTP

db = sqlite3.connect(sys.argv[1], check_same_thread=False)
db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE m(id INTEGER PRIMARY KEY, f, t, c BLOB)")
queue, wake = [], asyncio.Event()

class Handler:
    async def handle_DATA(self, server, session, envelope):
        done = asyncio.get_running_loop().create_future()
        queue.append((envelope.mail_from, ",".join(envelope.rcpt_tos), envelope.content, done))
        wake.set()
        await done
        return "250 OK"

def commit(batch):
    db.executemany("INSERT INTO m(f, t, c) VALUES (?, ?, ?)", [entry[:3] for entry in batch])
    db.commit()

async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Handler(), hostname="reference", loop=loop), "127.0.0.1", 0)
    print("postroom ready", server.sockets[0].getsockname()[1], flush=True)
    while True:
        await wake.wait()
        wake.clear()
        batch, queue[:] = queue[:], []
        await asyncio.to_thread(commit, batch)
        for entry in batch:
            entry[3].set_result(None)

asyncio.run(main())
"""


@dataclass
class Server:
    """Where a server under test listens, and how many mails it has finished."""

    port: int
    finished: Callable[[], int]


@contextmanager
def started(command: list[str]) -> Iterator[str]:
    """The ready line of a server, which is ended with the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("postroom ready"), line
        yield line
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@contextmanager
def reference(folder: Path) -> Iterator[Server]:
    """aiosmtpd that commits and does nothing else."""
    database = folder / "reference.db"
    with started([sys.executable, "-c", REFERENCE, str(database)]) as line:
        yield Server(int(line.split()[2]), lambda: count(database, "m"))


@contextmanager
def postroom(folder: Path) -> Iterator[Server]:
    """`postroom serve` with one agent's inbox."""
    data = folder / "postroom"
    addresses = ["--data", str(data), "--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0"]
    with started([sys.executable, "-m", "postroom.cli.main", "serve", *addresses]) as line:
        web, mail = (word.rpartition("//")[2] for word in line.split()[2:])
        make_inbox(web, (data / "owner.key").read_text(encoding="utf-8").strip())
        yield Server(int(mail.rpartition(":")[2]), lambda: count(data / "postroom.db", "message"))


def make_inbox(address: str, key: str) -> None:
    """`INBOX`, by the API."""
    with closing(http.client.HTTPConnection(address, timeout=10)) as client:
        body = json.dumps({"username": INBOX.partition("@")[0]})
        client.request("POST", "/v0/inboxes", body, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.status < 300, answer.read()


def count(database: Path, table: str) -> int:
    """Rows of a table, seen from outside the server."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def send(port: int, *, keep: bool) -> None:
    """All mails, over 8 connections that are kept or opened anew for each."""
    if SOURCE is not None:
        options = ["-s", str(CONNECTIONS), "-m", str(MAILS), "-l", str(SIZE), "-f", SENDER, "-t", INBOX, "-M", "bench.example"]
        subprocess.run([SOURCE, *options, *(["-d"] if keep else []), f"127.0.0.1:{port}"], check=True, timeout=600)
        return
    threads = [threading.Thread(target=send_share, args=(port, keep)) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def send_share(port: int, keep: bool) -> None:
    """One connection's share of the mails."""
    head = f"From: {SENDER}\r\nTo: {INBOX}\r\nSubject: bench\r\n\r\n".encode()
    mail = (head + (b"x" * 76 + b"\r\n") * (SIZE // 78))[:SIZE] + b"\r\n"
    share = MAILS // CONNECTIONS
    while share:
        with smtplib.SMTP("127.0.0.1", port, local_hostname="bench.example", timeout=60) as client:
            for _ in range(share if keep else 1):
                client.sendmail(SENDER, [INBOX], mail)
                share -= 1


def rates(server: Server, *, keep: bool) -> tuple[float, float]:
    """Mails a second to the last 250, and to the last one finished."""
    before = server.finished()
    begin = time.perf_counter()
    send(server.port, keep=keep)
    acknowledged = time.perf_counter() - begin
    while server.finished() < before + MAILS:
        if time.perf_counter() - begin > GIVE_UP_S:
            raise TimeoutError(f"{server.finished() - before} of {MAILS} mails were finished within {GIVE_UP_S} s")
        time.sleep(0.005)
    return MAILS / acknowledged, MAILS / (time.perf_counter() - begin)


def rows() -> list[dict[str, Any]]:
    """Medians over the rounds; the servers take turns, so that both meet the same machine."""
    figures: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name, reference(Path(name)) as bare, postroom(Path(name)) as ours:
        for _ in range(ROUNDS):
            for keep in (True, False):
                for title, server in (("reference", bare), ("postroom", ours)):
                    figures.setdefault((title, keep), []).append(rates(server, keep=keep))
    out = []
    for keep, how in ((True, "connections kept"), (False, "a connection each")):
        base = statistics.median(first for first, _ in figures["reference", keep])
        to_250, indexed = (statistics.median(column) for column in zip(*figures["postroom", keep], strict=True))
        for what, value in (("to 250", to_250), ("to indexed", indexed)):
            named = {"name": f"SMTP in {what}, {how}", "value": value, "unit": "mails/s"}
            about = {"reference": "aiosmtpd that only commits to SQLite", "reference_value": base, "ratio": value / base}
            out.append({**named, **about})
    return out


if __name__ == "__main__":
    for row in rows():
        print(row)
