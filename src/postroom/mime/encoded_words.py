"""RFC 2047 encoded words in header text, as mail really carries them.

Adjacent words of one charset are joined before decoding, since senders split inside a character.
What decodes to a line break becomes a space: a header value is one line. Linear in its input.
"""

from __future__ import annotations

import re
from typing import Final

from postroom.mime.charset import codec, decode
from postroom.mime.transfer import decode_base64, decode_quoted_printable

_WORD: Final = re.compile(r"=\?([^?\s*]{1,40})(?:\*[^?\s]*)?\?([bBqQ])\?([^?]*)\?=")
_BREAK: Final = re.compile(r"[\r\n]+[ \t]*")


def unfold(value: str) -> str:
    """A folded header value as one line (RFC 5322 §2.2.3), outer blanks removed."""
    if "\n" in value or "\r" in value:
        value = value.replace("\r\n ", " ").replace("\r\n\t", "\t").replace("\n ", " ").replace("\n\t", "\t")
        value = _BREAK.sub(" ", value)
    return value.strip()


def decode_words(value: str) -> str:
    """Header text with its encoded words decoded, on one line."""
    value = unfold(value)
    if "=?" not in value:
        return value
    pieces: list[str] = []
    run = bytearray()
    run_charset: str | None = None
    position = 0
    for word in _WORD.finditer(value):
        gap = value[position : word.start()]
        charset = word[1].lower()
        adjacent = run_charset is not None and not gap.strip()
        if not (adjacent and charset == run_charset):
            pieces.append(_text(run, run_charset))
            run.clear()
        if not adjacent:
            pieces.append(gap)
        run += _word_bytes(word[2], word[3], charset)
        run_charset = charset
        position = word.end()
    pieces += [_text(run, run_charset), value[position:]]
    return _BREAK.sub(" ", "".join(pieces)).strip()


def _text(run: bytearray, charset: str | None) -> str:
    return decode(bytes(run), charset) if run else ""


def _word_bytes(encoding: str, text: str, charset: str) -> bytes:
    try:  # a raw 8-bit character inside a word stays that character
        raw = text.encode("ascii" if text.isascii() else codec(charset) or "utf-8")
    except UnicodeError:
        raw = text.encode()
    if encoding in "bB":
        return decode_base64(raw)[0]
    return decode_quoted_printable(raw.replace(b"_", b" "))
