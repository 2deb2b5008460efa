"""What a browser shows of an HTML mail stays in the text a model sees: Chromium is asked word by word.

A word counts as shown when its text node is visible, large enough to see, of another colour than what is
behind it, and on the page. Nothing is fetched: no host name resolves in that browser.
"""

import base64
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from html_mails import html_mails
from pace import PATIENCE_S
from postroom.mime.parse import parse
from postroom.safety.visible import visible_text

WORD = re.compile(r"\w+")
KEPT = 0.995
BATCH = 40
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=60000",
    "--dump-dom",
)


def shown(mails: list[str], folder: Path) -> list[str]:
    """The text Chromium shows of each."""
    found: list[str] = []
    script = (Path(__file__).parent / "visible.js").read_text(encoding="utf-8")
    for start in range(0, len(mails), BATCH):
        some = [base64.b64encode(html.encode("utf-8", "replace")).decode() for html in mails[start : start + BATCH]]
        page = folder / f"page{start}.html"
        whole = f'<!DOCTYPE html><meta charset="utf-8"><body><script>const MAILS = {json.dumps(some)};</script>'
        page.write_text(f'{whole}<script type="module">{script}</script>', encoding="utf-8")
        command = ["chromium", *OPTIONS, f"--user-data-dir={folder / 'profile'}", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        answer = re.search(r'<pre id="out">([A-Za-z0-9+/=]*)</pre>', done.stdout)
        assert answer is not None, (start, done.stdout[-300:], done.stderr[-2000:])
        found += json.loads(base64.b64decode(answer[1]))
    return found


def losses(mails: dict[str, str], folder: Path) -> tuple[int, dict[str, Counter[str]]]:
    """How many words were shown, and which of them our text lacks, by mail."""
    total = 0
    lost: dict[str, Counter[str]] = {}
    for (name, html), text in zip(mails.items(), shown(list(mails.values()), folder), strict=True):
        theirs = Counter(WORD.findall(text.casefold()))
        total += theirs.total()
        missing = theirs - Counter(WORD.findall(visible_text(html).text.casefold()))
        if missing:
            lost[name] = missing
    return total, lost


def judge(what: str, mails: dict[str, str], folder: Path) -> None:
    total, lost = losses(mails, folder)
    kept = 1 - sum(words.total() for words in lost.values()) / total
    print(f"{what}: {len(mails)} mails, {total} words shown by Chromium, {kept:.4%} kept")
    for name, words in lost.items():
        print(f"  {name}: {words.total()} lost: {' '.join(list(words)[:12])}")
    assert kept >= KEPT


@pytest.fixture
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed")
    return found


def test_what_chromium_shows_of_mails_we_wrote_is_kept(chromium: str, tmp_path: Path) -> None:
    mails = dict(html_mails())
    assert len(mails) == 60
    judge("our own", mails, tmp_path)


def test_what_chromium_shows_of_real_mails_is_kept(chromium: str, cases: Path, tmp_path: Path) -> None:
    mails = {}
    for path in sorted((cases / "mail").rglob("*.eml")):
        html = parse(path.read_bytes()).html
        if html and html.strip():
            mails[path.name] = html
    assert len(mails) > 50
    judge("real", mails, tmp_path)
