"""`postroom mcp`: MCP on stdin and stdout, one JSON message a line, each forwarded to the daemon's `/mcp`.

A thin pipe with the standard library only: it starts in milliseconds, holds nothing, and finds the
daemon anew for every message, so a restarted daemon is simply there again. Requests run at once; an
answer is written whole. What the daemon does not answer becomes a JSON-RPC error the client shows. Claude
Code tells its servers the session by their environment: it goes with each call, where others put it themselves.
Only here is a client known from one message to the next, so only here is it asked about held mail (`cli.question`).
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from postroom import errors
from postroom.cli.channel import Channel
from postroom.cli.question import Questions
from postroom.client import connect, told
from postroom.limits import HTTP_BODY_BYTES

_USAGE: Final = "usage: postroom mcp [--inbox ADDRESS | --channel]"
_TIMEOUT_S: Final = 120.0
_PARSE_ERROR, _INVALID_REQUEST, _UNAVAILABLE = -32700, -32600, -32000
_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_GREETINGS: Final = ("initialize", "server/discover")
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def main(arguments: Sequence[str]) -> int:
    """Forward until stdin ends; the exit status."""
    inbox = arguments[1] if len(arguments) == 2 and arguments[0] == "--inbox" else None
    announces = list(arguments) == ["--channel"]
    if arguments and inbox is None and not announces:
        print(_USAGE, file=sys.stderr)
        return 2
    target = "/mcp" + (f"?inbox={quote(inbox)}" if inbox else "")
    Forwarder(target, os.environ, sys.stdout.buffer, announces=announces).run(sys.stdin.buffer)
    return 0


class Forwarder:
    """Takes messages from one client. `version` is the protocol version an `initialize` agreed on."""

    def __init__(self, target: str, environ: Mapping[str, str], out: BinaryIO, *, announces: bool = False) -> None:
        self._target = target
        self._environ = environ
        self._out = out
        self._writing = threading.Lock()
        self._version: str | None = None
        self._channel = Channel(environ, self._write) if announces else None
        self._questions = Questions(environ, self._write)

    def run(self, source: BinaryIO) -> None:
        """Forward every line of `source`; returns when it has ended and everything is answered."""
        running: list[threading.Thread] = []
        while line := source.readline(HTTP_BODY_BYTES + 1):
            if not line.strip():
                continue
            thread = threading.Thread(target=self._take, args=(line,), daemon=True)
            thread.start()
            running = [one for one in running if one.is_alive()] + [thread]
        for thread in running:
            thread.join()

    def _take(self, line: bytes) -> None:
        message: Any = None
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                self._fail(None, _INVALID_REQUEST, "a message is one JSON object", code="invalid_request")
                return
            if not self._questions.take(message):
                self._forward(line, message)
        except (ValueError, RecursionError):
            text = f"a message is one line of JSON, at most {HTTP_BODY_BYTES} bytes"
            self._fail(None, _PARSE_ERROR, text, code="parse_error")
        except errors.PostroomError as problem:
            told_as = f"{problem.message}; {problem.fix}" if problem.fix else problem.message
            if isinstance(message, dict) and "id" in message and "method" in message:
                self._fail(message["id"], _UNAVAILABLE, told_as, code=problem.code)
            else:
                print(f"postroom mcp: {told_as}", file=sys.stderr)

    def _forward(self, line: bytes, message: Mapping[str, Any]) -> None:
        daemon = connect(environ=self._environ, timeout_s=_TIMEOUT_S)
        line = self._with_session(line, message)
        with daemon.open("POST", self._target, line, self._headers(message)) as answer:
            for content in _contents(answer):
                reply = _reply(answer.status, content)
                greets = message.get("method") in _GREETINGS and isinstance(reply.get("result"), dict)
                self._write(self._greeted(message, reply, content) if greets else content)
                if greets and self._channel is not None:
                    self._channel.begin()
                self._questions.follow(message, reply)

    def _with_session(self, line: bytes, message: Mapping[str, Any]) -> bytes:
        session, params = self._environ.get("CLAUDE_CODE_SESSION_ID"), message.get("params")
        if not session or message.get("method") != "tools/call" or not isinstance(params, dict):
            return line
        meta = params.get("_meta") or {}
        return json.dumps({**message, "params": {**params, "_meta": {"sessionId": session, **meta}}}).encode()

    def _greeted(self, message: Mapping[str, Any], reply: dict[str, Any], content: bytes) -> bytes:
        if message["method"] == "initialize":
            self._version = reply["result"].get("protocolVersion")
            self._questions.begin(message)
        if self._channel is None:
            return content
        return json.dumps(self._channel.declared(reply)).encode()

    def _headers(self, message: Mapping[str, Any]) -> dict[str, str]:
        """The routing headers of streamable HTTP, which a stdio client does not know of."""
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        modern = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
        if isinstance(modern, str):
            method = str(message.get("method"))
            headers |= {"MCP-Protocol-Version": _header(modern), "Mcp-Method": _header(method)}
            name = params.get(_NAMED_BY.get(method, "")) if isinstance(params, dict) else None
            return headers | ({"Mcp-Name": _header(name)} if isinstance(name, str) else {})
        if self._version is not None and message.get("method") != "initialize":
            headers["MCP-Protocol-Version"] = self._version
        return headers

    def _fail(self, request_id: Any, number: int, text: str, *, code: str) -> None:
        error = {"code": number, "message": text, "data": {"code": code}}
        self._write(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode())

    def _write(self, content: bytes) -> None:
        line = content.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"  # inside a JSON text a line break is white space
        with self._writing:
            self._out.write(line)
            self._out.flush()


def _reply(status: int, content: bytes) -> dict[str, Any]:
    """The JSON-RPC message in an answer. Raises the error an answer tells that is none."""
    try:
        reply = json.loads(content)
    except ValueError:
        reply = None
    if not isinstance(reply, dict) or "jsonrpc" not in reply:
        raise told(status, content)
    return reply


def _contents(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The JSON texts of an answer: the one body, or the data of each server-sent event."""
    if not (answer.headers.get("Content-Type") or "").startswith("text/event-stream"):
        if body := answer.read():
            yield body
        return
    data: list[bytes] = []
    for raw in answer:
        line = raw.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []


def _header(value: str) -> str:
    """A value as a header can carry it; anything but plain ASCII goes as the protocol's base64 form."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
