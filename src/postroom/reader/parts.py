"""Decoding shared by providers that hand over pieces of a mail: header fields, a text part, a file's name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from postroom.limits import HEADER_BYTES
from postroom.mime.addresses import Address
from postroom.mime.charset import decode
from postroom.mime.encoded_words import decode_words
from postroom.mime.filename import safe_filename
from postroom.mime.flowed import unflow
from postroom.mime.parameters import parse_parameterized
from postroom.mime.parse import Parsed, parse

_FIELD_NAME: Final = re.compile(r"[!-9;-~]{1,100}")
_LINE_ENDS: Final = re.compile(r"[\r\n]+")


def parsed_fields(fields: Iterable[tuple[str, str]]) -> Parsed:
    """Header fields, as text, read by the one tolerant parser."""
    lines = [f"{name}: {_LINE_ENDS.sub(' ', value[:HEADER_BYTES])}\r\n" for name, value in fields if _FIELD_NAME.fullmatch(name)]
    return parse("".join(lines).encode("utf-8", "replace") + b"\r\n")


def sender(parsed: Parsed) -> str:
    """Who it says it is from; the field as it stands where it holds no address."""
    return ", ".join(address.formatted for address in parsed.from_) or _field(parsed, "from")


def recipients(parsed: Parsed) -> tuple[str, ...]:
    """Whom it says it is to."""
    raw = _field(parsed, "to")
    return tuple(address.formatted for address in parsed.to) or ((raw,) if raw else ())


def named_address(name: str, address: str) -> str:
    """`Name <address>` of two texts."""
    local, at, domain = address.rpartition("@")
    if not at:
        return f"{name} {address}".strip()
    return Address(name if name != address else None, local, domain).formatted


def part_text(content: bytes, content_type: str) -> str:
    """A text part's bytes, its transfer encoding undone, as text with LF line ends."""
    header = parse_parameterized(decode_words(content_type))
    charset = header.parameters.get("charset")
    if not content.isascii() and _is_utf8(content):
        charset = "utf-8"  # providers re-encode bodies and leave the old name beside them
    text = decode(content, charset).replace("\r\n", "\n").replace("\r", "\n")
    if header.parameters.get("format", "").lower() == "flowed":
        text = unflow(text, delete_space=header.parameters.get("delsp", "").lower() == "yes")
    return text.removesuffix("\n")


def file_name(parameters: Mapping[str, str]) -> str:
    """The name among a part's decoded parameters, never a path; empty if there is none."""
    return safe_filename(parameters.get("filename") or parameters.get("name")) or ""


def _field(parsed: Parsed, name: str) -> str:
    return next((value for key, value in parsed.headers.items() if key.lower() == name), "")


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
