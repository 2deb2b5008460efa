"""Which letters look like which: a skeleton in plain ASCII, for comparing, never for showing.

The table lists the letters of Cyrillic, Greek, Armenian, Cherokee and a few others that a reader
takes for a Latin one; compatibility forms (full-width, mathematical, circled) and accents fold by
Unicode's own normalisation. After Unicode TR 39, reduced to what passes for Latin.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from postroom.safety.unicode import is_removable

_LOOKS_LIKE = {
    "a": "аαɑᎪ",
    "b": "ЬвᏏƄβ",
    "c": "сϲᏟⅽᴄ",
    "d": "ԁᎠժɗ",
    "e": "еєεҽᎬℯ",
    "f": "ғϝք",
    "g": "ɡցԌɢ",
    "h": "һհнᎻ",
    "i": "іιɩıᎥӏɪ",
    "j": "јյϳᎫ",
    "k": "кκᏦ",
    "l": "ⅼӀᏞʟℓ|",
    "m": "мᎷⅿʍ",
    "n": "ոռпηɴ",
    "o": "оοօσ০੦૦௦౦ഠ๐໐",
    "p": "рρᏢ",
    "q": "ԛգզ",
    "r": "гᎡɾʀᴦ",
    "s": "ѕꜱᏚʂ",
    "t": "тτᎢ",
    "u": "υսᴜʋц",
    "v": "ѵνᏙᴠ",
    "w": "ԝωᎳшա",
    "x": "хχᕁ×",
    "y": "уүγᎽʏ",
    "z": "ᏃᴢʐȤ",
}
_TABLE = {ord(form): latin for latin, forms in _LOOKS_LIKE.items() for char in forms for form in (char, char.lower())}


@lru_cache(maxsize=4096)
def fold(char: str) -> str:
    """One character as the ASCII a reader may take it for: lower case, no accents, invisible ones empty."""
    if char.isascii():
        return char.lower()
    if is_removable(char):
        return ""
    plain = unicodedata.normalize("NFKD", char.translate(_TABLE)).casefold()
    return "".join(part.translate(_TABLE) for part in plain if unicodedata.category(part)[0] != "M" and not is_removable(part))


def skeleton(text: str) -> str:
    """`text` folded character by character."""
    return "".join(map(fold, text))
