"""What a person would see of an HTML mail, as text.

Styles are judged before tags are stripped: text that is not displayed, too small, transparent, of the
colour of its background, clipped or moved away never reaches a model, and what was removed is
counted. What cannot be judged within the limits is left out, not passed on. Titles, alternative
texts, form values and link targets are not prose: links are listed apart with the host they lead to.
Pictures behind text and overlays are not seen by this reader.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from postroom.model.mail import Finding
from postroom.safety.css import Rule, StyleTooLarge, rules
from postroom.safety.css_values import media_holds
from postroom.safety.html_bounds import bounded
from postroom.safety.looks import Inside, Judge, Look
from postroom.safety.unicode import clean

_NODES: Final = 200_000
_LINKS: Final = 200
_NOT_SHOWN: Final = frozenset(
    ("script", "style", "head", "title", "noscript", "template", "object", "embed", "iframe", "canvas", "audio",
     "video", "meta", "link", "input", "textarea", "x-svg", "x-math", "x-select", "x-option", "x-optgroup", "img", "datalist", "noframes", "noembed", "dialog", "progress",
     "meter", "map", "param", "base", "frame", "frameset", "rp")
)  # fmt: skip
_CARRIERS: Final = frozenset(("noscript", "template", "object", "canvas", "noframes", "dialog", "x-svg", "x-math"))
_LINES: Final = ("tr", "li", "div", "dt", "dd")
_BLOCKS: Final = (
    "p", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section", "article", "header", "footer", "center", "dl",
    "form", "address", "fieldset", "main", "nav", "aside", "figure", "figcaption", "details", "summary",
)  # fmt: skip
# Marks no parsed text can hold: a parser drops every NUL.
_BREAK, _QUOTE_IN, _QUOTE_OUT = "\0n", "\0(", "\0)"
_OPENING: Final = (
    dict.fromkeys(_LINES, _BREAK)
    | dict.fromkeys(_BLOCKS, _BREAK + _BREAK)
    | {"br": _BREAK, "hr": _BREAK + _BREAK, "li": _BREAK + "- ", "td": " ", "th": " ", "blockquote": _BREAK + _BREAK + _QUOTE_IN}
)
_CLOSING: Final = dict.fromkeys((*_LINES, *_BLOCKS), _BREAK) | {"blockquote": _QUOTE_OUT + _BREAK}
_QUOTE_DEPTH: Final = 10
_LINK_CHARS: Final = 200
_MARKERS: Final = re.compile(r"\0[()]")
_UNSEEN: Final = (
    "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff\xad"
)
_WORDS: Final = re.compile(r"[^\W\d_]{4,40}")
_ADDRESSES: Final = re.compile(r"\S*(?:://|www\.|@)\S*")
_FEW_WORDS: Final = 10
_SHARE_MISSING: Final = 0.3
_HTTP_HOST: Final = re.compile(r"\s*https?://([A-Za-z0-9.-]+)(?=[/?#:]|\s*$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """The visible text; the reasons for which passages were removed, one each; links as `(text, host)`."""

    text: str
    removed: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """`hidden_text` with the number of passages and the reasons; `html_limit` when the rest was left out."""
        counts = Counter(self.removed)
        over = counts.pop("limit", 0)
        found = []
        if counts:
            found.append(Finding(code="hidden_text", count=counts.total(), detail=", ".join(sorted(counts))))
        if over:
            found.append(Finding(code="html_limit"))
        return tuple(found)


def visible_text(html: str) -> Visible:
    """The visible text of a mail's HTML; never raises."""
    html, over = bounded(html)
    walk = _Walk(LexborHTMLParser(html))
    try:
        walk.run()
    except StyleTooLarge:
        over = True
    text = "" if walk.unjudged else _tidy("".join(walk.pieces))
    return Visible(text=text, removed=(*walk.removed, *(("limit",) if over else ())), links=tuple(walk.links))


def differs(text: str, seen: str) -> bool:
    """Whether a mail's plain text says much that its visible HTML does not: one for the model, one for the person."""
    words: set[str] = {word.lower() for word in _WORDS.findall(_ADDRESSES.sub(" ", text))}
    if len(words) < _FEW_WORDS:
        return False
    shown = seen.lower()
    known: set[str] = set(_WORDS.findall(shown))
    unspaced = "".join(shown.split())
    missing = sum(word not in known and (word.isascii() or word not in unspaced) for word in words)
    return missing / len(words) > _SHARE_MISSING


# An open element, what holds outside it, what its end writes; of a link also where its text begins and where it leads.
_Frame: TypeAlias = tuple[LexborNode, Inside, str, int, str]


class _Walk:
    """One pass over the tree in document order, without recursion."""

    def __init__(self, tree: LexborHTMLParser) -> None:
        self._tree = tree
        self.pieces: list[str] = []
        self.removed: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.unjudged = True

    def run(self) -> None:
        sheets = _sheets(self._tree)
        self._judge = Judge(sheets)
        self.unjudged = False
        node, inside, pieces = self._tree.root, self._judge.start(), self.pieces
        frames: list[_Frame] = []
        for _ in range(_NODES):
            if node is None:
                return
            tag = node.tag or ""
            if tag == "-text":
                look = inside.look
                if look.unseen is None and not look.keeps_spaces:
                    pieces.append(node.text_content or "")
                else:
                    self._text(node.text_content or "", look)
            elif tag in _NOT_SHOWN:
                inside.level.index += 1  # it is still one of its siblings
                self._skip(node, tag.removeprefix("x-") if tag in _CARRIERS else "")
            elif tag[:1].isalpha():
                attributes = node.attributes
                entered = self._judge.enter(inside, tag, attributes)
                if isinstance(entered, str):
                    self._skip(node, entered)
                else:
                    if opening := _OPENING.get(tag):
                        pieces.append(opening)
                    href = (attributes.get("href") or "") if tag == "a" else ""
                    child = node.child
                    if child is not None:
                        frames.append((node, inside, _CLOSING.get(tag, ""), len(pieces), href))
                        node, inside = child, entered
                        continue
                    pieces.append(_CLOSING.get(tag, ""))
            following = node.next
            while following is None and frames:
                node, inside, closing, start, href = frames.pop()
                if href:
                    self._link(start, href)
                if closing:
                    pieces.append(closing)
                following = node.next
            node = following
        raise StyleTooLarge

    def _skip(self, node: LexborNode, reason: str) -> None:
        """Leave a subtree out, and say so when it holds text."""
        if reason and (node.text() or "").strip():
            self.removed.append(reason)

    def _text(self, text: str, look: Look) -> None:
        if look.unseen is None:
            self.pieces.append(text.replace("\n", _BREAK) if look.keeps_spaces else text)
        elif text and not text.isspace():
            self.removed.append(look.unseen)

    def _link(self, start: int, href: str) -> None:
        """A link ends whose text begins at piece `start`."""
        if len(self.links) < _LINKS:
            text = " ".join("".join(self.pieces[start:]).replace("\0", " ").split())
            host = _host(href)
            if text and host:
                self.links.append((_cleaned(text[:_LINK_CHARS]), host))


def _sheets(tree: LexborHTMLParser) -> list[Rule]:
    found: list[Rule] = []
    for node in tree.css("style"):
        attributes = node.attributes
        if media_holds(attributes.get("media") or "") and (attributes.get("type") or "text/css").strip().lower() == "text/css":
            found += rules(node.text() or "")
    return found


def _host(href: str) -> str:
    plain = _HTTP_HOST.match(href)
    if plain:
        return plain[1].lower()
    try:
        parts = urlsplit(href.strip())
        host = parts.hostname or (parts.path.partition("?")[0].rpartition("@")[2] if parts.scheme == "mailto" else "")
    except ValueError:
        return ""
    return _cleaned(host[:253])


def _cleaned(text: str) -> str:
    if _is_plain(text):
        return text.strip()
    for mark in _UNSEEN:  # padding comes in masses of these: taken out at once, not judged one by one
        text = text.replace(mark, "")
    return clean(text)[0].strip()


def _is_plain(text: str) -> bool:
    """Printable Western text, which holds nothing to clean."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return text.replace("\n", "").isprintable()


def _tidy(text: str) -> str:
    """Blanks and blank lines in measure; what stood in a quote behind `> `."""
    quotes = _QUOTE_IN in text
    text = " ".join(text.split()).replace(f" {_BREAK}", _BREAK).replace(f"{_BREAK} ", _BREAK).replace(_BREAK, "\n")
    text = _quoted(text) if quotes else text
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return _cleaned(text)


def _quoted(text: str) -> str:
    lines: list[str] = []
    depth = 0
    for line in text.split("\n"):
        depth += line.count(_QUOTE_IN)
        bare = _MARKERS.sub("", line).strip()
        shown = min(max(depth, 0), _QUOTE_DEPTH)
        if bare or line == bare:
            lines.append(">" * shown + (" " if shown and bare else "") + bare)
        depth -= line.count(_QUOTE_OUT)
    return "\n".join(lines)
