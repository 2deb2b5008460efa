"""Bytes up to the first blank line become header fields.

Lines that are no field are folded into the field before them as long as real fields follow; else the
body begins there. Nothing is decoded here. One pass; no more than the limit of a header block is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from postroom.limits import HEADER_BLOCK_BYTES

_FIELD: Final = re.compile(rb"([!-9;-~]{1,500})[ \t]*:[ \t]*")
_BLANK: Final = re.compile(rb"\n\r?\n")


@dataclass(frozen=True, slots=True)
class HeaderBlock:
    """Fields in order as `(name, value)`, values still folded. `body` is the offset after the blank line."""

    fields: tuple[tuple[str, bytes], ...]
    body: int
    stray: int = 0
    truncated: bool = False


def block_end(raw: bytes, start: int, stop: int) -> int:
    """Where the header block that begins at `start` ends: after its last line's LF, before the blank line."""
    if raw.startswith((b"\n", b"\r\n"), start):
        return start
    blank = _BLANK.search(raw, start, stop)
    return blank.start() + 1 if blank else stop


def read_block(raw: bytes, start: int, stop: int) -> HeaderBlock:
    """The block at `start`, which ends at a blank line, or at `stop`."""
    end = block_end(raw, start, stop)
    limit = min(end, start + HEADER_BLOCK_BYTES)
    fields: list[tuple[str, list[bytes]]] = []
    strays: list[bytes] = []
    stray_at = start
    stray = 0
    for offset, line in _lines(raw, start, limit):
        found = _FIELD.match(line)
        if found:
            stray += len(strays)
            _fold(fields, strays)
            strays = []
            fields.append((found[1].decode("ascii"), [line[found.end() :]]))
        elif line[:1] in (b" ", b"\t") and not strays:
            _fold(fields, [line])
        elif not (offset == start and line.startswith((b"From ", b">From "))):
            stray_at = stray_at if strays else offset
            strays.append(line)
    if strays and limit == end:
        return _finish(fields, stray_at, stray)
    after = end + (2 if raw.startswith(b"\r\n", end) else 1) if end < stop else end
    return _finish(fields, min(after, stop), stray, truncated=limit < end)


def _lines(raw: bytes, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    offset = start
    if start == stop:
        return
    for line in raw[start:stop].split(b"\n"):
        yield offset, line.removesuffix(b"\r")
        offset += len(line) + 1
        if offset >= stop:
            return


def _fold(fields: list[tuple[str, list[bytes]]], lines: list[bytes]) -> None:
    if fields:
        fields[-1][1].extend(b" " + line.lstrip(b" \t") for line in lines)


def _finish(fields: list[tuple[str, list[bytes]]], body: int, stray: int, *, truncated: bool = False) -> HeaderBlock:
    joined = tuple((name, lines[0] if len(lines) == 1 else b"".join(lines)) for name, lines in fields)
    return HeaderBlock(joined, body, stray, truncated)
