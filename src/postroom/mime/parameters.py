"""Parameters of Content-Type and Content-Disposition: RFC 2045 §5.1, RFC 2231, and what senders write instead.

Sections of one parameter are joined as bytes before decoding, so a character split between two
sections survives. Quotes are syntax only around a value. Linear, and capped in count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote_to_bytes

from postroom.limits import PARAMETERS
from postroom.mime.charset import decode
from postroom.mime.encoded_words import decode_words

_PARAMETER: Final = re.compile(r';\s*+([^=;"\s]{1,200})\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)(?:"|\\?$)|([^;]*+))', re.DOTALL)
_SECTION: Final = re.compile(r"([^*]+)(?:\*(\d{1,5}))?(\*)?")
_ESCAPE: Final = re.compile(r'\\(["\\])')


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameterized:
    """The value before the first semicolon, lower-cased, and its parameters by lower-cased name."""

    value: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    truncated: bool = False


def parse_parameterized(header: str) -> Parameterized:
    """Read such a header; never raises. A parameter written twice keeps its first value."""
    value, semicolon, _ = header.partition(";")
    value = "".join(value.split()).lower()
    if not semicolon:
        return Parameterized(value=value)
    plain: dict[str, str] = {}
    sections: dict[str, dict[int, tuple[str, bool]]] = {}
    truncated = False
    for count, found in enumerate(_PARAMETER.finditer(header, len(header) - len(semicolon + _))):
        if count >= PARAMETERS:
            truncated = True
            break
        text = found[3].strip() if found[2] is None else _ESCAPE.sub(r"\1", found[2])
        section = _SECTION.fullmatch(found[1].lower())
        if section is None or not (section[2] or section[3]):
            plain.setdefault(found[1].lower(), text)
        else:
            sections.setdefault(section[1], {}).setdefault(int(section[2] or 0), (text, bool(section[3])))
    parameters = {name: decode_words(text) for name, text in plain.items()}
    parameters |= {name: _join(numbered) for name, numbered in sections.items()}
    return Parameterized(value=value, parameters=parameters, truncated=truncated)


def _join(numbered: Mapping[int, tuple[str, bool]]) -> str:
    """RFC 2231 §4.1: sections in order; the charset stands before the first starred one only."""
    charset = ""
    raw = bytearray()
    for index, (text, starred) in sorted(numbered.items()):
        rest = text
        if starred and index == 0 and text.count("'") >= 2:
            charset, _, rest = text.split("'", 2)
        raw += unquote_to_bytes(rest) if starred else rest.encode("utf-8", "replace")
    text = decode(bytes(raw), charset or None)
    return decode_words(text) if "=?" in text else text
