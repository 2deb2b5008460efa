"""Style sheets and style attributes of a mail, read as far as hiding text goes.

Clean CSS, which is nearly all of it, is split by a few regular expressions; anything with escapes,
braces in strings or unbalanced brackets goes through tinycss2 and so means exactly what a browser
makes of it. Which selector matches which element is `safety.selectors`'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import tinycss2

from postroom.safety.css_values import media_holds

Declarations: TypeAlias = tuple[tuple[str, str, bool], ...]  # (property, value, important), lower-case
STYLE_BYTES: Final = 128 * 1024  # of CSS that needs the slow reader
_AT_RULE_DEPTH: Final = 8
RELEVANT: Final = frozenset(
    ("display", "visibility", "opacity", "font", "font-size", "color", "background", "background-color", "position", "left",
     "top", "right", "bottom", "inset", "overflow", "overflow-x", "overflow-y", "height", "width", "max-height", "max-width",
     "text-indent", "clip", "clip-path", "transform", "scale", "translate", "zoom", "filter", "mso-hide", "margin", "margin-left",
     "margin-top", "letter-spacing", "white-space", "z-index", "content-visibility", "-webkit-text-fill-color",
     "-webkit-transform", "-ms-transform", "-moz-transform", "-webkit-clip-path", "-ms-filter")
)  # fmt: skip
_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_STRING: Final = re.compile(r"\"[^\"\\\n{};]*\"|'[^'\\\n{};]*'")
_NOT_PLAIN: Final = re.compile(r"[\\\"']")
_URL: Final = re.compile(r"url\(\s*[^()\s{}]*\s*\)", re.IGNORECASE)
_PAIR: Final = re.compile(r"\([^()\[\]]*\)|\[[^()\[\]]*\]")
_DECLARATION: Final = re.compile(r"(?:[^;(]++|\((?:[^()]++|\([^()]*+\))*+\)|\()++")
_BRACE: Final = re.compile(r"[{}]")
_IMPORTANT: Final = re.compile(r"!\s*important\s*$")


class StyleTooLarge(Exception):
    """CSS that cannot be judged within the limits."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One style rule that may hide or show text. Not `certain`: it holds only under a condition we cannot judge."""

    selector: str
    declarations: Declarations
    certain: bool = True


def declarations(style: str) -> Declarations:
    """The relevant declarations of a style attribute or block; custom properties too."""
    style = _COMMENT.sub(" ", style) if "/*" in style else style
    if _is_plain(style):
        return tuple(_split(style))
    try:
        return tuple(_read(tinycss2.parse_blocks_contents(_bounded(style))))
    except RecursionError:
        raise StyleTooLarge from None


def rules(sheet: str) -> list[Rule]:
    """The relevant rules of a sheet that hold for our reader, in order. Raises `StyleTooLarge`."""
    sheet = _COMMENT.sub(" ", sheet) if "/*" in sheet else sheet
    sheet = sheet.replace("<!--", " ").replace("-->", " ")
    found = _fast_rules(sheet)
    if found is not None:
        return found
    try:
        nodes = tinycss2.parse_stylesheet(_bounded(sheet), skip_comments=True, skip_whitespace=True)
        return list(_slow_rules(nodes, 0))
    except RecursionError:
        raise StyleTooLarge from None


def _bounded(css: str) -> str:
    if len(css) > STYLE_BYTES:
        raise StyleTooLarge
    return css


def _is_plain(css: str) -> bool:
    """No escapes, no strings that hold syntax, and every bracket closed where it was opened."""
    if _NOT_PLAIN.search(css) and _NOT_PLAIN.search(_STRING.sub("", css)):
        return False
    if "(" not in css and ")" not in css and "[" not in css and "]" not in css and "{" not in css:
        return True
    rest = _URL.sub("", _STRING.sub("", css))
    for _ in range(4):
        rest = _PAIR.sub("", rest)
    return not set(rest) & set("()[]{}")


def _split(block: str) -> Iterator[tuple[str, str, bool]]:
    for piece in _DECLARATION.findall(block) if "(" in block else block.split(";"):
        name, colon, value = piece.partition(":")
        name = name.strip().lower()
        if colon and (name in RELEVANT or name.startswith("--")):
            value = value.strip().lower()
            important = _IMPORTANT.search(value) if "!" in value else None
            yield name, value[: important.start()].strip() if important else value, important is not None


def _read(nodes: Sequence[Any]) -> Iterator[tuple[str, str, bool]]:
    for node in nodes:
        if node.type == "declaration" and (node.lower_name in RELEVANT or node.lower_name.startswith("--")):
            yield node.lower_name, tinycss2.serialize(node.value).strip().lower(), bool(node.important)


def _fast_rules(sheet: str) -> list[Rule] | None:
    """Rules by braces alone; None as soon as something is not plain."""
    found: list[Rule] = []
    groups: list[_Group] = []
    position = 0
    prelude: str | None = None
    for brace in _BRACE.finditer(sheet):
        text = sheet[position : brace.start()].strip()
        position = brace.end()
        if not _is_plain(text) or (brace[0] == "{" and prelude is not None):
            return None
        if brace[0] == "{":
            text = text.rpartition(";")[2].strip()  # an @import or @charset before it
            group = _group(text)
            if group is None:
                prelude = text
            else:
                groups.append(group)
        elif prelude is not None:
            block = tuple(_split(text)) if all(group.holds for group in groups) and not prelude.startswith("@") else ()
            if block:
                found.append(Rule(prelude, block, all(group.certain for group in groups)))
            prelude = None
        elif groups:
            groups.pop()
        else:
            return None
    return None if groups or prelude is not None else found


def _slow_rules(nodes: Sequence[Any], depth: int, *, parent: str = "", certain: bool = True) -> Iterator[Rule]:
    if depth > _AT_RULE_DEPTH:
        raise StyleTooLarge
    for node in nodes:
        if node.type == "qualified-rule":
            selector = _nested(parent, tinycss2.serialize(node.prelude).strip())
            inner = tinycss2.parse_blocks_contents(node.content)
            if block := tuple(_read(inner)):
                yield Rule(selector, block, certain)
            yield from _slow_rules(inner, depth + 1, parent=selector, certain=certain)
        elif node.type == "at-rule" and node.content is not None:
            group = _group(f"@{node.lower_at_keyword} {tinycss2.serialize(node.prelude)}")
            if group is not None and group.holds:
                inner = tinycss2.parse_blocks_contents(node.content)
                if parent and (block := tuple(_read(inner))):
                    yield Rule(parent, block, certain and group.certain)
                yield from _slow_rules(inner, depth + 1, parent=parent, certain=certain and group.certain)


def _nested(parent: str, selector: str) -> str:
    if not parent:
        return selector
    return selector.replace("&", f":is({parent})") if "&" in selector else f":is({parent}) {selector}"


@dataclass(frozen=True, slots=True)
class _Group:
    """An at-rule around rules."""

    holds: bool
    certain: bool


def _group(head: str) -> _Group | None:
    """What an at-rule means for the rules in it; None when it holds no rules."""
    name, _, condition = head.lower().replace("(", " (", 1).partition(" ")
    match name:
        case "@media":
            return _Group(media_holds(condition), certain=True)
        case "@layer":
            return _Group(holds=True, certain=True)
        case "@supports" | "@container" | "@scope" | "@document" | "@-moz-document" | "@starting-style":
            return _Group(holds=True, certain=False)
    return None
