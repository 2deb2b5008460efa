"""The reader against an independent Gmail emulator (npm `emulate`): authorize in a browser, list, search, read, refresh."""

import asyncio
import base64
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from pace import PATIENCE_S
from postroom.mime.parse import parse
from postroom.reader.body import ReadMessage
from postroom.reader.parallel import in_parallel
from postroom.reader.request import ReadRequest
from postroom.reader.tokens import Tokens
from readerkit import GMAIL, OWNER, Kit, kit

NODE = Path(__file__).parent / "node"


def listening() -> tuple[subprocess.Popen[str], int] | None:
    """The emulator and its port, which it wants named; None when another took the port meanwhile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    process = subprocess.Popen(["node", "gmail.mjs", str(port)], cwd=NODE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.strip() == "listening":
            return process, port
    process.wait(PATIENCE_S)
    process.stdout.close()
    return None


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    if shutil.which("node") is None or not (NODE / "node_modules" / "emulate").is_dir():
        pytest.skip("peer absent: the Gmail emulator (npm ci in tests/clients/node)")
    process, port = next(started for _ in range(5) if (started := listening()) is not None)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(PATIENCE_S)
    process.stdout.close()


async def consent(url: str) -> httpx.Response:
    """What the person does in the browser: choose the account, and follow the redirect."""
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
        page = (await browser.get(url)).text
        fields = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page))
        sent = await browser.post(f"{url.partition('/o/')[0]}/o/oauth2/v2/auth/callback", data=unescaped(fields))
        assert sent.status_code == 302, sent.text
        return await browser.get(sent.headers["location"])


def unescaped(fields: dict[str, str]) -> dict[str, str]:
    import html

    return {name: html.unescape(value) for name, value in fields.items()}


@pytest.fixture
async def made(emulator: str, tmp_path: Path) -> AsyncIterator[Kit]:
    """A reader the person has let into the emulator's mailbox, through its own consent page."""
    ready = kit(tmp_path, emulator, GMAIL, max_limit=200)
    prompt = await ready.reader.authorize(OWNER, GMAIL.id, device=False)
    assert prompt is not None
    page = await consent(prompt.url)
    assert (page.status_code, "close this window" in page.text) == (200, True)
    assert await ready.reader.authorization(OWNER, GMAIL.id, PATIENCE_S) == "authorized"
    yield ready
    await ready.reader.close()


async def token(made: Kit) -> str:
    tokens = made.reader._open[GMAIL.id].tokens
    assert isinstance(tokens, Tokens)
    return await tokens.current()


async def put(made: Kit, emulator: str, raws: list[bytes]) -> list[str]:
    """Put mails into the mailbox, as Google's own import does; their ids."""
    async with httpx.AsyncClient(
        trust_env=False, timeout=PATIENCE_S, headers={"Authorization": f"Bearer {await token(made)}"}
    ) as google:

        async def one(raw: bytes) -> str:
            body = {"raw": base64.urlsafe_b64encode(raw).decode()}
            answer = await google.post(f"{emulator}/gmail/v1/users/me/messages/import", json=body)
            assert answer.status_code == 200, answer.text
            return str(answer.json()["id"])

        return await in_parallel(one, raws, most=8)


async def labels(made: Kit, emulator: str) -> dict[str, list[str]]:
    async with httpx.AsyncClient(
        trust_env=False, timeout=PATIENCE_S, headers={"Authorization": f"Bearer {await token(made)}"}
    ) as google:

        async def one(message_id: str) -> tuple[str, list[str]]:
            row = (await google.get(f"{emulator}/gmail/v1/users/me/messages/{message_id}?format=minimal")).json()
            return row["id"], row["labelIds"]

        found = (await google.get(f"{emulator}/gmail/v1/users/me/messages?maxResults=500")).json()["messages"]
        return dict(await in_parallel(one, [row["id"] for row in found], most=8))


async def all_messages(made: Kit) -> dict[str, ReadMessage]:
    """The whole mailbox, page by page."""
    found: dict[str, ReadMessage] = {}
    following: str | None = ""
    while following is not None:
        reading = await made.reader.read(OWNER, ReadRequest(limit=100, page_token=following))
        found |= {message.id: message for message in reading.messages}
        following = reading.page_token(len(reading.messages))
    return found


def mail(subject: str, date: str = "Tue, 01 Sep 2026 10:00:00 +0000", **more: str) -> bytes:
    headers = {"From": "Ada <ada@customer.example>", "To": "me@example.test", "Subject": subject, "Date": date, **more}
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + b"\r\nWhat is the price?\r\n"


async def test_c18_consent_in_the_browser_opens_the_account_and_lasts(made: Kit, emulator: str, tmp_path: Path):
    again = kit(tmp_path, emulator, GMAIL)  # a restart: the grant comes from its file
    reading = await again.reader.read(OWNER, ReadRequest(limit=1))
    await again.reader.close()
    assert reading.account == GMAIL.id


async def test_list_search_and_read_find_what_was_put_in(made: Kit, emulator: str):
    await put(made, emulator, [mail("Quarterly report"), mail("Lunch", date="Wed, 02 Sep 2026 10:00:00 +0000")])
    found = await made.reader.read(OWNER, ReadRequest(query="subject:Quarterly", limit=5))
    (message,) = found.messages
    assert (message.subject, message.from_, message.to) == (
        "Quarterly report",
        "Ada <ada@customer.example>",
        ("me@example.test",),
    )
    assert (message.date, message.text) == ("2026-09-01T10:00:00.000Z", "What is the price?")
    one = await made.reader.read(OWNER, ReadRequest(message_id=message.id))
    assert one.messages == found.messages


async def test_dates_are_exact_and_before_is_not_included(made: Kit, emulator: str):
    days = ["Sat, 31 Oct 2026 23:59:59 +0000", "Sun, 01 Nov 2026 00:00:00 +0000", "Mon, 02 Nov 2026 00:00:00 +0000"]
    await put(made, emulator, [mail(f"day {number}", date=day) for number, day in enumerate(days)])
    found = await made.reader.read(OWNER, ReadRequest(after="2026-11-01", before="2026-11-02"))
    assert [message.subject for message in found.messages] == ["day 1"]


async def test_every_page_is_reached_once(made: Kit, emulator: str):
    await put(made, emulator, [mail(f"page {number}") for number in range(7)])
    seen: list[str] = []
    request = ReadRequest(query="subject:page", limit=3)
    while True:
        reading = await made.reader.read(OWNER, request)
        seen += [message.id for message in reading.messages]
        following = reading.page_token(len(reading.messages))
        if following is None:
            break
        request = ReadRequest(query="subject:page", limit=3, page_token=following)
    assert (len(seen), len(set(seen))) == (7, 7)


async def test_c24_a_token_that_ran_out_is_refreshed_without_a_browser(made: Kit, emulator: str):
    before = await token(made)
    made.clock.advance(3600)
    await made.reader.read(OWNER, ReadRequest(limit=1))
    assert await token(made) != before


async def test_real_mails_read_as_they_were_sent_and_their_labels_stay(made: Kit, emulator: str, cases: Path):
    files = sorted((cases / "mail").rglob("*.eml"))
    chosen = [raw for raw in (path.read_bytes() for path in files) if len(raw) < 500_000]
    ids = await put(made, emulator, chosen)
    before = await labels(made, emulator)
    found = await all_messages(made)
    agree = 0
    for message_id, raw in zip(ids, chosen, strict=True):
        wanted, seen = parse(raw).subject or "", found[message_id].subject
        agree += wanted.split()[:3] == seen.split()[:3] or not wanted.isascii()
    assert len(ids) >= len(files) * 0.95
    assert agree >= len(ids) * 0.9  # the emulator reads headers in its own way
    assert await labels(made, emulator) == before


async def test_the_authorization_asks_for_reading_only(made: Kit, emulator: str):
    prompt = await made.reader.authorize(OWNER, GMAIL.id, device=False)
    assert prompt is not None
    asked = parse_qs(urlsplit(prompt.url).query)
    await made.reader.stop(OWNER, GMAIL.id)
    assert asked["scope"] == ["https://www.googleapis.com/auth/gmail.readonly"]
    assert asked["code_challenge_method"] == ["S256"]


async def test_the_emulator_listens_on_loopback_only(emulator: str):
    port = urlsplit(emulator).port
    await asyncio.sleep(0)
    listening = Path("/proc/net/tcp").read_text(encoding="ascii") if Path("/proc/net/tcp").exists() else ""
    assert f"00000000:{port:04X}" not in listening
