"""A domain in the one form in which domains are compared, and which a mail server is told.

What a rule names and where mail goes must be read alike, or a blocked domain is reached by spelling it
the other way. This is UTS #46, not transitional, as browsers read names: `straße.example` is
`xn--strae-oqa.example`, and not `strasse.example`, which is another domain. Its tables are replaced by
Unicode's own folding and categories; what these cannot tell, and what nobody can see (joiners, soft
hyphens), is no domain until it is written in ASCII.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

DOMAIN_CHARS: Final = 253

_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_DOTS: Final = re.compile("[\u3002\uff0e\uff61]")
_KEPT: Final = {"\u00df": "\u00df", "\u1e9e": "\u00df", "\u03c2": "\u03c2"}  # sharp s and final sigma are letters of their own
_UNSEEN: Final = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_BETWEEN_LETTERS: Final = frozenset("\u00b7\u0375\u05f3\u05f4\u30fb")  # RFC 5892, appendix A.3 to A.7


def ascii_domain(domain: str) -> str | None:
    """The domain in lower case as A-labels; None when it is not one."""
    labels = [_ascii_label(label) for label in _DOTS.sub(".", domain).split(".")]
    found = ".".join(label or "" for label in labels)
    return found if all(labels) and len(found) <= DOMAIN_CHARS else None


def _ascii_label(label: str) -> str | None:
    mapped = label.lower() if label.isascii() else _mapped(label)
    if not mapped.isascii():
        if len(mapped) > DOMAIN_CHARS or _UNSEEN.search(mapped) or not all(map(_may_stand, mapped)):
            return None
        mapped = "xn--" + mapped.encode("punycode").decode("ascii")
    return mapped if _LABEL.fullmatch(mapped) else None


def _mapped(label: str) -> str:
    """Widths, ligatures and case folded, each letter by itself."""
    wide = unicodedata.normalize("NFKC", label[: DOMAIN_CHARS + 1])
    return unicodedata.normalize("NFKC", "".join(_KEPT.get(char) or char.casefold() for char in wide))


def _may_stand(char: str) -> bool:
    if char.isascii():
        return char.isalnum() or char in "-_"
    return unicodedata.category(char)[0] in "LMN" or char in _BETWEEN_LETTERS
