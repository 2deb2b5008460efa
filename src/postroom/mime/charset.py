"""Bytes in a declared charset become text that is always safe to store and send on.

One promise, kept here and nowhere else: what leaves `decode` is encodable as UTF-8 and holds no NUL.
What a sender calls a charset is a hint; only real text encodings are honoured. UTF-7 is refused
because it turns harmless ASCII into markup after everybody has looked.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Final

# What senders write, and what their bytes really are (WHATWG Encoding, and measurement).
_ALIASES: Final = {
    "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "l1": "cp1252", "x-user-defined": "cp1252",
    "iso-8859-9": "cp1254", "iso-8859-11": "cp874", "tis-620": "cp874", "windows-874": "cp874",
    "iso-8859-8-i": "iso-8859-8", "iso-8859-8-e": "iso-8859-8", "logical": "iso-8859-8",
    "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "gb_2312-80": "gb18030", "cp936": "gb18030",
    "big5": "big5hkscs", "x-x-big5": "big5hkscs",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "windows-31j": "cp932",
    "ks_c_5601-1987": "cp949", "ks_c_5601": "cp949", "euc-kr": "cp949", "ksc5601": "cp949",
    "iso-2022-jp": "iso2022_jp_ext", "utf8": "utf-8", "utf8mb4": "utf-8", "unicode-1-1-utf-8": "utf-8",
    "macintosh": "mac_roman", "x-mac-roman": "mac_roman", "x-mac-cyrillic": "mac_cyrillic",
}  # fmt: skip
# Only names of these families ever reach `codecs.lookup`, which remembers every name it is asked for.
_FAMILY: Final = re.compile(
    r"utf[-_]?(?:8|16|32)(?:[-_]?sig|[-_]?[lb]e)?|(?:x[-_])?(?:windows|cp|ibm|iso|mac)[-_ ]?[a-z0-9]{1,8}(?:[-_][a-z0-9]{1,6}){0,2}"
    r"|koi8[-_]?[rut]|gb18030|big5hkscs|euc[-_](?:jp|kr|jis_2004|jisx0213)|hz(?:[-_]gb[-_]2312)?|johab|ptcp154|kz[-_]?1048"
)
_NUMBERED: Final = re.compile(r"(?:x[-_])?(windows|cp|ibm|iso)[-_ ]?(\d{3,5})(?:[-_](\d{1,2}))?")
_NAME_CHARS: Final = 40


@lru_cache(maxsize=512)
def codec(charset: str | None) -> str | None:
    """Python's name of the text encoding `charset` stands for; None if it names none we accept."""
    name = (charset or "").strip(" \t\r\n\"'").lower()
    if len(name) > _NAME_CHARS or not name.isascii():
        return None
    name = _ALIASES.get(name, name)
    numbered = _NUMBERED.match(name)
    candidates = [name]
    if numbered:
        family, number, part = numbered.groups()
        candidates.append(f"iso8859-{part}" if family == "iso" and part else f"cp{number}")
    for candidate in candidates:
        if not _FAMILY.fullmatch(candidate):
            continue
        try:
            return codecs.lookup(candidate).name
        except LookupError:
            continue
    return None


def decode(raw: bytes, charset: str | None) -> str:
    """`raw` as text. Tries the declared charset, then UTF-8, then replaces what does not fit; never raises."""
    name = codec(charset)
    text = raw.decode("ascii") if (name is None or name == "utf-8") and raw.isascii() else _decode(raw, name)
    return text.replace("\0", "") if "\0" in text else text


def _decode(raw: bytes, name: str | None) -> str:
    for attempt in (name, "utf-8"):
        try:
            if attempt is not None:
                return _encodable(raw.decode(attempt).removeprefix("\ufeff"))
        except (UnicodeError, ValueError):
            continue
    return _encodable(raw.decode(name or "cp1252", "replace"))


def _encodable(text: str) -> str:
    """Some decoders let lone surrogates through; JSON, SQLite and the network do not take them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
