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

_LINE_REST: Final = re.compile(rb"[^\r\n]*")
_LF: Final = 0x0A
_GUESS: Final = re.compile(rb"\A\s*--([^\r\n]{1,200})\r?\n[A-Za-z-]+:")
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")


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
    node: Node
    boundary: bytes


def read_tree(raw: bytes) -> tuple[Node, list[str]]:
    """The root part and the codes of what was wrong with the structure."""
    defects: list[str] = []
    start = len(raw) - len(raw.lstrip(b"\r\n")) if raw[:1] in (b"\r", b"\n") else 0
    root = _node(raw, read_block(raw, start, len(raw)))
    stack: list[_Open] = []
    _push(raw, root, stack)
    position = root.start
    count = 1
    while stack and (at := _next_delimiter(raw, position, stack)) >= 0:
        line = _LINE_REST.match(raw, at + 2)
        position = line.end() if line else at + 2
        level, closing = _level(stack, raw[at + 2 : position].rstrip(b" \t"))
        if level < 0:
            continue
        _close_from(stack, level, _content_end(raw, at), keep=not closing)
        if closing:
            continue
        if count >= PARTS:
            return root, [*defects, "too_many_parts"]
        count += 1
        position = _add_part(raw, position, stack, defects)
    return root, [*defects, "missing_end_boundary"] if stack else defects


def _next_delimiter(raw: bytes, position: int, stack: list[_Open]) -> int:
    """Where the next line begins that may be a delimiter of an open boundary; -1 when there is none."""
    needle = b"--" + _common_start([opened.boundary for opened in stack])
    while (at := raw.find(needle, position)) > 0 and raw[at - 1] != _LF:
        position = at + 1
    return at


def _common_start(boundaries: list[bytes]) -> bytes:
    low, high = min(boundaries), max(boundaries)
    return low[: next((place for place, (one, two) in enumerate(zip(low, high, strict=False)) if one != two), len(low))]


def _node(raw: bytes, block: HeaderBlock) -> Node:
    node = Node(block, "text/plain", Parameterized(value=""), block.body, len(raw))
    declared = node.header("content-type")
    if declared is not None:
        node.content_type = parse_parameterized(decode(declared, None))
        if _TYPE.fullmatch(node.content_type.value):
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
    stack.append(_Open(node, boundary))
    return True


def _level(stack: list[_Open], line: bytes) -> tuple[int, bool]:
    """Which open boundary this delimiter line belongs to, innermost first, and whether it closes it."""
    for level in range(len(stack) - 1, -1, -1):
        boundary = stack[level].boundary
        if line == boundary:
            return level, False
        if line.startswith(boundary) and line[len(boundary) :].startswith(b"--"):
            return level, True
    return -1, False


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


def _add_part(raw: bytes, line_end: int, stack: list[_Open], defects: list[str]) -> int:
    start = raw.find(b"\n", line_end) + 1 or len(raw)
    block = read_block(raw, start, len(raw), lambda line: _level(stack, line[2:].rstrip(b" \t"))[0] >= 0)
    node = _node(raw, block)
    stack[-1].node.children.append(node)
    if not _push(raw, node, stack) and "too_deep" not in defects:
        defects.append("too_deep")
    return max(start, block.body - 1) if block.body > start else start
