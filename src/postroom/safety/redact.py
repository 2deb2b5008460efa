"""Secrets out of text: found by what they look like, and exactly where they are postroom's own.

All patterns run in RE2, which is linear in the text by construction, so no mail can make a rule
hang. One RE2 set over short anchors (`ghp_`, `AKIA`, `password`) reads the text once and says which
rules to run at all. What a mail split by white space is looked for once more with the white space
taken out. Secrets postroom holds itself are matched exactly, also in base64 and percent-encoding.

A secret becomes `[redacted:kind#tag]`; the tag is keyed, so two mentions of one secret can be told
to be the same and nothing more. Views, logs and receipts are redacted; an outgoing mail never is:
there a finding refuses the mail, because a silently altered mail is a lie.
"""

from __future__ import annotations

import base64
import hmac
import math
import re
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import re2

from postroom.safety.secret_rules import RULES, Rule

OWN: Final = "own-secret"
MIN_OWN_CHARS: Final = 8  # shorter ones would be found in ordinary words


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Where a secret stands, in characters, and of which kind it is."""

    start: int
    end: int
    kind: str


class Redactor:
    """Finds secrets. Safe to share between threads; `add_secret` takes effect for the next call."""

    def __init__(self, own_secrets: Iterable[str] = (), *, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(16)
        self._own: set[str] = set()
        self._own_pattern: Any = None
        for value in own_secrets:
            self.add_secret(value)

    def add_secret(self, value: str) -> None:
        """From now on `value` is a secret. Values under eight characters are ignored."""
        if len(value) < MIN_OWN_CHARS:
            return
        self._own |= set(_spellings(value))
        self._own_pattern = _compile("|".join(sorted(self._own, key=len, reverse=True)))

    def find(self, text: str) -> list[Span]:
        """The secrets in `text`, in order, without overlaps."""
        data = text.encode("utf-8", "surrogatepass")
        found = [*self._find_own(data), *_run(_set_of(compact=False), data)]
        spans = _to_characters(text, data, found)
        return _merge([*spans, *self._find_split(text)])

    def redact(self, text: str) -> tuple[str, int]:
        """`text` with each secret replaced by its placeholder, and how many there were."""
        spans = self.find(text)
        if not spans:
            return text, 0
        pieces, at = [], 0
        for span in spans:
            pieces += [text[at : span.start], self._placeholder(span.kind, text[span.start : span.end])]
            at = span.end
        return "".join([*pieces, text[at:]]), len(spans)

    def _placeholder(self, kind: str, value: str) -> str:
        plain = re.sub(r"\s+", "", value).encode("utf-8", "surrogatepass")
        return f"[redacted:{kind}#{hmac.digest(self._key, plain, 'sha256').hex()[:6]}]"

    def _find_own(self, data: bytes) -> Iterator[Span]:
        if self._own_pattern is not None:
            for match in self._own_pattern.finditer(data):
                yield Span(match.start(), match.end(), OWN)

    def _find_split(self, text: str) -> list[Span]:
        """Secrets with white space inside, found in the text without any."""
        words = text.split()
        if len(words) < 2:
            return []
        squeezed = "".join(words).encode("utf-8", "surrogatepass")
        found = [*self._find_own(squeezed), *_run(_set_of(compact=True), squeezed)]
        if not found:
            return []
        places = [at for at, char in enumerate(text) if not char.isspace()]
        spans = []
        for span in _to_characters("".join(words), squeezed, found):
            start, end = places[span.start], places[span.end - 1] + 1
            whole_word = start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "_-")
            if whole_word and end - start > span.end - span.start:
                spans.append(Span(start, end, span.kind))
        return spans


@dataclass(frozen=True, slots=True)
class _RuleSet:
    rules: tuple[Rule, ...]
    anchors: Any  # an RE2 set, one anchor per rule
    patterns: tuple[Any, ...]


@cache
def _set_of(*, compact: bool) -> _RuleSet:
    """All rules, or those whose tokens are recognised even with their neighbours glued to them."""
    rules = tuple(rule for rule in RULES if rule.compact or not compact)
    anchors = re2.Set.SearchSet(_options())
    for rule in rules:
        anchors.Add(rule.anchor.encode("latin-1"))
    anchors.Compile()
    return _RuleSet(rules, anchors, tuple(_compile(rule.compact if compact else rule.pattern) for rule in rules))


def _run(rules: _RuleSet, data: bytes) -> Iterator[Span]:
    for number in rules.anchors.Match(data) or ():
        rule = rules.rules[number]
        for match in rules.patterns[number].finditer(data):
            group = 1 if match.re.groups else 0
            if match.start(group) >= 0 and _is_secret(rule, match.group(group)):
                yield Span(match.start(group), match.end(group), rule.kind)


def _is_secret(rule: Rule, value: bytes) -> bool:
    if rule.entropy and _entropy(value) < rule.entropy:
        return False
    return rule.refuse is None or not rule.refuse.search(value.decode("utf-8", "replace"))


def _entropy(value: bytes) -> float:
    """Shannon entropy in bits per character: random text has more of it than words."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)


def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # tokens are ASCII; bytes are matched as they are
    options.log_errors = False
    options.max_mem = 64 << 20
    return options


def _compile(pattern: str) -> Any:
    return re2.compile(pattern.encode("latin-1"), _options())


def _to_characters(text: str, data: bytes, spans: Iterable[Span]) -> list[Span]:
    found = list(spans)
    if not found or len(text) == len(data):
        return found
    starts = [0]
    for char in text:
        starts.append(starts[-1] + len(char.encode("utf-8", "surrogatepass")))
    return [Span(bisect_right(starts, each.start) - 1, bisect_right(starts, each.end - 1), each.kind) for each in found]


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
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + data).rstrip(b"=").decode()
        whole = coded[(0, 2, 3)[shift] : len(coded) if (shift + len(data)) % 3 == 0 else -1]
        yield re2.escape(whole)
        yield re2.escape(whole.replace("+", "-").replace("/", "_"))
