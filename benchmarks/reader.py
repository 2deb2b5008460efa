"""The reader: listing 50 mails from a Gmail stand-in on loopback, beside bare httpx asking for the same bytes; first use."""

from __future__ import annotations

import asyncio
import base64
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MESSAGES, RUNS = 50, 9
API = "/gmail/v1/users/me/messages"
HTML = "<html><body>" + "<p>Dear reader, the <b>quarterly</b> figures are in.</p>" * 60 + "</body></html>"


class Gmail:
    """Answers from memory; counts requests."""

    def __init__(self) -> None:
        self.requests = 0
        rows = [{"id": f"m{number}", "threadId": f"t{number}"} for number in range(MESSAGES)]
        self._answers = {API: json.dumps({"messages": rows}).encode()}
        self._answers |= {f"{API}/m{number}": json.dumps(message(number)).encode() for number in range(MESSAGES)}
        self._answers["/oauth2/token"] = json.dumps({"access_token": "t" * 40, "expires_in": 3600}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep-alive HTTP/1.1, just enough of it."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
                await reader.readexactly(length)
                self.requests += 1
                body = self._answers[head.split(b" ", 2)[1].decode().partition("?")[0]]
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
                )
        except (asyncio.IncompleteReadError, OSError):
            writer.close()


def message(number: int) -> dict[str, Any]:
    """A marketing mail of about 4 KiB of HTML."""
    headers = {"From": "News <news@shop.example>", "To": "me@example.test", "Subject": f"Figures {number}"}
    data = base64.urlsafe_b64encode(HTML.encode()).decode()
    payload = {"mimeType": "text/html", "filename": "", "body": {"size": len(HTML), "data": data}}
    payload["headers"] = [{"name": name, "value": value} for name, value in headers.items()]
    return {
        "id": f"m{number}",
        "threadId": f"t{number}",
        "internalDate": "1767225600000",
        "sizeEstimate": 5000,
        "payload": payload,
    }


async def bare(url: str) -> float:
    """The same requests by a plain httpx client, eight at a time, JSON decoded and nothing made of it."""
    import httpx

    async with httpx.AsyncClient(trust_env=False) as client:
        begin = time.perf_counter()
        ids = [row["id"] for row in (await client.get(f"{url}{API}?maxResults={MESSAGES}")).json()["messages"]]
        gate = asyncio.Semaphore(8)

        async def one(name: str) -> Any:
            async with gate:
                return (await client.get(f"{url}{API}/{name}?format=full")).json()

        await asyncio.gather(*(one(name) for name in ids))
        return time.perf_counter() - begin


async def ours(url: str, peer: Gmail) -> tuple[list[float], float, int]:
    """Seconds per list, seconds of the first (with its token), requests per list."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from postroom.reader.request import ReadRequest
    from readerkit import OWNER, granted, kit

    with tempfile.TemporaryDirectory() as folder:
        made = kit(Path(folder), url)
        await granted(made)
        took = []
        for _ in range(RUNS + 1):
            counted, begin = peer.requests, time.perf_counter()
            reading = await made.reader.read(OWNER, ReadRequest(limit=MESSAGES))
            took.append(time.perf_counter() - begin)
            assert len(reading.messages) == MESSAGES
        await made.reader.close()
        return took[1:], took[0], peer.requests - counted


async def listings() -> list[dict[str, Any]]:
    """The rows that need the stand-in."""
    peer = Gmail()
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    took, first, requests = await ours(url, peer)
    reference = statistics.median([await bare(url) for _ in range(RUNS)])
    server.close()
    await asyncio.sleep(0.1)  # the last connections see that they are closed
    value = statistics.median(took)
    about = {"reference": "bare httpx, same requests", "reference_value": reference * 1000, "ratio": value / reference}
    return [
        {"name": f"reader: list {MESSAGES} mails with bodies", "value": value * 1000, "unit": "ms", **about},
        {"name": f"reader: requests for {MESSAGES} mails", "value": requests, "unit": "requests"},
        {"name": "reader: first list, with imports and token", "value": first * 1000, "unit": "ms"},
    ]


def imports(module: str) -> float:
    """Milliseconds to import `module` in a fresh process, beyond an empty one."""

    def took(code: str) -> float:
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begin

    return (
        statistics.median(took(f"import {module}") for _ in range(5)) - statistics.median(took("pass") for _ in range(5))
    ) * 1000


def rows() -> list[dict[str, Any]]:
    """Figures of the reader."""
    reference = imports("httpx")
    value = imports("postroom.reader.account")
    about = {"reference": "import httpx", "reference_value": reference, "ratio": value / reference}
    return [*asyncio.run(listings()), {"name": "reader: import of a provider", "value": value, "unit": "ms", **about}]
