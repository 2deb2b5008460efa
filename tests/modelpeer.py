"""Model endpoints that answer as a script says, for clients we did not write: Anthropic Messages, OpenAI Responses.

A prompt says how the model answers it: lines `CALL tool {json}` are tool calls, anything else is echoed. A
request that ends in tool results is answered `tool said: …`. Every request body is kept.
"""

import contextlib
import itertools
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from served import eventually

Body: TypeAlias = dict[str, Any]
Event: TypeAlias = dict[str, Any]
Calls: TypeAlias = list[tuple[str, Any]]
# What clients put into a person's turn by themselves: it must not pick the answer.
ADDED = ("<system-reminder>", "Current runtime context.", "<command-", "<local-command", "<environment_context>")
ADDED += ("<user_instructions>", "# AGENTS.md", "<INSTRUCTIONS>", "<skill", "<turn_aborted>", "<permissions")


class ModelPeer:
    """Listens on loopback until closed."""

    def __init__(self) -> None:
        self.bodies: list[Body] = []
        self.numbers = itertools.count(1)
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                """Stay quiet."""

            def do_GET(self) -> None:
                self.answer({"object": "list", "data": [], "models": []})

            def do_HEAD(self) -> None:
                self.answer({})

            def do_POST(self) -> None:
                body = json.loads(_content(self))
                if self.path.partition("?")[0].endswith(("/messages", "/responses")):
                    peer.bodies.append(body)
                    events = peer.events(body, *spoken(*peer.newest(body)))
                    self.stream(events) if body.get("stream") else self.answer(peer.whole(events))
                else:
                    self.answer({"input_tokens": 10})

            def answer(self, value: Body) -> None:
                self.reply("application/json", json.dumps(value).encode())

            def stream(self, events: list[Event]) -> None:
                self.reply(
                    "text/event-stream", b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
                )

            def reply(self, kind: str, content: bytes) -> None:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a client may hang up at any moment
                    self.send_response(200)
                    self.send_header("content-type", kind)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def newest(self, body: Body) -> tuple[list[str], list[str]]:
        """What the person said last, and the tool results after it."""
        raise NotImplementedError

    def events(self, body: Body, text: str, calls: Calls) -> list[Event]:
        """One answer as the stream's events."""
        raise NotImplementedError

    def whole(self, events: list[Event]) -> Body:
        """The same in one piece."""
        raise NotImplementedError

    def saw(self, text: str) -> Body:
        """The first request that holds this text, waited for."""
        return eventually(lambda: next((body for body in list(self.bodies) if text in flat(body)), None))

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def spoken(own: list[str], results: list[str]) -> tuple[str, Calls]:
    """The text and the tool calls the script answers with."""
    said = "\n".join(own)
    if results and "CALL " not in said:
        return "tool said: " + " | ".join(results), []
    calls = [(name, json.loads(given)) for name, given in re.findall(r"^CALL (\S+) (\{.*\})\s*$", said, flags=re.MULTILINE)]
    return ("" if calls else f"echo: {said[-200:]}"), calls


def flat(value: Any) -> str:
    """Every text in a request, one after the other, as it is: not escaped again."""
    if isinstance(value, str):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(map(flat, inner))


def parts(content: Any) -> list[str]:
    """The texts of a message's content."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content or [] if "text" in part]


class Anthropic(ModelPeer):
    """POST …/v1/messages."""

    def newest(self, body: Body) -> tuple[list[str], list[str]]:
        last = next(message for message in reversed(body["messages"]) if message["role"] == "user")
        blocks = last["content"] if isinstance(last["content"], list) else [{"type": "text", "text": last["content"]}]
        results = ["\n".join(parts(block.get("content"))) for block in blocks if block["type"] == "tool_result"]
        own = [block["text"] for block in blocks if block["type"] == "text" and not block["text"].startswith(ADDED)]
        return own, results

    def events(self, body: Body, text: str, calls: Calls) -> list[Event]:
        blocks: list[tuple[Body, Body]] = [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})] if text else []
        for name, given in calls:
            use = {"type": "tool_use", "id": f"toolu_{next(self.numbers)}", "name": name, "input": {}}
            blocks.append((use, {"type": "input_json_delta", "partial_json": json.dumps(given)}))
        message = {"id": f"msg_{next(self.numbers)}", "type": "message", "role": "assistant", "content": [], "stop_reason": None}
        usage = {"input_tokens": 10, "output_tokens": 0}
        told: list[Event] = [{"type": "message_start", "message": message | {"model": body["model"], "usage": usage}}]
        for index, (block, delta) in enumerate(blocks):
            told.append({"type": "content_block_start", "index": index, "content_block": block})
            told.append({"type": "content_block_delta", "index": index, "delta": delta})
            told.append({"type": "content_block_stop", "index": index})
        stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        return [*told, {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]

    def whole(self, events: list[Event]) -> Body:
        message = events[0]["message"]
        text = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
        return {**message, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None}


class Responses(ModelPeer):
    """POST …/responses. A tool of an MCP server is named `mcp__server__tool`, as for other clients."""

    def newest(self, body: Body) -> tuple[list[str], list[str]]:
        own: list[str] = []
        results: list[str] = []
        for item in reversed(body["input"]):
            kind, role = item.get("type", "message"), item.get("role")
            if kind.endswith("_call_output"):
                results.insert(0, "\n".join(parts(item["output"])))
            elif role == "assistant" or kind.endswith("_call"):
                if results or own:
                    break
            elif role == "user":
                mine = [text for text in parts(item["content"]) if not text.lstrip().startswith(ADDED)]
                own = mine + own
                if mine or results:
                    break
        return own, results

    def events(self, body: Body, text: str, calls: Calls) -> list[Event]:
        items = [*self._texts(text), *(self._call(body, name, given) for name, given in calls)]
        tokens = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        tokens |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        whole = {"id": f"resp_{next(self.numbers)}", "object": "response", "model": body["model"], "status": "completed"}
        done = [{"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)]
        begun = {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
        ended = {"type": "response.completed", "response": {**whole, "output": items, "usage": tokens}}
        return [{**event, "sequence_number": number} for number, event in enumerate([begun, *done, ended])]

    def whole(self, events: list[Event]) -> Body:
        response: Body = events[-1]["response"]
        return response

    def _texts(self, text: str) -> Iterator[Body]:
        if text:
            part = {"type": "output_text", "text": text, "annotations": []}
            message = {"type": "message", "id": f"msg_{next(self.numbers)}", "role": "assistant"}
            yield {**message, "status": "completed", "content": [part]}

    def _call(self, body: Body, name: str, given: Any) -> Body:
        spaces = [tool["name"] for tool in body.get("tools", []) if tool["type"] == "namespace"]
        space = next((space for space in spaces if name.startswith(space + "__")), None)
        number = next(self.numbers)
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
        call["arguments"] = json.dumps(given)
        return call | ({"namespace": space, "name": name.removeprefix(space + "__")} if space else {"name": name})


def _content(request: BaseHTTPRequestHandler) -> bytes:
    if "chunked" not in request.headers.get("transfer-encoding", ""):
        return request.rfile.read(int(request.headers.get("content-length", 0)))
    whole = b""
    while size := int(request.rfile.readline().split(b";")[0], 16):
        whole += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return whole
