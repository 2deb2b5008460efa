"""Domains that look like another: mixed scripts inside one label, or those that look like a known domain.

Look-alikes are reported, never folded away: an honest Cyrillic or Greek name stays what it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from postroom.model.mail import Finding
from postroom.safety.confusables import skeleton

CODE = "lookalike"
_ALIKE = (("rn", "m"), ("vv", "w"), ("0", "o"), ("1", "l"), ("i", "l"))  # in ASCII; an address's `I` is shown as `i`
_TOGETHER = (  # scripts that honest labels mix
    {"LATIN", "HIRAGANA", "KATAKANA", "CJK"},
    {"LATIN", "HANGUL", "CJK"},
    {"LATIN", "BOPOMOFO", "CJK"},
)


def domain_findings(domain: str, known: Iterable[str] = (), *, whose: str = "the sender's domain") -> tuple[Finding, ...]:
    """What is odd about `domain`, given the domains its reader knows. Both may be IDNA or Unicode."""
    shown = to_unicode(domain)
    if any(_mixes_scripts(label) for label in shown.split(".")):
        return (Finding(code=CODE, detail=f"{whose} mixes letters of several scripts"),)
    seen = looks(shown)
    for other in map(to_unicode, known):
        if other != shown and looks(other) == seen:
            return (Finding(code=CODE, detail=f"{whose} looks like a known one and is another"),)
    return ()


@lru_cache(maxsize=4096)
def looks(domain: str) -> str:
    """What the domain may be taken for: two with the same answer look alike. Not for showing."""
    seen = skeleton(to_unicode(domain))
    for written, taken_for in _ALIKE:
        seen = seen.replace(written, taken_for)
    return seen


def to_unicode(domain: str) -> str:
    """The domain as a reader sees it: A-labels decoded, lower case."""
    return ".".join(_decode(label) for label in domain.strip().rstrip(".").lower().split("."))


def _decode(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError):
        return label


def _mixes_scripts(label: str) -> bool:
    scripts = {unicodedata.name(char, "?").split(" ")[0] for char in label if char.isalpha()}
    return len(scripts) > 1 and not any(scripts <= allowed for allowed in _TOGETHER)
