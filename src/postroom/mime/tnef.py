"""What lies in Outlook's `winmail.dat`: the files in it, and its plain text.

TNEF is a row of attributes, some of which hold rows of MAPI properties (MS-OXTNEF §2.1, MS-OXCDATA §2.11). Only
what names, types and holds a file is read. Nothing is unpacked or nested, so all files together are never
larger than the container; what does not fit the grammar ends the reading, and the files before it stay.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from postroom.limits import PARTS
from postroom.mime.charset import decode

TYPES: Final = frozenset(("application/ms-tnef", "application/vnd.ms-tnef"))

_SIGNATURE: Final = b"\x78\x9f\x3e\x22"
_ATTRIBUTE: Final = struct.Struct("<BII")  # level, tag, length; the data; two bytes of checksum, which writers get wrong
_BEGIN, _TITLE, _DATA, _PROPERTIES = 0x00069002, 0x00018010, 0x0006800F, 0x00069005  # of a file
_CODEPAGE, _MESSAGE_PROPERTIES = 0x00069007, 0x00069003  # of the mail
_BODY, _OBJECT, _LONG_NAME, _MEDIA_TYPE, _CONTENT_ID = 0x1000, 0x3701, 0x3707, 0x370E, 0x3712
_FIXED: Final = {0x02: 4, 0x03: 4, 0x04: 4, 0x0A: 4, 0x0B: 4, 0x05: 8, 0x06: 8, 0x07: 8, 0x14: 8, 0x40: 8, 0x48: 16}
_STRING8, _UNICODE, _EMBEDDED, _BINARY = 0x1E, 0x1F, 0x0D, 0x102
_MANY: Final = 0x1000
_NAMED: Final = 0x8000
_STEPS: Final = 50_000  # attributes, properties and values read of one container


@dataclass(slots=True)
class File:
    """One file as its container describes it. `name` is the sender's word, not a safe name."""

    name: str = ""
    media_type: str = ""
    content_id: str = ""
    content: bytes = b""


@dataclass(slots=True)
class Container:
    """`intact`: the whole of it could be read."""

    files: list[File]
    text: str | None = None
    intact: bool = True


class _Broken(Exception):
    """The bytes do not fit the grammar here."""


def read_tnef(content: bytes) -> Container:
    """What a container holds. Never raises."""
    found = Container(files=[])
    try:
        _read(content, found)
    except _Broken:
        found.intact = False
    return found


def _read(content: bytes, found: Container) -> None:
    charset = "windows-1252"
    steps = iter(range(_STEPS))
    for tag, data in _attributes(content, steps):
        if tag == _CODEPAGE and len(data) >= 4:
            charset = f"cp{int.from_bytes(data[:4], 'little')}"
        elif tag == _MESSAGE_PROPERTIES:
            for number, value in _Row(data, charset, steps).properties():
                if number == _BODY and isinstance(value, str):
                    found.text = value
        elif tag == _BEGIN:
            if len(found.files) >= PARTS:
                raise _Broken
            found.files.append(File())
        elif found.files:
            _describe(found.files[-1], tag, _Row(data, charset, steps))


def _describe(file: File, tag: int, row: _Row) -> None:
    if tag == _TITLE:
        file.name = file.name or decode(row.data, row.charset)
    elif tag == _DATA:
        file.content = row.data
    elif tag == _PROPERTIES:
        for number, value in row.properties():
            if number == _OBJECT and isinstance(value, bytes):
                file.content = file.content or value
            elif isinstance(value, bytes):
                continue
            elif number == _LONG_NAME:
                file.name = value or file.name
            elif number == _MEDIA_TYPE:
                file.media_type = value
            elif number == _CONTENT_ID:
                file.content_id = value


def _attributes(content: bytes, steps: Iterator[int]) -> Iterator[tuple[int, bytes]]:
    at = len(_SIGNATURE) + 2
    if not content.startswith(_SIGNATURE) or len(content) < at:
        raise _Broken
    while at < len(content):
        if next(steps, None) is None or at + _ATTRIBUTE.size > len(content):
            raise _Broken
        _, tag, length = _ATTRIBUTE.unpack_from(content, at)
        at += _ATTRIBUTE.size
        if at + length > len(content):
            raise _Broken
        yield tag, content[at : at + length]
        at += length + 2


@dataclass(slots=True)
class _Row:
    """The value of an attribute, read as a row of properties."""

    data: bytes
    charset: str
    steps: Iterator[int]
    at: int = 0

    def properties(self) -> Iterator[tuple[int, bytes | str]]:
        """The number and value of those that are text or bytes."""
        for _ in range(self._number()):
            if next(self.steps, None) is None:
                raise _Broken
            tag = self._number()
            kind, number = tag & 0xFFFF, tag >> 16
            if number >= _NAMED:
                self._skip_name()
            many, kind = bool(kind & _MANY), kind & ~_MANY
            if (size := _FIXED.get(kind)) is not None:
                self._take(size * (self._number() if many else 1))
            elif kind not in {_STRING8, _UNICODE, _EMBEDDED, _BINARY}:
                raise _Broken
            else:
                values = list(self._values())
                if len(values) == 1:
                    yield number, self._read(values[0], kind)

    def _values(self) -> Iterator[bytes]:
        for _ in range(self._number()):
            if next(self.steps, None) is None:
                raise _Broken
            yield self._take(self._number())

    def _skip_name(self) -> None:
        """A property known by a name instead of its number."""
        self._take(16)
        if self._number():
            self._take(self._number())
        else:
            self._number()

    def _take(self, size: int) -> bytes:
        """The next bytes; values are padded to four."""
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise _Broken
        self.at += (size + 3) & ~3
        return taken

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "little")

    def _read(self, value: bytes, kind: int) -> bytes | str:
        if kind == _EMBEDDED:
            return value[16:]  # behind the name of its interface
        return value if kind == _BINARY else decode(value, "utf-16-le" if kind == _UNICODE else self.charset)
