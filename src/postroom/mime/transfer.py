"""Content-Transfer-Encodings undone (RFC 2045 §6), keeping whatever can be kept.

Each decoder returns the bytes it could read; damage is reported, never raised. Linear in its input.
"""

from __future__ import annotations

import binascii
import re
from typing import Final

_NOT_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/]+")
_PADDING: Final = re.compile(rb"=[=\s]*")
_BASE64_LINES: Final = re.compile(rb"[A-Za-z0-9+/\s]+")
_SPACED_BREAK: Final = re.compile(rb"=[ \t]++\r?\n")
_UU_BEGIN: Final = re.compile(rb"(?m)^begin [0-7]{3,4} [^\r\n]*\r?\n")


def decode_transfer(raw: bytes, encoding: str) -> tuple[bytes, bool]:
    """`(content, intact)`. An unknown or missing encoding is read as 7bit, 8bit or binary: as it is."""
    match encoding:
        case "base64":
            return decode_base64(raw)
        case "quoted-printable":
            return decode_quoted_printable(raw), True
        case "x-uuencode" | "uuencode" | "x-uue" | "uue":
            return _decode_uu(raw)
        case _:
            return raw, True


def decode_quoted_printable(raw: bytes) -> bytes:
    """Soft breaks removed, a final `=` too; what is not an escape stays as written."""
    return binascii.a2b_qp(_SPACED_BREAK.sub(b"=\n", raw) if b"= " in raw or b"=\t" in raw else raw)


def decode_base64(raw: bytes) -> tuple[bytes, bool]:
    """Every whole byte of every padded run, junk skipped. Not intact: junk, or bits left over."""
    end = raw.find(b"=")
    if end < 0 or not raw[end:].strip(b"= \t\r\n"):
        return _decode_run(raw if end < 0 else raw[:end])
    decoded = bytearray()
    intact = True
    for index, run in enumerate(_PADDING.split(raw)):
        if index and not _BASE64_LINES.fullmatch(run):
            intact = intact and not run.strip()
            continue  # a footer some list server put behind the encoded body
        content, whole = _decode_run(run)
        decoded += content
        intact = intact and whole
    return bytes(decoded), intact


def _decode_run(run: bytes) -> tuple[bytes, bool]:
    packed = run.translate(None, b" \t\r\n")
    clean = _NOT_BASE64.sub(b"", packed)
    intact = len(clean) == len(packed) and len(clean) % 4 != 1
    if len(clean) % 4 == 1:
        clean = clean[:-1]
    return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4)), intact


def _decode_uu(raw: bytes) -> tuple[bytes, bool]:
    begin = _UU_BEGIN.search(raw)
    decoded = bytearray()
    for line in raw[begin.end() if begin else 0 :].splitlines():
        if line.strip() in {b"end", b"`", b""}:
            continue
        try:
            decoded += binascii.a2b_uu(line)
        except binascii.Error:
            return bytes(decoded), False
    return bytes(decoded), begin is not None
