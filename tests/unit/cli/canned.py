"""A daemon of canned answers on a real port, with the files a real one leaves in its data folder."""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Canned:
    """`answers[(method, path)]` is `(status, body)`; `asked` lists what came: method, path, body, token."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, Any, str | None]] = []
        self.url = ""


@contextlib.contextmanager
def serving() -> Iterator[Canned]:
    """A daemon of canned answers for the length of a block."""
    canned = Canned()

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
            canned.asked.append((self.command, self.path, json.loads(content) if content else None, token))
            status, body = canned.answers.get(
                (self.command, self.path), (404, {"message": "nothing canned", "code": "not_found"})
            )
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        canned.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield canned
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def owning(folder: Path, url: str) -> Iterator[None]:
    """What a running daemon keeps in its data folder: key, endpoint and lock."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "owner.key").write_text("am_owner\n")
    (folder / "owner.key").chmod(0o600)
    (folder / "endpoint.json").write_text(json.dumps({"pid": 1, "http": url, "smtp": "smtp://off", "version": "0"}))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
