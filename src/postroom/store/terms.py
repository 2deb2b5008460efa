"""Text and queries as terms of the index: folded widths, and bigrams for scripts written without spaces.

A run of kana, han or hangul `ABC` is indexed as `AB BC C` in a column of its own, so that any part
of it is a phrase of bigrams, and one character alone is a prefix. Everything else is left to
FTS5's unicode61. Queries are taken apart here and every word is quoted: no input can be a syntax
error. An inbox is one token that begins with a character no text and no query can hold, so neither
can reach into another inbox.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from typing import Final

TERMS: Final = 32  # of one query; more than that is no query a person wrote
QUERY_CHARS: Final = 1000
WORD_CHARS: Final = 255  # of a word that is told apart; PostgreSQL takes 2,046 bytes

_MARK: Final = "\ue000"  # private use: unicode61 takes it for a letter, and no text keeps it

_CJK: Final = (
    "\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN: Final = re.compile(f"[{_CJK}]+")
_PART: Final = re.compile(f"(?P<run>[{_CJK}]+)|[^{_CJK}]+")
_PIECE: Final = re.compile(r'"(?P<phrase>[^"]*)"?(?P<star>\*?)|(?P<word>[^\s"]+)')
_TOKEN: Final = re.compile(r"[^\W_]")  # unicode61 indexes letters and digits
_WORD: Final = re.compile(r"[^\W_]+")
_ACCENTED: Final = re.compile("([A-Za-z])[\u0300-\u036f]+")


def folded(text: str) -> str:
    """One form for full-width letters, half-width kana and ligatures; nothing SQLite cannot store, no inbox's mark."""
    if text.isascii():
        return text.replace("\0", " ")
    clean = text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ").replace(_MARK, " ")
    return unicodedata.normalize("NFKC", clean)


def inbox_token(inbox: str) -> str:
    """The token every document of `inbox` carries."""
    return _MARK + hashlib.sha256(inbox.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def spaced(text: str) -> str:
    """`text` for the word columns: runs without spaces are in the bigram column instead."""
    return text if text.isascii() else _RUN.sub(" ", text)


def bigrams(text: str) -> str:
    """`text` for the bigram column."""
    if text.isascii():
        return ""
    return " ".join(" ".join(run[at : at + 2] for at in range(len(run))) for run in _RUN.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One thing a query asks for: words that follow each other, the last perhaps as a prefix."""

    text: str  # as written, or bigrams with spaces between
    prefix: bool


def query_terms(query: str) -> list[Term]:
    """What `query` asks for, all of it at once; [] when it holds no term."""
    terms: list[Term] = []
    for piece in _PIECE.finditer(folded(query[:QUERY_CHARS])):
        body = piece["phrase"] if piece["word"] is None else piece["word"]
        starred = bool(piece["star"]) or body.endswith("*")
        parts = list(_PART.finditer(body))
        for part in parts:
            terms += _term(part[0], run=part["run"] is not None, prefix=starred and part is parts[-1])
    return terms[:TERMS]


def match_expression(query: str) -> str:
    """`query` as an FTS5 expression; "" when it holds no term."""
    return " AND ".join(f'"{term.text}"{" *" if term.prefix else ""}' for term in query_terms(query))


def words(text: str) -> list[str]:
    """`text` as FTS5's unicode61 would take it apart, for an engine that has no such tokenizer."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", text)))
    return [word[:WORD_CHARS] for word in _WORD.findall(text.lower().replace("ς", "σ"))]


def _term(text: str, *, run: bool, prefix: bool) -> list[Term]:
    if run:
        phrase = " ".join(text[at : at + 2] for at in range(max(1, len(text) - 1)))
        return [Term(text=phrase, prefix=len(text) == 1)]
    return [Term(text=text, prefix=prefix)] if _TOKEN.search(text) else []
