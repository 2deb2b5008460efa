"""HTML made harmless for the parser itself, before it is parsed.

A tree builder takes quadratic time, or memory without end, on deep nesting, on thousands of
attributes, on formatting tags left open and on endless options. This cuts such a document where it
leaves ordinary bounds, after one pass that reads tags exactly as the HTML standard tokenizes them.
Elements whose content has rules of its own and is never shown are renamed, so that no rule applies.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from postroom.limits import HTML_BYTES

_UNCHECKED_TAGS: Final = 1000  # with short tags, nothing that has no more takes long
_DEPTH: Final = 500
_SHORT_CHARS: Final = 4096
_TAG_CHARS: Final = 256 * 1024
_ATTRIBUTES: Final = 1000
_REPEATED: Final = 400_000  # copies of formatting elements a tree builder may make

_OWN_RULES: Final = re.compile(r"<(/?)(?:(script)|svg|math|select|option|optgroup)(?=[\s/>])", re.IGNORECASE)
_QUICK: Final = r"""[^>"'=]*+(?:(?<=[^\s/"'])="[^"]*+"[^>"'=]*+)*+"""
_EXACT: Final = r"""(?:[\s/]++|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+)?+)?+)*+"""
_RAW: Final = "style|title|textarea|xmp|iframe|noembed|noframes"
_TAG: Final = re.compile(
    rf"<(?:({_RAW})(?=[\s/>])({_EXACT})>?(?:[^<]++|<(?!/\1[\s/>]))*+"
    rf"|([a-z][^\s/>\"'=]*+)(?:{_QUICK}>|(?P<odd>{_EXACT})>?)|/([a-z][^\s/>]*+){_EXACT}>?"
    r"|!--(?:>|->|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?)|[!?/][^>]*+>?)",
    re.IGNORECASE,
)
_END_IN_QUOTES: Final = re.compile(r"""=\s*+(?:"[^">]*+>|'[^'>]*+>)""")
_SEPARATORS: Final = re.compile(r"[\s/\"']+")
_UNCOUNTED: Final = frozenset(  # void, or closed by the next of their kind
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "param", "p", "li", "td",
     "tr", "th", "dt", "dd", "tbody", "thead", "tfoot", "colgroup", "caption", "html", "head", "body")
)  # fmt: skip
_FORMATTING: Final = frozenset(("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"))


def bounded(html: str) -> tuple[str, bool]:
    """`html` as far as it can be parsed in time, and whether something was cut off."""
    cut = len(html) > HTML_BYTES
    html = html[:HTML_BYTES] if cut else html
    html = _OWN_RULES.sub(_renamed, html)
    end = len(html) if _is_small(html) else _end(html)
    return (html[:end], True) if end < len(html) else (html, cut)


def _renamed(found: re.Match[str]) -> str:
    """A script becomes a style sheet of no known type: both end at the first end tag, and neither is shown."""
    if found[2]:
        return "</style" if found[1] else "<style type=x"
    return f"<{found[1]}x-{found[0].lstrip('</').lower()}"


def _is_small(html: str) -> bool:
    """Few tags, and none long: sound because no quoted value hides the end of a tag."""
    return (
        html.count("<") <= _UNCHECKED_TAGS
        and max(map(len, html.split(">"))) <= _SHORT_CHARS
        and _END_IN_QUOTES.search(html) is None
    )


def _end(html: str) -> int:
    """Where the document leaves the bounds, or its length."""
    opened: Counter[str] = Counter()
    depth = formatting = repeated = 0
    for found in _TAG.finditer(html):
        name = found[3]
        if name is None:
            closed = (found[5] or "").lower()
            if opened[closed] > 0:
                opened[closed] -= 1
                depth -= 1
                formatting -= closed in _FORMATTING
            continue
        if found.end() - found.start() > _ATTRIBUTES and _has_many_attributes(found):
            return found.start()
        repeated += formatting
        name = name.lower()
        if name not in _UNCOUNTED:
            opened[name] += 1
            depth += 1
            formatting += name in _FORMATTING
        if depth > _DEPTH or repeated > _REPEATED:
            return found.start()
    return len(html)


def _has_many_attributes(found: re.Match[str]) -> bool:
    tag = found[0]
    return len(tag) > _TAG_CHARS or len(_SEPARATORS.findall(tag)) > 4 * _ATTRIBUTES
