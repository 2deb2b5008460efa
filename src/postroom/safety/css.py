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
    ("display", "visibility", "opacity", "font-size", "color", "background-color", "background-image", "position", "left", "top",
     "right", "bottom", "inset", "overflow", "overflow-x", "overflow-y", "height", "width", "max-height", "max-width", "line-height",
     "text-indent", "clip", "clip-path", "transform", "scale", "translate", "zoom", "filter", "mso-hide", "margin", "margin-left",
     "margin-top", "padding-left", "letter-spacing", "white-space", "z-index", "content-visibility", "mask-image",
     "-webkit-text-fill-color")
)  # fmt: skip
# Shorthands stand for their part that matters, so that the later of the two wins; old and logical names for the plain ones.
_ALIASES: Final = {
    "background": "background-color", "font": "font-size", "mask": "mask-image", "-webkit-mask": "mask-image",
    "-webkit-mask-image": "mask-image", "-webkit-transform": "transform", "-ms-transform": "transform", "-moz-transform": "transform",
    "-webkit-clip-path": "clip-path", "-ms-filter": "filter", "-webkit-filter": "filter", "block-size": "height",
    "inline-size": "width", "max-block-size": "max-height", "max-inline-size": "max-width", "inset-inline-start": "left",
    "inset-block-start": "top", "inset-inline": "inset", "inset-block": "inset", "margin-inline-start": "margin-left",
    "margin-inline": "margin", "margin-block": "margin", "margin-block-start": "margin-top", "padding-inline-start": "padding-left",
}  # fmt: skip
_FONT_SIZE: Final = re.compile(
    r"(?<![\w.#-])(\d*\.?\d+(?:px|pt|pc|r?em|ex|ch|%|vw|vh|cm|mm|in)?|(?:calc|min|max|clamp)\([^;]*\))(?=\s*/|\s+[a-z\"'-]|$)"
)
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
        if colon and (known := _known(name.strip().lower())):
            value = value.strip().lower()
            important = _IMPORTANT.search(value) if "!" in value else None
            value = value[: important.start()].strip() if important else value
            yield known, _part(name, value), important is not None


def _read(nodes: Sequence[Any]) -> Iterator[tuple[str, str, bool]]:
    for node in nodes:
        if node.type == "declaration" and (known := _known(node.lower_name)):
            yield known, _part(node.lower_name, tinycss2.serialize(node.value).strip().lower()), bool(node.important)


def _known(name: str) -> str | None:
    name = _ALIASES.get(name, name)
    return name if name in RELEVANT or name.startswith("--") else None


def _part(name: str, value: str) -> str:
    """The part of a shorthand that matters."""
    if name.strip().lower() != "font":
        return value
    size = _FONT_SIZE.search(value)
    return size[1] if size else "inherit"


def _fast_rules(sheet: str) -> list[Rule] | None:
    """Rules by braces alone; None as soon as something is not plain."""
    found: dict[tuple[str, str, bool], Rule] = {}  # of equal rules the last stands for all: it wins wherever they apply
    plain: set[str] = set()
    groups: list[_Group] = []
    position = 0
    prelude: str | None = None
    for brace in _BRACE.finditer(sheet):
        text = sheet[position : brace.start()].strip()
        position = brace.end()
        if (text not in plain and not _is_plain(text)) or (brace[0] == "{" and prelude is not None):
            return None
        plain.add(text)
        if brace[0] == "{":
            text = text.rpartition(";")[2].strip()  # an @import or @charset before it
            group = _group(text)
            if group is None:
                prelude = text
            else:
                groups.append(group)
        elif prelude is not None:
            if all(group.holds for group in groups) and not prelude.startswith("@"):
                key = (prelude, text, all(group.certain for group in groups))
                known = found.pop(key, None)
                block = known.declarations if known else tuple(_split(text))
                if block:
                    found[key] = known or Rule(prelude, block, key[2])
            prelude = None
        elif groups:
            groups.pop()
        else:
            return None
    return None if groups or prelude is not None else list(found.values())


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
