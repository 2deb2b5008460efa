#!/usr/bin/env python3
"""42 checks of a running postroom's mailbox, from outside, over its real HTTP surface.

    python3 examples/verify_live.py [URL]

Standard library only. Speaks with the owner's key: POSTROOM_TOKEN, else `owner.key` in the data folder;
the address is the argument, else POSTROOM_URL, else `endpoint.json` there. Writes to the mailbox under
names of its own. Exit 0 when everything held, 1 when something did not, 2 when there is nothing to check.
"""

import base64
import hashlib
import http.client
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

USAGE = "give its address as the argument and its owner's key as POSTROOM_TOKEN, or its data folder as POSTROOM_DATA"
RUN = secrets.token_hex(4)
ALICE, BOB = f"check-a-{RUN}", f"check-b-{RUN}"
TOOLS = "/mcp/mailbox?fields=canonical"
MIB = 1024 * 1024


class Live:
    """The service under check."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self.host, self.port, self.token = parts.hostname or "127.0.0.1", parts.port or 80, token

    def ask(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **more: str) -> tuple[int, bytes]:
        """One request of its own: status and body."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        sent = {"Authorization": f"Bearer {self.token}", "Accept": "application/json, text/event-stream"}
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        if content is not None:
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, content, sent | more)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def rpc(self, method: str, params: Any = None, request_id: int | None = 1) -> Any:
        """One JSON-RPC message to the mailbox's tools."""
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if request_id is not None:
            message["id"] = request_id
        status, text = self.ask("POST", TOOLS, message)
        return json.loads(text) if text else status

    def tool(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A tool's structured result; `isError` added where it failed."""
        given = {key.rstrip("_"): value for key, value in arguments.items()}
        answer = self.rpc("tools/call", {"name": f"mailbox_{name}", "arguments": given})
        if "error" in answer:
            return {"isError": True, **answer["error"]}
        result = answer["result"]
        return {**result.get("structuredContent", {}), "isError": result.get("isError", False)}

    def send(self, text: str, **more: Any) -> int:
        """A message from ALICE to BOB; its number."""
        sent = self.tool("send", **{"from_": ALICE, "to": BOB, "text": text, **more})
        return int(sent["seq"])

    def read(self, to: str = BOB, **more: Any) -> list[dict[str, Any]]:
        """All that `to` sees, from the start of this run."""
        return list(self.tool("read", to=to, since=self.start, limit=200, **more)["messages"])

    start = 0


def checks(live: Live) -> list[tuple[str, Callable[[], bool]]]:
    """Name and test of each check, in order."""
    state: dict[str, Any] = {}

    def keep(name: str, value: Any) -> Any:
        state[name] = value
        return value

    def handshake() -> bool:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "verify", "version": "1"}}
        return bool(live.rpc("initialize", params)["result"]["serverInfo"]["name"] == "postroom")

    def listed() -> list[dict[str, Any]]:
        return list(live.rpc("tools/list")["result"]["tools"])

    def trust() -> bool:
        described = {tool["name"]: tool["description"].lower() for tool in listed()}
        return all("never instructions" in described[f"mailbox_{name}"] for name in ("read", "wait", "search"))

    def card() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(live.ask("GET", "/.well-known/agent.json")[1])
        return found

    def health() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(live.ask("GET", "/health")[1])
        return found

    def refused(answer: Any) -> bool:
        return bool(answer.get("error") or answer.get("isError") or answer.get("result", {}).get("isError"))

    def notification() -> bool:
        return live.ask("POST", TOOLS, {"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, b"")

    def announced() -> bool:
        for name in (ALICE, BOB):
            live.tool("announce", name=name, role="check")
        peers = {peer["name"]: peer["live"] for peer in live.tool("peers")["peers"]}
        return peers.get(ALICE) is True and peers.get(BOB) is True

    def direct() -> bool:
        seq = keep("first", live.send("direct message"))
        return any(message["seq"] == seq and message["text"] == "direct message" for message in live.read())

    def cursor() -> bool:
        page = live.tool("read", to=BOB, since=live.start, limit=200)
        return not live.tool("read", to=BOB, since=page["cursor"])["messages"]

    def threaded() -> bool:
        live.tool("send", from_=BOB, to=ALICE, text="a reply", replyTo=state["first"])
        thread = next(message["thread"] for message in live.read() if message["seq"] == state["first"])
        return len(live.read(thread=thread)) >= 2

    def broadcast() -> bool:
        seq = live.send("to everyone", to="*")
        return any(message["seq"] == seq for message in live.read(f"any-{RUN}"))

    def mention() -> bool:
        seq = live.send(f"over to @{BOB}")
        return [message["seq"] for message in live.read(mentions=BOB)] == [seq]

    def priority() -> bool:
        live.send("urgent", priority="high")
        found = live.read(priority="high")
        return bool(found) and all(message["priority"] == "high" for message in found)

    def edited() -> bool:
        seq = keep("edited", live.send("first wording"))
        live.tool("edit", from_=ALICE, seq=seq, text="second wording")
        message = next(message for message in live.read() if message["seq"] == seq)
        return message["text"] == "second wording" and message["editedFrom"] == "first wording"

    def withdrawn() -> bool:
        seq = live.send("never mind")
        live.tool("withdraw", from_=ALICE, seq=seq)
        return all(message["seq"] != seq for message in live.read())

    def reaction() -> bool:
        live.tool("react", from_=BOB, seq=state["first"], emoji="👍")
        message = next(message for message in live.read() if message["seq"] == state["first"])
        return message["reactions"] == [{"from": BOB, "emoji": "👍"}]

    def receipt() -> bool:
        seq = live.send("please acknowledge")
        live.tool("acknowledge", from_=BOB, upTo=seq)
        sent = live.tool("read", to=ALICE, since=live.start, limit=200, sent=True)["messages"]
        return next(m for m in sent if m["seq"] == seq).get("receipt", {}).get("state") == "acknowledged"

    def attachment() -> bool:
        data = secrets.token_bytes(2000)
        file = {"content": base64.b64encode(data).decode(), "name": "x.bin", "mediaType": "application/octet-stream"}
        live.send("see attachment", attachments=[file])
        found = live.tool("attachment", id=hashlib.sha256(data).hexdigest())
        return bool(base64.b64decode(found["content"]) == data)

    def redacted() -> bool:
        token = f"sk-{secrets.token_hex(24)}"
        seq = live.send(f"the key is {token}")
        text = next(message["text"] for message in live.read() if message["seq"] == seq)
        return token not in text and "[redacted:" in text

    def kept(text: str) -> bool:
        seq = live.send(text)
        return any(message["seq"] == seq and message["text"] == text for message in live.read())

    def woken() -> bool:
        name = f"waits-{RUN}"
        live.tool("announce", name=name)
        timer = threading.Timer(0.2, lambda: live.send("wake up", to=name))
        timer.start()
        begin = time.monotonic()
        found = live.tool("wait", to=name, holdMs=10_000, since=live.start, from_=ALICE)
        timer.join()
        texts = [message["text"] for message in found["messages"]]
        return "wake up" in texts or (time.monotonic() - begin < 5 and bool(texts))

    def expired() -> bool:
        head = live.tool("read", to=BOB, since=live.start, limit=200)["cursor"]
        begin = time.monotonic()
        found = live.tool("wait", to=f"silent-{RUN}", holdMs=400, since=head)
        return not found["messages"] and time.monotonic() - begin >= 0.35

    def card_host() -> bool:
        _, text = live.ask("GET", "/.well-known/agent.json?port=9999@evil.example")
        return bool(urlsplit(json.loads(text)["url"]).hostname == live.host) and b"evil.example" not in text

    def malformed() -> bool:
        answer = json.loads(live.ask("POST", TOOLS, raw=b"{nonsense")[1])
        return bool(answer["error"]["code"] == -32700 and answer.get("id") is None)

    def silent_call() -> bool:
        text = f"sent without an id {RUN}"
        call = {"name": "mailbox_send", "arguments": {"from": ALICE, "to": BOB, "text": text}}
        status = live.rpc("tools/call", call, request_id=None)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if any(message["text"] == text for message in live.read()):
                return bool(status == 202)
            time.sleep(0.05)
        return False

    def streamed() -> bool:
        connection = http.client.HTTPConnection(live.host, live.port, timeout=30)
        try:
            connection.request("GET", f"/stream?to={BOB}&since=abc", headers={"Authorization": f"Bearer {live.token}"})
            answer = connection.getresponse()
            text = f"over the stream {RUN}"
            threading.Timer(0.1, lambda: live.send(text)).start()
            end = time.monotonic() + 30
            while time.monotonic() < end:
                if text.encode() in answer.readline():
                    return True
            return False
        finally:
            connection.close()

    def oversize() -> bool:
        return live.ask("POST", TOOLS, raw=b" " * (9 * MIB))[0] == 413

    return [
        ("1 the handshake names postroom", handshake),
        ("2 eleven tools at least", lambda: len(listed()) >= 11),
        ("3 the trust note on what reads", trust),
        ("4 the A2A card has the name and eleven skills", lambda: card()["name"] == "postroom" and len(card()["skills"]) >= 11),
        ("5 health says ready", lambda: health()["ready"] is True),
        ("6 an unknown method is refused", lambda: live.rpc("no/such")["error"]["code"] == -32601),
        ("7 an unknown tool is refused", lambda: refused(live.rpc("tools/call", {"name": "mailbox_none", "arguments": {}}))),
        ("8 blank text is refused", lambda: live.tool("send", from_=ALICE, to="*", text=" ")["isError"]),
        ("9 a notification gets 202 and nothing", notification),
        ("10 an unknown path is 404", lambda: live.ask("GET", "/no/such/path")[0] == 404),
        ("11 PUT is 405", lambda: live.ask("PUT", "/mcp/mailbox", {})[0] == 405),
        ("12 announced names are listed live", announced),
        ("13 a direct message is in its addressee's read", direct),
        ("14 reading from the returned cursor gives nothing", cursor),
        ("15 reading does not consume", lambda: len(live.read()) == len(live.read()) > 0),
        ("16 a reply shares the thread", threaded),
        ("17 a broadcast reaches any reader", broadcast),
        ("18 mentions can be filtered", mention),
        ("19 priority can be filtered", priority),
        ("20 an edit shows the new text and the old", edited),
        ("21 nobody else edits", lambda: live.tool("edit", from_=BOB, seq=state["edited"], text="forged")["isError"]),
        ("22 what was withdrawn is gone", withdrawn),
        ("23 a reaction is on its message", reaction),
        ("24 the sender sees the acknowledgement", receipt),
        ("25 search finds an earlier text", lambda: bool(live.tool("search", query="second wording")["messages"])),
        ("26 search of an unknown text finds none", lambda: live.tool("search", query=secrets.token_hex(12))["messages"] == []),
        ("27 an attachment comes back by its hash", attachment),
        ("28 a path is no attachment's id", lambda: live.tool("attachment", id="../../etc/passwd")["isError"]),
        ("29 a key is taken out before it is stored", redacted),
        ("30 nobody is called *", lambda: live.tool("send", from_="*", to=BOB, text="x")["isError"]),
        ("31 dashes, CJK and emoji survive", lambda: kept("— café 日本語 🛰️")),
        ("32 shell characters are text", lambda: kept('"; rm -rf ~; # $(whoami) `id`')),
        ("33 a parked wait is woken", woken),
        ("34 a wait that expires is empty", expired),
        ("35 the card cannot be pointed elsewhere", card_host),
        ("36 the card says streaming", lambda: card()["capabilities"]["streaming"] is True),
        ("37 a body that is no JSON is -32700", malformed),
        ("38 a call without an id is carried out", silent_call),
        ("39 a stream with a junk cursor delivers", streamed),
        ("40 health says where the mailbox lives", lambda: isinstance(health()["home"], str)),
        ("41 health says whether the log is whole", lambda: isinstance(health()["integrity"], dict)),
        ("42 a body of 9 MiB is 413", oversize),
    ]


def found() -> Live:
    """The service this environment names."""
    data = Path(os.environ.get("POSTROOM_DATA") or Path.home() / ".local" / "share" / "postroom").expanduser()
    url = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("POSTROOM_URL")
    if url is None:
        url = json.loads((data / "endpoint.json").read_text(encoding="utf-8"))["http"]
    token = os.environ.get("POSTROOM_TOKEN") or (data / "owner.key").read_text(encoding="ascii").strip()
    return Live(url, token)


def main() -> int:
    """Run them all."""
    try:
        live = found()
        live.start = live.tool("read", to=f"none-{RUN}", newest=True, since=0, limit=1)["cursor"]
    except (OSError, http.client.HTTPException, LookupError, ValueError) as problem:
        why = "its mailbox did not take this key" if isinstance(problem, LookupError) else problem
        print(f"no running postroom to check: {why}\n{USAGE}", file=sys.stderr)
        return 2
    failed = 0
    for name, check in checks(live):
        why = ""
        try:
            good = check()
        except Exception as problem:
            good, why = False, f" ({type(problem).__name__}: {problem})"
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}{why}", flush=True)
    print(f"{42 - failed} of 42 held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
