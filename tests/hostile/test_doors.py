"""Every mail goes through the real doors: accepted by SMTP, listed and read by HTTP, its bytes unchanged, none lost.

The third-party mails beside the checkout where they are, and ugly mails of our own always. Bad input of
every kind gets its defined answer.
"""

import contextlib
import hashlib
import os
import re
import shutil
import smtplib
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from postroom.testing import send_mail
from served import Served, eventually, serving

INBOX = "scout@postroom.localhost"
SENDER = "ada@customer.example"
HEAD = b"From: Ada <ada@customer.example>\r\nTo: scout@postroom.localhost\r\nSubject: ugly\r\n"


def nested(depth: int) -> bytes:
    opening = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (level, level) for level in range(depth)
    )
    return HEAD + opening + b"Content-Type: text/plain\r\n\r\ndeep\r\n"


OURS = {
    "no headers": b"just text\r\n",
    "nothing at all": b"\r\n",
    "NUL": HEAD + b"\r\nbefore\x00after\r\n",
    "8-bit headers": HEAD + b"X-Name: \xff\xfe caf\xe9\r\nSubject: \xe4\xb8\xad\xe6\x96\x87\r\n\r\nhello\r\n",
    "a 64 KB To header": HEAD + b"To: " + b",\r\n ".join(b"a%05d@example.org" % n for n in range(3600)) + b"\r\n\r\nhello\r\n",
    "2,000 nested parts": nested(2000),
    "1,500 flat parts": HEAD + b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n' + b"--b\r\n\r\nx\r\n" * 1500 + b"--b--\r\n",
    "broken MIME": HEAD + b'Content-Type: multipart/mixed; boundary="missing"\r\n\r\nno boundary here\r\n',
    "broken base64": HEAD + b"Content-Transfer-Encoding: base64\r\n\r\n!!!! not base64 =\r\n",
    "unknown charset": HEAD + b"Content-Type: text/plain; charset=klingon\r\n\r\nhello\r\n",
    "utf-7": HEAD + b"Content-Type: text/html; charset=utf-7\r\n\r\n+ADw-script+AD4-\r\n",
    "bare LF": HEAD.replace(b"\r\n", b"\n") + b"\nline\nline\n\r\n",
    "bare CR": HEAD + b"\r\none\rtwo\rthree\r\n",
    "dots": HEAD + b"\r\n.\r\n..\r\n.two\r\n",
    "20,000 encoded words": HEAD + b"X: " + b"\r\n ".join([b"=?utf-8?q?a?="] * 3000) + b"\r\n\r\nhello\r\n",
    "a message id that is a path": HEAD + b"Message-ID: <../../a?b#c%00@x.example>\r\n\r\nhello\r\n",
    "two Froms": b"From: a@example.org\r\nFrom: b@example.org\r\nTo: scout@postroom.localhost\r\n\r\nhello\r\n",
    "no From": b"Subject: nobody\r\n\r\nhello\r\n",
    "a Date of the year 99999": HEAD + b"Date: Mon, 1 Jan 99999 00:00:00 +0000\r\n\r\nhello\r\n",
}


@pytest.fixture(scope="module", params=ENGINES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with url_of(request.param) as url, serving(tmp_path_factory.mktemp("doors") / "house", settings(url)) as daemon:
        daemon.agent("scout")
        yield daemon


def everything(served: Served) -> list[dict]:
    """All messages of the inbox, page by page."""
    rows: list[dict] = []
    token = ""
    while True:
        page = served.ok("GET", f"/v0/inboxes/{INBOX}/messages?limit=100&include_unauthenticated=true{token}")
        rows += page["messages"]
        if "next_page_token" not in page:
            return rows
        token = f"&page_token={page['next_page_token']}"


def read_whole(served: Served, row: dict) -> bytes:
    """The message as JSON and its raw bytes through the signed link."""
    path = f"/v0/inboxes/{INBOX}/messages/{quote(row['message_id'], safe='')}"
    message = served.ok("GET", path)
    assert message["thread_id"] == row["thread_id"]
    link = served.ok("GET", f"{path}/raw")
    with urllib.request.urlopen(link["download_url"], timeout=PATIENCE_S) as answer:
        raw = answer.read()
    assert len(raw) == link["size"]
    return raw


def go_through(served: Served, mails: dict[str, bytes]) -> None:
    """Send each, wait until all are listed, and find the very bytes of each again."""
    before = Counter(hashlib.sha256(read_whole(served, row)).hexdigest() for row in everything(served))
    sent: Counter[str] = Counter()
    for name, raw in mails.items():
        report = send_mail(*served.smtp, SENDER, [INBOX], raw)
        assert (report.code, report.refused) == (250, {}), (name, report)
        sent[hashlib.sha256(raw).hexdigest()] += 1
    known = sum(before.values()) + sent.total()
    rows = eventually(lambda: found if len(found := everything(served)) >= known else [])
    read = [read_whole(served, row) for row in rows]
    assert Counter(hashlib.sha256(raw).hexdigest() for raw in read) - before == sent


def test_ugly_mails_of_our_own_are_accepted_listed_read_and_unchanged(served: Served):
    go_through(served, OURS)
    queues = served.ok("GET", "/api/health")
    assert queues["status"] == "ok"


def test_the_third_party_mails_are_accepted_listed_read_and_unchanged(served: Served, cases: Path):
    mails = {}
    for path in sorted((cases / "mail").rglob("*.eml")):
        raw = re.sub(rb"(?<!\r)\n", b"\r\n", path.read_bytes())
        mails[str(path)] = raw if raw.endswith(b"\r\n") else raw + b"\r\n"
    assert len(mails) == 430
    go_through(served, mails)


def test_unknown_recipient_relaying_and_oversize_have_their_answers(served: Served):
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as client:
        client.ehlo()
        assert client.esmtp_features["size"] == str(25 * 1024 * 1024)
        assert client.mail(SENDER)[0] == 250
        assert client.rcpt("nobody@postroom.localhost")[0] == 550
        assert client.rcpt("someone@elsewhere.example")[0] == 550
        assert client.rcpt(INBOX)[0] == 250
        code, text = client.data(HEAD + b"\r\n" + b"x" * 70 + b"\r\n" * 14_000_000)
        assert (code, b"5.3.4" in text) == (552, True)
        assert client.sendmail(SENDER, [INBOX], HEAD + b"\r\nstill here\r\n") == {}
        assert client.mail(SENDER, [f"SIZE={26 * 1024 * 1024}"])[0] == 552


def test_wrong_token_wrong_json_and_junk_page_tokens_have_their_answers(served: Served):
    path = f"/v0/inboxes/{INBOX}/messages"
    assert served.call("GET", path, token="am_key_00_junk")[0] == 401
    assert served.call("GET", f"{path}?page_token=junk")[1]["errors"][0]["path"] == ["page_token"]
    request = urllib.request.Request(f"{served.url}{path}/send", b"{not json", {"Authorization": f"Bearer {served.owner}"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=PATIENCE_S)
    assert caught.value.code == 400
    caught.value.close()


def test_without_a_relay_a_send_to_the_outside_is_refused_and_says_why(served: Served):
    body = {"to": "someone@elsewhere.example", "subject": "s", "text": "t"}
    status, answer = served.call("POST", f"/v0/inboxes/{INBOX}/messages/send", body)
    assert (status, answer["code"]) == (403, "message_rejected")
    assert "relay" in answer["message"] + answer.get("fix", "")


def test_a_second_process_on_the_folder_is_refused(served: Served):
    done = served.cli("serve", "--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0", check=False)
    assert done.returncode == 1
    assert str(served.data) in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MB."""
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to make a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "tmpfs", str(folder)]).returncode:
        pytest.skip("needs root with the right to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_answers_451_loses_nothing_and_recovers(small_disk: Path):
    with serving(small_disk / "house") as served:
        served.agent("scout")
        accepted, refused = [], None
        for number in range(400):
            raw = HEAD + b"Message-ID: <n%d@x.example>\r\n\r\n" % number + b"y" * 60_000 + b"\r\n"
            try:
                send_mail(*served.smtp, SENDER, [INBOX], raw)
            except smtplib.SMTPResponseException as problem:
                refused = problem
                break
            accepted.append(raw)
        assert refused is not None
        assert refused.smtp_code in (451, 452)
        assert served.call("GET", "/health")[0] in (200, 503)

        with contextlib.suppress(FileNotFoundError):
            (small_disk / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,size=60m", str(small_disk)], check=True)
        last = HEAD + b"\r\nafter the flood\r\n"

        def again() -> bool:
            with contextlib.suppress(smtplib.SMTPException):
                send_mail(*served.smtp, SENDER, [INBOX], last)
                return True
            return False

        eventually(again)
        rows = eventually(lambda: found if len(found := everything(served)) > len(accepted) else [])
        stored = {hashlib.sha256(read_whole(served, row)).hexdigest() for row in rows}
        assert {hashlib.sha256(raw).hexdigest() for raw in [*accepted, last]} == stored
