"""Paths whose segments are decoded after splitting.

A Message-ID stands in the path. One official client percent-encodes all of it, the other leaves
`/` as it is; so routes are matched on the raw path, an id may span several segments (up to the
suffixes below), and each parameter is decoded last: an encoded slash never becomes a separator.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from starlette.convertors import Convertor
from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.errors import NotFound

# What may follow a message id, by method.
_SUFFIXES: Final = {
    "GET": (("raw",), ("attachments", None)),
    "POST": (("reply",), ("reply-all",), ("forward",), ("agent-armor", "feedback"), ("agent-armor", "release")),
}
_ID_AT: Final = 4  # "", "inboxes", inbox, "messages", id…


class Segment(Convertor[str]):
    """One percent-encoded path segment; `{name:segment}` in a route."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        text = unquote(value)
        if "\0" in text:
            raise NotFound("no id contains a NUL character")
        return text

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


class RawSegments:
    """Middleware: routes below it see the path as the client wrote it, ids folded into one segment."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            scope = {**scope, "path": root + fold(scope["method"], _below(root, scope))}
        await self._app(scope, receive, send)


def fold(method: str, path: str) -> str:
    """`path` (raw, below `/v0`) with the message id, if there is one, in a single segment."""
    parts = path.split("/")
    if len(parts) <= _ID_AT + 1 or parts[1] != "inboxes" or parts[3] != "messages":
        return path
    rest = parts[_ID_AT:]
    size = _suffix(method, rest)
    cut = len(rest) - size
    return "/".join([*parts[:_ID_AT], "%2F".join(rest[:cut]), *rest[cut:]])


def _suffix(method: str, rest: list[str]) -> int:
    for words in _SUFFIXES.get(method, ()):
        size = len(words)
        if len(rest) > size and all(word in (None, part) for word, part in zip(words, rest[-size:], strict=True)):
            return size
    return 0


def _below(root: str, scope: Scope) -> str:
    raw = scope.get("raw_path")
    text: str = raw.decode("latin-1").partition("?")[0] if raw else quote(scope["path"])
    if text.startswith(root):
        return text[len(root) :]
    decoded: str = scope["path"]  # the mount itself was written in percent-encoding
    return quote(decoded.removeprefix(root))
