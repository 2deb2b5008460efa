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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from postroom.limits import HTML_BYTES
from postroom.model.mail import Finding
from postroom.safety.css import Rule, StyleTooLarge, rules
from postroom.safety.css_values import media_holds
from postroom.safety.looks import Look, Looks
from postroom.safety.selectors import Element, Level, Match, Matcher
from postroom.safety.unicode import clean

_NODES: Final = 200_000
_LINKS: Final = 200
_NOT_SHOWN: Final = frozenset(
    ("script", "style", "head", "title", "noscript", "template", "svg", "math", "object", "embed", "iframe", "canvas", "audio",
     "video", "meta", "link", "input", "textarea", "select", "img", "datalist", "noframes", "noembed", "dialog", "progress",
     "meter", "map", "param", "base", "frame", "frameset", "rp")
)  # fmt: skip
_BEFORE: Final = dict.fromkeys(("br", "tr", "li", "div", "dt", "dd", "option"), "\n") | dict.fromkeys(
    ("p", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "section", "article", "header", "footer",
     "hr", "center", "dl", "form", "address", "fieldset", "main", "nav", "aside", "figure", "figcaption", "details", "summary"),
    "\n\n",
)  # fmt: skip
_AFTER: Final = {tag: "\n" for tag in _BEFORE if tag not in {"br", "hr"}}
_CARRIERS: Final = frozenset(("noscript", "template", "svg", "math", "object", "canvas", "noframes", "dialog"))
_QUOTE_IN, _QUOTE_OUT = "\x0e", "\x0f"
_QUOTE_DEPTH: Final = 10
_OPENING: Final = {"blockquote": _QUOTE_IN, "li": "- ", "td": " ", "th": " "}
_SPACES: Final = re.compile(r"[ \t\r\n\f\v]+")
_BEFORE_NEWLINE: Final = re.compile(r"[ \t]+\n")
_AFTER_NEWLINE: Final = re.compile(r"\n[ \t]+")
_NEWLINES: Final = re.compile(r"\n{3,}")
_BLANKS: Final = re.compile(r"[ \t]{2,}")
_MARKERS: Final = re.compile("[\x0e\x0f]")


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
    over = len(html) > HTML_BYTES
    tree = LexborHTMLParser(html[:HTML_BYTES] if over else html)
    walk = _Walk(tree)
    try:
        walk.run()
    except StyleTooLarge:
        over = True
    text = "" if walk.unjudged else _tidy("".join(walk.pieces))
    return Visible(text=text, removed=(*walk.removed, *(("limit",) if over else ())), links=tuple(walk.links))


@dataclass(frozen=True, slots=True)
class _Entered:
    """An element about to be walked into."""

    tag: str
    look: Look
    level: Level
    href: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """An open element, and how things stood outside it."""

    node: LexborNode
    look: Look
    level: Level
    tag: str
    start: int
    href: str


class _Walk:
    """One pass over the tree in document order, without recursion."""

    def __init__(self, tree: LexborHTMLParser) -> None:
        self._tree = tree
        self.pieces: list[str] = []
        self.removed: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.unjudged = True
        self._matches: dict[tuple[str, str | None, str | None], tuple[Match, ...]] = {}

    def run(self) -> None:
        sheets = _sheets(self._tree)
        self._matcher = Matcher(sheets)
        self._looks = Looks(sheets)
        self.unjudged = False
        node = self._tree.root
        if node is None:
            return
        look = Look()
        level = Level()
        frames: list[_Frame] = []
        for _ in range(_NODES):
            entered = self._visit(node, look, level)
            child = None if entered is None else node.child
            if entered is not None and child is not None:
                frames.append(_Frame(node, look, level, entered.tag, len(self.pieces), entered.href))
                look, level, node = entered.look, entered.level, child
                continue
            if entered is not None:
                self.pieces.append(_AFTER.get(entered.tag, ""))
            following = node.next
            while following is None:
                if not frames:
                    return
                frame = frames.pop()
                self._leave(frame)
                look, level, following = frame.look, frame.level, frame.node.next
            node = following
        raise StyleTooLarge

    def _visit(self, node: LexborNode, look: Look, level: Level) -> _Entered | None:
        """Take a node's own text or enter it; None when nothing in it is to be visited."""
        tag = node.tag or ""
        if tag == "-text":
            self._text(node.text_content or "", look)
            return None
        if not tag[:1].isalpha():
            return None
        level.index += 1
        if tag in _NOT_SHOWN:
            if tag in _CARRIERS and (node.text() or "").strip():
                self.removed.append(tag)
            return None
        attributes = {name: value or "" for name, value in node.attributes.items()}
        matches, below = self._match(tag, attributes, level)
        inside = self._looks.look(look, tag, attributes, matches) if attributes or matches else self._plain(look, tag)
        if isinstance(inside, str):
            if (node.text() or "").strip():
                self.removed.append(inside)
            return None
        self.pieces.append(_BEFORE.get(tag, ""))
        if tag in _OPENING:
            self.pieces.append(_OPENING[tag])
        return _Entered(tag, inside, below, attributes.get("href", "") if tag == "a" else "")

    def _match(self, tag: str, attributes: Mapping[str, str], level: Level) -> tuple[tuple[Match, ...], Level]:
        matcher = self._matcher
        if not matcher.simple:
            matches, completed = matcher.match(Element(tag, attributes, level.index), level)
            level.previous = completed
            level.before |= completed
            return matches, Level(level.above | completed, completed)
        key = (tag, attributes.get("class"), attributes.get("id"))
        found = self._matches.get(key)
        if found is None:
            found = self._matches[key] = matcher.match(Element(tag, attributes, 1), level)[0]
        return found, level

    def _plain(self, look: Look, tag: str) -> Look | str:
        return look if tag != "pre" else self._looks.look(look, tag, {}, ())

    def _text(self, text: str, look: Look) -> None:
        if look.unseen is not None and not text.isspace():
            if text:
                self.removed.append(look.unseen)
            return
        if _QUOTE_IN in text or _QUOTE_OUT in text:
            text = _MARKERS.sub("", text)
        self.pieces.append(text if look.keeps_spaces else _SPACES.sub(" ", text))

    def _leave(self, frame: _Frame) -> None:
        if frame.href and len(self.links) < _LINKS:
            text = " ".join("".join(self.pieces[frame.start :]).split())
            host = _host(frame.href)
            if text and host:
                self.links.append((clean(text)[0][:200], host))
        if frame.tag == "blockquote":
            self.pieces.append(_QUOTE_OUT)
        self.pieces.append(_AFTER.get(frame.tag, ""))


def _sheets(tree: LexborHTMLParser) -> list[Rule]:
    found: list[Rule] = []
    for node in tree.css("style"):
        attributes = node.attributes
        if media_holds(attributes.get("media") or "") and (attributes.get("type") or "text/css").strip().lower() == "text/css":
            found += rules(node.text() or "")
    return found


def _host(href: str) -> str:
    try:
        parts = urlsplit(href.strip())
        host = parts.hostname or (parts.path.partition("?")[0].rpartition("@")[2] if parts.scheme == "mailto" else "")
    except ValueError:
        return ""
    return clean(host[:253])[0]


def _tidy(text: str) -> str:
    """Blank lines and blanks in measure; what stood in a quote behind `> `."""
    text = text.replace("\xa0", " ")
    quotes = _QUOTE_IN in text
    text = _NEWLINES.sub("\n\n", _AFTER_NEWLINE.sub("\n", _BEFORE_NEWLINE.sub("\n", _BLANKS.sub(" ", text))))
    text = _quoted(text) if quotes else text
    return clean(text)[0].strip()


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
