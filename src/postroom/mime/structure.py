"""The tree of parts in a mail, found in one pass over the bytes.

Only delimiter lines of boundaries that are open at that place count. A part left open by its sender
ends with its parent. Depth and number of parts are bounded before anything is decoded, so no mail
can make the reader recurse or grow. message/rfc822 stays one opaque part: it is an attachment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from postroom.limits import HEADER_BLOCK_BYTES, PART_DEPTH, PARTS, STRUCTURED_HEADER_BYTES
from postroom.mime.charset import decode
from postroom.mime.header_block import HeaderBlock, read_block
from postroom.mime.parameters import Parameterized, parse_parameterized

_LINE_END: Final = re.compile(rb"--|[ \t]*+\r?(?:\n|\Z)")
_LF: Final = 0x0A
_GUESS: Final = re.compile(rb"\A\s*--([^\r\n]{1,200})\r?\n[A-Za-z-]+:")
MEDIA_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")


@dataclass(slots=True)
class Node:
    """One part. `start`:`end` is its encoded content in the raw mail; `children` of a multipart."""

    block: HeaderBlock
    type: str
    content_type: Parameterized
    start: int
    end: int
    children: list[Node] = field(default_factory=list)

    def header(self, name: str) -> bytes | None:
        """The first field of that lower-case name, cut to what a structured header may be."""
        for key, value in self.block.fields:
            if key.lower() == name:
                return value[:STRUCTURED_HEADER_BYTES]
        return None

    def leaves(self) -> Iterator[Node]:
        """Parts that hold content, in order; a multipart in which no part was found is one itself."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if node.children:
                waiting += reversed(node.children)
            else:
                yield node


@dataclass(slots=True)
class _Open:
    """A multipart whose end was not seen yet. None of its delimiters begins before `at`."""

    node: Node
    delimiter: bytes
    at: int = -1


def read_tree(raw: bytes) -> tuple[Node, list[str]]:
    """The root part and the codes of what was wrong with the structure."""
    defects: list[str] = []
    root = read_root(raw)
    stack: list[_Open] = []
    _push(raw, root, stack)
    position = root.start
    count = 1
    while stack and (level := _next_level(raw, position, stack)) >= 0:
        at = stack[level].at
        position = at + len(stack[level].delimiter)
        closing = raw.startswith(b"--", position)
        _close_from(stack, level, _content_end(raw, at), keep=not closing)
        if closing:
            continue
        if count >= PARTS:
            return root, [*defects, "too_many_parts"]
        count += 1
        node = _add_part(raw, position, stack)
        position = node.start
        if not _push(raw, node, stack) and "too_deep" not in defects:
            defects.append("too_deep")
    return root, [*defects, "missing_end_boundary"] if stack else defects


def read_root(raw: bytes) -> Node:
    """The root part alone: its header, and everything after it."""
    start = len(raw) - len(raw.lstrip(b"\r\n")) if raw[:1] in (b"\r", b"\n") else 0
    return _node(raw, read_block(raw, start, len(raw)))


def _next_level(raw: bytes, position: int, stack: list[_Open]) -> int:
    """The open multipart to which the next delimiter belongs; -1 when there is none. Inner ones are looked for before outer ones end."""
    stop = len(raw)
    chosen = -1
    for level, opened in enumerate(stack):
        if opened.at < position:
            opened.at = _find(raw, opened.delimiter, position, stop)
        if opened.at < stop:
            stop = opened.at
            chosen = level
    return chosen


def _find(raw: bytes, delimiter: bytes, position: int, stop: int) -> int:
    """Where the next delimiter line begins, before `stop`; else `stop`."""
    end = stop + len(delimiter) - 1
    at = raw.find(delimiter, position, end)
    while at >= 0:
        if (at == 0 or raw[at - 1] == _LF) and _LINE_END.match(raw, at + len(delimiter)):
            return at
        at = raw.find(delimiter, at + 1, end)
    return stop


def _node(raw: bytes, block: HeaderBlock) -> Node:
    node = Node(block, "text/plain", Parameterized(value=""), block.body, len(raw))
    declared = node.header("content-type")
    if declared is not None:
        node.content_type = parse_parameterized(decode(declared, None))
        if MEDIA_TYPE.fullmatch(node.content_type.value):
            node.type = node.content_type.value
    return node


def _push(raw: bytes, node: Node, stack: list[_Open]) -> bool:
    """Open a multipart's boundary; False when that would be too deep."""
    if not node.type.startswith("multipart/"):
        return True
    boundary = node.content_type.parameters.get("boundary", "").encode().rstrip(b" \t")
    if not boundary and (guess := _GUESS.match(raw[node.start : node.start + HEADER_BLOCK_BYTES])):
        boundary = guess[1].rstrip(b" \t")
    if not boundary:
        return True
    if len(stack) >= PART_DEPTH:
        return False
    stack.append(_Open(node, b"--" + boundary))
    return True


def _content_end(raw: bytes, delimiter: int) -> int:
    """The line break before a delimiter belongs to the delimiter (RFC 2046 §5.1.1)."""
    if raw[delimiter - 1 : delimiter] != b"\n":
        return delimiter
    return delimiter - 2 if raw[delimiter - 2 : delimiter] == b"\r\n" else delimiter - 1


def _close_from(stack: list[_Open], level: int, end: int, *, keep: bool) -> None:
    for opened in stack[level:]:
        if opened.node.children:
            last = opened.node.children[-1]
            last.end = max(last.start, min(last.end, end))
    for opened in stack[level + 1 :]:
        opened.node.end = max(opened.node.start, min(opened.node.end, end))
    del stack[level + 1 if keep else level :]


def _add_part(raw: bytes, line_end: int, stack: list[_Open]) -> Node:
    """The part behind a delimiter, child of the innermost multipart; its header ends at the next delimiter at the latest."""
    start = raw.find(b"\n", line_end) + 1 or len(raw)
    following = _next_level(raw, start, stack)
    node = _node(raw, read_block(raw, start, stack[following].at if following >= 0 else len(raw)))
    stack[-1].node.children.append(node)
    return node
