"""Signed links: who made them, how long they live, and how the bytes are served."""

from typing import Any

import pytest

from postroom.errors import NotFound
from postroom.interfaces.http.download import Downloads, DownloadSigner
from postroom.limits import DOWNLOAD_URL_S
from postroom.model.mail import Attachment, AttachmentData, Blob, Draft, DraftFields
from postroom.model.principal import Principal

INBOX = "scout@postroom.localhost"
BASE = "http://127.0.0.1:4470/"


class SetClock:
    us = 1_767_225_600_000_000

    def now_us(self) -> int:
        return self.us


class Shelf:
    """Mail that hands out what it was asked for."""

    def __init__(self, blob: Blob | None = None) -> None:
        self._blob = blob or Blob(content=b"bytes", filename="a.txt", content_type="text/plain")
        self.asked: list[Any] = []

    async def get_raw(self, principal: Principal, inbox_id: str, message_id: str) -> Blob:
        self.asked.append((principal.inbox_scope, inbox_id, message_id))
        return self._blob

    async def get_attachment(self, principal: Principal, inbox_id: str, message_id: str, attachment_id: str):
        self.asked.append((principal.inbox_scope, inbox_id, message_id, attachment_id))
        return Attachment(attachment_id=attachment_id, size=5), self._blob

    async def get_draft(self, principal: Principal, inbox_id: str | None, draft_id: str) -> Draft:
        fields = DraftFields(attachments=(AttachmentData(content=b"one"), AttachmentData(content=b"two", filename="2.txt")))
        rows = (Attachment(attachment_id="a1", size=3), Attachment(attachment_id="a2", size=3, filename="2.txt"))
        return Draft(inbox_id=INBOX, draft_id=draft_id, fields=fields, author="owner", attachments=rows)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def signer(clock: SetClock) -> DownloadSigner:
    return DownloadSigner(b"k" * 32, clock)


async def fetch(signer: DownloadSigner, shelf: Shelf, url: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path = url.removeprefix(BASE[:-1])
    await Downloads(signer, shelf)({"type": "http", "method": method, "path": path}, None, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (f"raw/{INBOX}/<a/b@x>", (INBOX, INBOX, "<a/b@x>")),
        (f"attachment/{INBOX}/<a/b@x>/att-1", (INBOX, INBOX, "<a/b@x>", "att-1")),
    ],
)
async def test_a_link_shows_what_it_was_made_for(signer: DownloadSigner, path: str, asked: tuple[str, ...]):
    shelf = Shelf()
    url, expires = signer.url(BASE, path)
    assert url.startswith("http://127.0.0.1:4470/dl/")
    assert expires == SetClock.us + DOWNLOAD_URL_S * 1_000_000
    status, _, body = await fetch(signer, shelf, url)
    assert (status, body, shelf.asked) == (200, b"bytes", [asked])


async def test_a_drafts_attachment_is_found_by_its_id(signer: DownloadSigner):
    _, headers, body = await fetch(signer, Shelf(), signer.url(BASE, f"draft/{INBOX}/d1/a2")[0])
    assert (body, headers["content-disposition"]) == (b"two", "attachment; filename=\"2.txt\"; filename*=UTF-8''2.txt")
    with pytest.raises(NotFound):
        await fetch(signer, Shelf(), signer.url(BASE, f"draft/{INBOX}/d1/a3")[0])


async def test_a_link_ends_after_its_time(signer: DownloadSigner, clock: SetClock):
    url, expires = signer.url(BASE, f"raw/{INBOX}/<a@x>")
    clock.us = expires - 1
    assert (await fetch(signer, Shelf(), url))[0] == 200
    clock.us = expires
    with pytest.raises(NotFound):
        await fetch(signer, Shelf(), url)


async def test_a_link_somebody_else_made_or_changed_is_nothing(signer: DownloadSigner, clock: SetClock):
    token = signer.url(BASE, f"raw/{INBOX}/<a@x>")[0].rpartition("/")[2]
    foreign = DownloadSigner(b"o" * 32, clock).url(BASE, f"raw/{INBOX}/<a@x>")[0].rpartition("/")[2]
    changed = [token[:i] + ("A" if token[i] != "A" else "B") + token[i + 1 :] for i in range(0, len(token) - 1, 7)]
    for bad in [foreign, "", "a", "!!", token[:-4], token + "AAAA", "\u00e9", *changed]:
        with pytest.raises(NotFound):
            signer.read(bad)


@pytest.mark.parametrize(
    ("blob", "kind", "disposition"),
    [
        (Blob(content=b""), "application/octet-stream", "attachment; filename=\"download\"; filename*=UTF-8''download"),
        (
            Blob(content=b"", filename='a"b\r\nX: y.html', content_type="text/html"),
            "text/html",
            "attachment; filename=\"a_bX_ y.html\"; filename*=UTF-8''a%22bX%3A%20y.html",
        ),
        (
            Blob(content=b"", filename="naïve.txt", content_type="text/plain; charset=x\r\nX: y"),
            "application/octet-stream",
            "attachment; filename=\"na_ve.txt\"; filename*=UTF-8''na%C3%AFve.txt",
        ),
    ],
)
async def test_bytes_are_served_as_a_download_nothing_runs(signer: DownloadSigner, blob: Blob, kind: str, disposition: str):
    _, headers, _ = await fetch(signer, Shelf(blob), signer.url(BASE, f"raw/{INBOX}/<a@x>")[0])
    assert (headers["content-type"], headers["content-disposition"]) == (kind, disposition)
    assert headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert headers["cache-control"] == "private, no-store"


async def test_downloads_are_read_only(signer: DownloadSigner):
    url = signer.url(BASE, f"raw/{INBOX}/<a@x>")[0]
    assert (await fetch(signer, Shelf(), url, "POST"))[0] == 405
    status, headers, body = await fetch(signer, Shelf(), url, "HEAD")
    assert (status, headers["content-length"], body) == (200, "5", b"")
