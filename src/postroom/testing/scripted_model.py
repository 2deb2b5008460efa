"""A model endpoint for DSH that answers as a script says: Anthropic Messages over server-sent events, on loopback.

Every request's body is kept. `plan` looks at a request and says what the model does: a text, or tool calls.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the model answers. `status` other than 200 is a failure of the endpoint."""

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] | None = None
    status: int = 200


class ScriptedModel:
    """Listens until closed. Without a plan it says `understood`, and nothing more."""

    def __init__(self, plan: Callable[[dict[str, Any]], Reply] = lambda body: Reply("understood")) -> None:
        self.plan = plan
        self.bodies: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                """Stay quiet."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.bodies.append(body)
                reply = model.plan(body)
                kind = "text/event-stream" if reply.status == 200 else "application/json"
                content = model.stream(body, reply) if reply.status == 200 else failure(reply)
                self.send_response(reply.status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def stream(self, body: dict[str, Any], reply: Reply) -> bytes:
        """The events of one answer."""
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": reply.text}
        if reply.tool:
            block = {"type": "tool_use", "id": f"toolu_{next(self._numbers)}", "name": reply.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments or {})}
        message: dict[str, Any] = {
            "id": f"msg_{next(self._numbers)}",
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
        }
        usage = {"input_tokens": 10, "output_tokens": 0}
        stop = "tool_use" if reply.tool else "end_turn"
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": message | {"model": body.get("model"), "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)

    def saw(self, text: str) -> dict[str, Any] | None:
        """The newest request whose last user message holds this text."""
        return next((body for body in reversed(self.bodies) if text in newest(body)), None)


def failure(reply: Reply) -> bytes:
    """The body of an answer that is an error."""
    return json.dumps({"type": "error", "error": {"type": "authentication_error", "message": reply.text}}).encode()


def words(message: dict[str, Any]) -> str:
    """The text of one message, tool results included."""
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(_texts(content))


def newest(body: dict[str, Any]) -> str:
    """The text of the last user message."""
    return next((words(message) for message in reversed(body["messages"]) if message["role"] == "user"), "")


def _texts(blocks: list[dict[str, Any]]) -> Iterator[str]:
    for block in blocks:
        if block.get("type") == "text":
            yield block["text"]
        elif block.get("type") == "tool_result":
            yield words({"content": block.get("content") or ""})
