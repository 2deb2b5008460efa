"""Header values as folded ASCII lines, so that reading them back gives the same value.

The standard library turns long Message-IDs and URLs into encoded words and, before 3.11.12, encodes
the commas between addresses; both change what a mail means. Here ASCII is only ever folded at blanks
that are there, and everything else is RFC 2047 or RFC 2231. Callers have refused control characters.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from postroom.mime.addresses import Address

CRLF: Final = "\r\n"
_WIDTH: Final = 76
_LONGEST: Final = 990  # RFC 5322 §2.1.1 allows 998
_WORD_BYTES: Final = 42  # of one encoded word's content, before encoding
_FOLD: Final = re.compile(r"[ \t]+[^ \t]+|^[^ \t]+")
_ATOMS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_PLAIN_PARAMETER: Final = re.compile(r"[A-Za-z0-9 !#$&+,.()@^_{}~-]{1,60}")


def text_field(name: str, value: str) -> str:
    """An unstructured field, CRLF included."""
    value = value.strip(" \t")
    longest = max(map(len, value.split()), default=0)
    if value.isascii() and "=?" not in value and longest <= _LONGEST:
        return f"{name}:{_folded(len(name) + 1, (' ' + value) if value else '')}{CRLF}"
    return f"{name}: {_encoded_words(value)}{CRLF}"


def address_field(name: str, addresses: Sequence[Address]) -> str:
    """An address list, one address a line where it does not fit."""
    return f"{name}: " + f",{CRLF} ".join(_mailbox(address) for address in addresses) + CRLF


def ids_field(name: str, ids: Sequence[str]) -> str:
    """Message-IDs, never split and never encoded; one a line where they do not fit."""
    return f"{name}:" + _folded(len(name) + 1, "".join(f" {item}" for item in ids)) + CRLF


def parameter(name: str, value: str) -> str:
    """`; name=value` on lines of its own (RFC 2231 where plain ASCII will not do)."""
    if _PLAIN_PARAMETER.fullmatch(value) and not value.endswith(" "):
        return f';{CRLF} {name}="{value}"'
    encoded = "utf-8''" + quote(value, safe="")
    pieces = list(_pieces(encoded))
    if len(pieces) == 1:
        return f";{CRLF} {name}*={encoded}"
    return "".join(f";{CRLF} {name}*{index}*={piece}" for index, piece in enumerate(pieces))


def _pieces(encoded: str) -> Iterator[str]:
    """Cuts that do not split a %XX."""
    while len(encoded) > 60:
        cut = 60 - next((back for back in (1, 2) if encoded[60 - back] == "%"), 0)
        yield encoded[:cut]
        encoded = encoded[cut:]
    yield encoded


def _folded(used: int, value: str) -> str:
    lines: list[str] = []
    line = ""
    for token in _FOLD.findall(value):
        if line.strip() and used + len(line) + len(token) > _WIDTH:
            lines.append(line)
            line, used = "", 0
        line += token
    return CRLF.join([*lines, line])


def _mailbox(address: Address) -> str:
    display = address.display
    if not display:
        return address.addr
    if not display.isascii() or "=?" in display or len(display) > 60:
        return f"{_encoded_words(display)}{CRLF} <{address.addr}>"
    if not _ATOMS.fullmatch(display):
        display = '"' + display.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{display} <{address.addr}>"


def _encoded_words(value: str) -> str:
    """UTF-8 in base64, cut between characters; decoders drop the folds between the words."""
    words: list[str] = []
    chunk = b""
    for character in value:
        raw = character.encode()
        if len(chunk) + len(raw) > _WORD_BYTES:
            words.append(_word(chunk))
            chunk = b""
        chunk += raw
    return f"{CRLF} ".join([*words, _word(chunk)])


def _word(chunk: bytes) -> str:
    return f"=?utf-8?b?{binascii.b2a_base64(chunk, newline=False).decode('ascii')}?="
