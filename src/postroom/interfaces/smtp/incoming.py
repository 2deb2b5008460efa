"""What one peer sends: command lines, and one mail between `354` and the lone dot.

Only CR LF "." CR LF ends a mail (RFC 5321 §4.1.1.4); every look-alike with a bare CR or LF is text,
so nothing behind it is ever read as a command. The bytes of a mail are what the peer sent with the
transparency dots taken off (§4.5.2) and nothing else. Command lines must end in CR LF and hold no
control characters. Memory is bounded: what is over a limit is read to its end and thrown away, so
the answer reaches a peer that only listens afterwards.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

_CHUNK = 256 * 1024
_END = b"\r\n.\r\n"
COMMAND_BYTES = 2048  # RFC 5321 §4.5.3.1.4 asks for 512; long return paths are real
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


_NO_ROOM = "452 4.3.1 Too much mail at once, try again later"


def _always(size: int) -> bool:
    return True


class BadLine(Exception):
    """A command line nobody should act on. The text says why, in our own words."""


class MailRefused(Exception):
    """A mail that was read to its end and thrown away. The text is the whole SMTP reply."""


class Incoming:
    """Reads from `reader` with the two ways of framing SMTP has. Raises CancelledError when the peer is gone."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._pending = bytearray()

    async def readuntil(self) -> bytes:
        """The next command line (the name is what aiosmtpd's loop calls). Raises `BadLine`."""
        too_long = False
        while (end := self._pending.find(b"\n")) < 0:
            if len(self._pending) > COMMAND_BYTES:
                too_long = True
                self._pending.clear()
            self._pending += await self._more()
        line = bytes(self._pending[: end + 1])
        del self._pending[: end + 1]
        if too_long or len(line) > COMMAND_BYTES:
            raise BadLine(f"a command line may have {COMMAND_BYTES} bytes")
        if not line.endswith(b"\r\n"):
            raise BadLine("a command line ends in CR LF")
        if _CONTROL.search(line, 0, len(line) - 2):
            raise BadLine("control characters are not allowed in a command")
        return line

    async def mail(self, *, size: int, line: int, room: Callable[[int], bool] = _always) -> bytes:
        """One mail, byte for byte. Raises `MailRefused` over `size` bytes, with a line over `line` bytes, or without `room`."""
        wire, self._pending = self._pending, bytearray()
        wire[0:0] = b"\r\n"  # so that a dot on the first line is like any other
        most = size + size // 3 + len(_END)  # every dot that is doubled on the wire is one byte of a line of three or more
        seen, refusal = 0, ""
        while (end := wire.find(_END, max(seen - len(_END), 0))) < 0:
            refusal = refusal or (_too_large(size) if len(wire) > most else "" if room(len(wire)) else _NO_ROOM)
            if refusal:
                del wire[: -len(_END)]
            seen = len(wire)
            wire += await self._more()
        self._pending += memoryview(wire)[end + len(_END) :]
        if refusal:
            raise MailRefused(refusal)
        del wire[end + 2 :]
        return _unstuffed(wire, size=size, line=line)

    async def _more(self) -> bytes:
        chunk = await self._reader.read(_CHUNK)
        if not chunk:
            raise asyncio.CancelledError  # how aiosmtpd ends a conversation whose peer is gone
        return chunk


def _unstuffed(wire: bytearray, *, size: int, line: int) -> bytes:
    """`wire` is CR LF and then the mail's lines as they were sent."""
    with memoryview(wire) as view:
        raw = bytes(view[3:] if wire.startswith(b"\r\n.") else view[2:])
    if b"\r\n." in raw:
        raw = raw.replace(b"\r\n.", b"\r\n")
    if len(raw) > size:
        raise MailRefused(_too_large(size))
    if _has_longer_line(raw, line):
        raise MailRefused(f"500 5.5.2 A line may have {line} bytes")
    return raw


def _too_large(size: int) -> str:
    return f"552 5.3.4 A mail may have {size} bytes"


def _has_longer_line(raw: bytes, limit: int) -> bool:
    """Looks at one place per `limit` bytes: the last line end that the limit allows. A bare LF ends a line here."""
    start = 0
    while len(raw) - start > limit:
        end = raw.rfind(b"\n", start, start + limit)
        if end < 0:
            return True
        start = end + 1
    return False
