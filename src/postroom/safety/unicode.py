"""Characters a reader cannot see, taken out of what a model reads.

Removed: controls (but tab and newline), format characters, private use, unassigned code points,
lone surrogates, variation selectors, Hangul fillers, the blank Braille cell, the grapheme joiner.
All of them can carry text past a person's eyes. Kept, because scripts and emoji break without
them: a joiner between two letters of an Arabic or Indic script, joiners and one selector inside
emoji, a Mongolian selector after its letter, and the three recognised flags spelled with tags.

Look-alike letters stay as they are: folding them would damage honest Russian or Greek.
`safety.confusables` compares them where it matters. Which code points are assigned is what this
Python's Unicode tables say, so newer characters are dropped, never passed unjudged.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_ZWNJ, _ZWJ, _EMOJI_SELECTOR, _KEYCAP = "\u200c", "\u200d", "\ufe0f", "\u20e3"

# Printable by category, invisible or unjudgeable all the same.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | frozenset(
    map(chr, range(0xFE00, 0xFE10))
)
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029]")
_SPACES = re.compile(r"\s+")
_JOINING = re.compile(  # Arabic, Syriac, N'Ko …; Devanagari to Sinhala; Myanmar; Khmer; Mongolian
    "[\u0620-\u06ff\u0710-\u08ff\u0900-\u0df4\u1000-\u109f\u1780-\u17dd\u1820-\u18aa]"
)
_EMOJI = re.compile(
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_FLAG = re.compile(
    "\U0001f3f4(?:{})\U000e007f".format(
        "|".join("".join(chr(0xE0000 + ord(letter)) for letter in name) for name in ("gbeng", "gbsct", "gbwls"))
    )
)
_FLAG_LENGTH = 7


def clean(text: str) -> tuple[str, int]:
    """`text` without invisible characters, and how many were removed. Line ends become newlines."""
    if "\r" in text or "\u2028" in text or "\u2029" in text:
        text = _LINE_ENDS.sub("\n", text)
    if _suspects().search(text) is None:
        return text, 0
    removed = 0

    def judge(match: re.Match[str]) -> str:
        nonlocal removed
        if _stays(text, match.start()):
            return match.group()
        removed += 1
        return ""

    return _suspects().sub(judge, text), removed


def one_line(text: str, limit: int) -> str:
    """`text` cleaned and folded to one line, cut with `…` to `limit` characters: for header values."""
    line = _SPACES.sub(" ", clean(text[: limit * 8])[0]).strip()
    return line if len(line) <= limit else line[: max(limit - 1, 0)].rstrip() + "…"


def is_removable(char: str) -> bool:
    """True for a character of the removed classes, whatever stands beside it."""
    if char in "\t\n":
        return False
    return char in _INVISIBLE or 0xE0000 <= ord(char) <= 0xE0FFF or unicodedata.category(char)[0] == "C"


@cache
def _suspects() -> re.Pattern[str]:
    """Every removable character of the basic plane, and all beyond it, which are judged one by one.

    One class over all planes would be a list of hundreds of ranges, tried in turn for each letter.
    """
    ranges: list[str] = []
    start: int | None = None
    for code in range(0x10001):
        if code < 0x10000 and is_removable(chr(code)):
            start = code if start is None else start
        elif start is not None:
            ranges.append(f"\\u{start:04x}-\\u{code - 1:04x}")
            start = None
    return re.compile(f"[{''.join(ranges)}\U00010000-\U0010ffff]")


def _stays(text: str, at: int) -> bool:
    char = text[at]
    if not is_removable(char):
        return True
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if char == _EMOJI_SELECTOR:
        return bool(_EMOJI.match(before)) or (after == _KEYCAP and before != "" and before in "0123456789#*")
    if char in "\u180b\u180c\u180d\u180f":
        return "\u1820" <= before <= "\u18aa"
    if char >= "\U000e0000":
        flag = _FLAG.search(text, max(at - _FLAG_LENGTH + 1, 0), at + _FLAG_LENGTH - 1)
        return flag is not None and flag.start() < at < flag.end()
    if char == _ZWJ and _EMOJI.match(after):
        base = text[at - 2] if before == _EMOJI_SELECTOR and at > 1 else before
        return bool(_EMOJI.match(base))
    return char in (_ZWNJ, _ZWJ) and bool(_JOINING.match(before) and _JOINING.match(after)) and not is_removable(after)
