"""Secrets out of text: found by what they look like, and exactly where they are postroom's own.

All patterns run in RE2, which is linear in the text by construction, so no mail can make a rule
hang. One RE2 set of all rules reads the text once and says which of them to run at all; on clean
text that is the whole cost. The text is read once more with white space and invisible characters
taken out, for tokens split by them; full-width letters count as the plain ones. Secrets postroom
holds itself are matched exactly, also percent-encoded and inside base64.

A secret becomes `[redacted:kind#tag]`; the tag is keyed, so two mentions of one secret can be told
to be the same and nothing more. Views, logs and receipts are redacted; an outgoing mail never is:
there a finding refuses the mail, because a silently altered mail is a lie.

Another engine may be asked besides (`safety.kingfisher`); what it finds counts as what ours find.
"""

from __future__ import annotations

import base64
import codecs
import hmac
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import re2

from postroom.safety.secret_rules import RULES, Rule

OWN: Final = "own-secret"
MIN_OWN_CHARS: Final = 8  # shorter ones would be found in ordinary words
_SET_MEMORY: Final = 16 << 20  # bytes of automaton states, kept across calls; RE2 starts over beyond that

_NARROW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_WIDE_WORD = re2.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]{4}")
_ASCII_BLANKS = bytes(code for code in range(0x80) if code <= 0x20 or code == 0x7F)
_BYTE_ORDER_MARKS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CONTINUATIONS = bytes(range(0x80, 0xC0))  # UTF-8 bytes that begin no character
_BLANKS = re2.compile(
    r"[\p{Z}\p{C}\x{34f}\x{115f}\x{1160}\x{180b}-\x{180f}\x{2800}\x{3164}\x{fe00}-\x{fe0f}\x{ffa0}\x{e0100}-\x{e01ef}]"
)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Where a secret stands, in characters, and of which kind it is."""

    start: int
    end: int
    kind: str


class Engine(Protocol):
    """Finds secrets in UTF-8, in bytes; in any order, and they may overlap."""

    def find(self, data: bytes) -> Iterable[Span]: ...


class Redactor:
    """Finds secrets. Safe to share between threads; `add_secret` takes effect for the next call."""

    def __init__(self, own_secrets: Iterable[str] = (), *, key: bytes | None = None, engines: Sequence[Engine] = ()) -> None:
        self._key = key or secrets.token_bytes(16)
        self._engines = tuple(engines)
        self._own: set[str] = set()
        self._marks: set[bytes] = set()  # without one of these, or a percent sign, there is none of our own
        self._own_pattern: Any = None
        for value in own_secrets:
            self.add_secret(value)

    def add_secret(self, value: str) -> None:
        """From now on `value` is a secret. Values under eight characters are ignored."""
        if len(value) >= MIN_OWN_CHARS:
            self._own |= set(_spellings(value))
            self._marks = {*self._marks, value.encode(), *(coded.encode() for coded in _coded(value))}
            self._own_pattern = _compile("|".join(sorted(self._own, key=len, reverse=True)))

    def find(self, text: str) -> list[Span]:
        """The secrets in `text`, in order, without overlaps."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > len(text) and _WIDE_WORD.search(data):
            text = text.translate(_NARROW)
            data = text.encode("utf-8", "surrogatepass")
        found = _to_characters(data, self._find_plain(data))
        return _merge([*found, *self._find_split(text, data)])

    def kinds_in(self, content: bytes) -> tuple[str, ...]:
        """The kinds of secrets in a file, each once: read as text where it is text, else as the bytes it is."""
        text = _text_of(content)
        found = self.find(text) if text is not None else self._find_plain(content)
        return tuple(dict.fromkeys(span.kind for span in found))

    def redact(self, text: str) -> tuple[str, int]:
        """`text` with each secret replaced by its placeholder, and how many there were."""
        spans = self.find(text)
        pieces, at = [], 0
        for span in spans:
            pieces += [text[at : span.start], self._placeholder(span.kind, text[span.start : span.end])]
            at = span.end
        return ("".join([*pieces, text[at:]]) if spans else text), len(spans)

    def _placeholder(self, kind: str, value: str) -> str:
        plain = _squeeze(value.translate(_NARROW).encode("utf-8", "surrogatepass"))
        return f"[redacted:{kind}#{hmac.digest(self._key, plain, 'sha256').hex()[:6]}]"

    def _find_plain(self, data: bytes) -> list[Span]:
        others = (span for engine in self._engines for span in engine.find(data))
        return [*self._find_own(data), *_rule_set(compact=False).find(data), *others]

    def _find_own(self, data: bytes) -> Iterator[Span]:
        if self._own_pattern is not None and (b"%" in data or any(mark in data for mark in self._marks)):
            for match in self._own_pattern.finditer(data):
                yield Span(match.start(), match.end(), OWN)

    def _find_split(self, text: str, data: bytes) -> Iterator[Span]:
        """Secrets with white space or invisible characters inside them."""
        squeezed = _squeeze(data)
        if len(squeezed) == len(data):
            return
        found = [*self._find_own(squeezed), *_rule_set(compact=True).find(squeezed)]
        if not found:
            return
        stays = {char: _squeeze(char.encode("utf-8", "surrogatepass")) != b"" for char in set(text)}
        places = [at for at, char in enumerate(text) if stays[char]]
        for span in _to_characters(squeezed, found):
            start, end = places[span.start], places[span.end - 1] + 1
            begins_a_word = start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "_-")
            if end - start > span.end - span.start and (begins_a_word or span.kind == OWN):
                yield Span(start, end, span.kind)


class _RuleSet:
    """Rules compiled: a set to ask which occur, and each alone to ask where."""

    def __init__(self, rules: Sequence[Rule], patterns: Sequence[str]) -> None:
        self._rules = rules
        self._patterns = [_compile(pattern) for pattern in patterns]
        self._set = re2.Set.SearchSet(_options())
        for pattern in patterns:
            self._set.Add(pattern.encode("latin-1"))
        self._set.Compile()

    def find(self, data: bytes) -> Iterator[Span]:
        """Every secret of these rules, in bytes, unordered."""
        for number in self._set.Match(data) or ():
            yield from self.find_one(number, data)

    def find_one(self, number: int, data: bytes) -> Iterator[Span]:
        """The secrets of one rule."""
        rule, pattern = self._rules[number], self._patterns[number]
        group = min(pattern.groups, 1)
        for match in pattern.finditer(data):
            if _is_secret(rule, match.group(group)):
                yield Span(match.start(group), match.end(group), rule.kind)


@cache
def _rule_set(*, compact: bool) -> _RuleSet:
    rules = [rule for rule in RULES if rule.compact or not compact]
    return _RuleSet(rules, [rule.compact if compact else rule.pattern for rule in rules])


def _is_secret(rule: Rule, value: bytes) -> bool:
    if rule.entropy and _entropy(value) < rule.entropy:
        return False
    return not rule.refuse or not _refusal(rule.refuse).fullmatch(value)


@cache
def _refusal(pattern: str) -> Any:
    return re2.compile(f"(?is:{pattern})")


def _entropy(value: bytes) -> float:
    """Shannon entropy in bits per character: random text has more of it than words."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # tokens are ASCII; other bytes are matched as they are
    options.log_errors = False
    options.max_mem = _SET_MEMORY
    return options


def _compile(pattern: str) -> Any:
    return re2.compile(pattern.encode("latin-1"), _options())


def _text_of(content: bytes) -> str | None:
    """The text in a file, by its byte order mark, else as UTF-8; None when it is no text."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _squeeze(data: bytes) -> bytes:
    """UTF-8 `data` without white space and what nobody sees."""
    squeezed = data.translate(None, _ASCII_BLANKS)
    return squeezed if squeezed.isascii() else _BLANKS.sub(b"", squeezed)


def _to_characters(data: bytes, spans: Iterable[Span]) -> list[Span]:
    """Spans of UTF-8 `data`, given in bytes, in characters."""
    found = list(spans)
    at, characters, place = 0, 0, {}
    for edge in sorted({edge for span in found for edge in (span.start, span.end)}):
        characters += len(data[at:edge].translate(None, _CONTINUATIONS))
        at, place[edge] = edge, characters
    return [Span(place[span.start], place[span.end], span.kind) for span in found]


def _merge(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(span.end, merged[-1].end), merged[-1].kind)
        else:
            merged.append(span)
    return merged


def _spellings(value: str) -> Iterator[str]:
    """Patterns of `value`: each byte plain or percent-encoded; and inside longer base64 at each of the three alignments."""
    data = value.encode()
    yield "".join(f"(?:{re2.escape(chr(byte))}|%(?i:{byte:02x}))" for byte in data)
    yield from map(re2.escape, _coded(value))


def _coded(value: str) -> Iterator[str]:
    """What is sure to stand where `value` is inside base64: at each alignment, in both alphabets."""
    data = value.encode()
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + data).rstrip(b"=").decode()
        whole = coded[(0, 2, 3)[shift] : len(coded) if (shift + len(data)) % 3 == 0 else -1]
        yield whole
        yield whole.replace("+", "-").replace("/", "_")
