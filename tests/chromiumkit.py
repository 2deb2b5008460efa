"""A real Chromium beside a test, without a window: a page is opened, read and clicked as a person would, by its DevTools protocol."""

import contextlib
import itertools
import json
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from pace import PATIENCE_S
from served import eventually

_EFFECT_S = 5.0  # after which it is clicked again
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1300,850",
    "--remote-debugging-port=0",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
# The middle of the smallest thing on the page that says exactly this, scrolled into view.
_MIDDLE = """(text => {
  const said = [...document.querySelectorAll('body *')].filter(one => one.innerText?.trim() === text && one.getClientRects().length)
  const one = said.sort((a, b) => a.querySelectorAll('*').length - b.querySelectorAll('*').length)[0]
  if (!one) return null
  one.scrollIntoView({ block: 'center' })
  const box = one.getBoundingClientRect()
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 }
})"""


class Page:
    """One page, spoken to over its own socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One call of the protocol; events that come before its answer are left alone."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if told.get("id") == number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result

    def value(self, expression: str) -> Any:
        """What an expression is worth on the page."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def text(self) -> str:
        """What the page shows."""
        return self.value("document.body?.innerText") or ""

    def shows(self, *texts: str) -> str:
        """The page's text if all this stands in it, else ""."""
        shown = self.text()
        return shown if all(text in shown for text in texts) else ""

    def click(self, text: str, then: Callable[[], Any]) -> Any:
        """Click what says exactly this until it has its effect: a page may move away under the pointer."""

        pressed = False

        def clicked() -> Any:
            nonlocal pressed
            if place := self.value(f"{_MIDDLE}({json.dumps(text)})"):
                pressed = True
                for kind in ("mousePressed", "mouseReleased"):
                    self.ask("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)
            with contextlib.suppress(AssertionError):
                return pressed and eventually(then, _EFFECT_S)

        return eventually(clicked)


@contextlib.contextmanager
def page(url: str, folder: Path) -> Iterator[Page]:
    """A page at `url`, for the length of a block."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    command = [program, *OPTIONS, f"--user-data-dir={folder / 'profile'}", url]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    listener = threading.Thread(target=_listen, args=(browser, said), daemon=True)
    listener.start()
    try:
        found = eventually(lambda: next((hit for line in said if (hit := re.search(r"ws://([0-9.]+:\d+)/", line))), None))
        place = eventually(lambda: _page_socket(found[1]))
        with connect(place, proxy=None, max_size=None, open_timeout=PATIENCE_S, ping_interval=None) as socket:
            yield Page(socket)
    finally:
        browser.terminate()
        try:
            browser.wait(PATIENCE_S)
        finally:
            browser.kill()
            browser.wait()
            listener.join(PATIENCE_S)


def _page_socket(place: str) -> str | None:
    """Where the page's own socket is."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"http://{place}/json/list", timeout=PATIENCE_S) as answer:
        found = [target["webSocketDebuggerUrl"] for target in json.load(answer) if target["type"] == "page"]
    return found[0] if found else None


def _listen(browser: subprocess.Popen[str], said: list[str]) -> None:
    assert browser.stderr is not None
    with browser.stderr:
        said.extend(browser.stderr)
