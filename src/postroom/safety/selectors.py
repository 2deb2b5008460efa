"""CSS selectors read, and asked of one element at a time.

A selector that asks for something not judged here, such as `:has()`, fits as far as it is known and
is marked uncertain: it may hide, never show. How compounds combine is `matching`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_IDENT: Final = r"(?:[\w-]|[^\x00-\x7f]|\\[0-9a-fA-F]{1,6}\s?|\\[^\n0-9a-fA-F])+"
_ARGUMENT: Final = r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
_TOKEN: Final = re.compile(
    rf"(?P<combinator>\s*[>+~,]\s*|\s+)|(?P<tag>\*|{_IDENT})|\.(?P<class>{_IDENT})|\#(?P<id>{_IDENT})"
    rf"|\[\s*(?P<attribute>{_IDENT})\s*(?:(?P<operator>[~|^$*]?=)\s*(?P<value>\"[^\"]*\"|'[^']*'|[^\]\s]+)\s*(?:[isIS]\s*)?)?\]"
    rf"|(?P<colons>::?)(?P<pseudo>{_IDENT})(?:{_ARGUMENT})?"
)
_ESCAPE: Final = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_NTH: Final = re.compile(r"\s*(?:([+-]?\d{0,6})n\s*(?:([+-])\s*(\d{1,6}))?|([+-]?\d{1,6}))\s*")
_STATES: Final = frozenset(
    ("hover", "focus", "active", "visited", "target", "checked", "focus-within", "focus-visible", "disabled", "before", "after",
     "first-line", "first-letter", "placeholder-shown", "fullscreen", "popover-open", "default", "invalid", "autofill")
)  # fmt: skip


@dataclass(slots=True)
class Element:
    """What a selector may ask of an element. `index` is its place among its sibling elements, from 1."""

    tag: str
    attributes: Mapping[str, str | None]
    index: int

    def text(self, name: str) -> str:
        """An attribute in lower case; empty when it is missing or has no value."""
        return (self.attributes.get(name) or "").lower()


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A rule that applies, with its weight in the cascade. One object for each selector: compared by identity."""

    specificity: int
    rule: int
    certain: bool


@dataclass(slots=True)
class Compound:
    """One compound selector. `step` numbers the beginning of a selector it completes; -1: the whole."""

    tag: str = ""
    id: str = ""
    classes: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    any_of: list[list[Compound]] = field(default_factory=list)
    none_of: list[Compound] = field(default_factory=list)
    nth: tuple[int, int] | None = None
    combinator: str = ""
    after: int = -1
    step: int = -1
    specificity: int = 0
    match: Match | None = None
    certain: bool = True
    never: bool = False

    @property
    def simple(self) -> bool:
        """Whether tag, class and id alone decide."""
        return not (self.attributes or self.any_of or self.none_of or self.nth or self.combinator or self.step >= 0)

    def asked(self) -> Iterator[tuple[str, str]]:
        """The attributes it looks at beside class and id, each with how."""
        yield from ((name, operator) for name, operator, _ in self.attributes)
        for inner in (*(one for group in self.any_of for one in group), *self.none_of):
            yield from inner.asked()

    def fits(self, element: Element) -> bool:
        """Whether the element satisfies this compound alone."""
        if self.never or (self.tag and self.tag != element.tag) or (self.id and self.id != element.text("id")):
            return False
        if self.classes and not set(self.classes).issubset(element.text("class").split()):
            return False
        if self.nth and not _is_nth(*self.nth, element.index):
            return False
        for name, operator, wanted in self.attributes:
            if not _has(element, name, operator, wanted):
                return False
        for group in self.any_of:
            if not any(one.fits(element) for one in group):
                return False
        return not (self.none_of and any(one.fits(element) for one in self.none_of))


def _is_nth(step: int, offset: int, index: int) -> bool:
    return index == offset if step == 0 else (index - offset) % abs(step) == 0 and (index - offset) // step >= 0


def _has(element: Element, name: str, operator: str, wanted: str) -> bool:
    if name not in element.attributes or not operator:
        return name in element.attributes
    value = element.text(name)
    match operator:
        case "~=":
            return wanted in value.split()
        case "|=":
            return value == wanted or value.startswith(wanted + "-")
        case "^=":
            return bool(wanted) and value.startswith(wanted)
        case "$=":
            return bool(wanted) and value.endswith(wanted)
        case "*=":
            return bool(wanted) and wanted in value
    return value == wanted


def read_selectors(text: str) -> list[list[Compound]]:
    """The complex selectors of a list, each a row of compounds; what cannot be read matches nothing."""
    rows: list[list[Compound]] = [[Compound()]]
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            rows[-1][-1].never = True
            position += 1
            continue
        position = found.end()
        combinator = found["combinator"]
        if combinator is None:
            _add(rows[-1][-1], found)
        elif combinator.strip() == ",":
            rows.append([Compound()])
        else:
            rows[-1].append(Compound(combinator=combinator.strip() or " "))
    return rows


def _add(compound: Compound, found: re.Match[str]) -> None:
    if found["tag"]:
        compound.tag = "" if found["tag"] == "*" else _plain(found["tag"])
        compound.specificity += 1 if compound.tag else 0
    elif found["class"]:
        compound.classes.append(_plain(found["class"]))
        compound.specificity += 1000
    elif found["id"]:
        compound.id = _plain(found["id"])
        compound.specificity += 1_000_000
    elif found["attribute"]:
        value = (found["value"] or "").strip("\"'")
        compound.attributes.append((_plain(found["attribute"]), found["operator"] or "", _plain(value)))
        compound.specificity += 1000
    else:
        _add_pseudo(compound, found["pseudo"].lower(), found[0].partition("(")[2][:-1], element=found["colons"] == "::")


def _plain(name: str) -> str:
    if "\\" in name:
        name = _ESCAPE.sub(lambda found: chr(min(int(found[1], 16), 0x10FFFF)) if found[1] else found[2], name)
    return name.lower()


def _add_pseudo(compound: Compound, name: str, argument: str, *, element: bool) -> None:
    compound.specificity += 0 if name == "where" else 1000
    if element or name in _STATES:
        compound.never = True
    elif name in {"is", "where", "matches", "not", "-webkit-any", "-moz-any"}:
        rows = read_selectors(argument)
        compound.certain = compound.certain and all(len(row) == 1 for row in rows)
        if name == "not":
            compound.none_of += [row[0] for row in rows if len(row) == 1]
        else:
            compound.any_of.append([row[-1] for row in rows])
    elif name in {"link", "any-link"}:
        compound.attributes.append(("href", "", ""))
    elif name == "root":
        compound.tag = "html"
    elif name in {"first-child", "nth-child"} and (nth := _NTH.fullmatch(_keyword(argument) or "1")):
        compound.nth = (0, int(nth[4])) if nth[4] else (int(nth[1] + "1" if nth[1] in {"", "+", "-"} else nth[1]), _offset(nth))
    else:
        compound.certain = False


def _keyword(argument: str) -> str:
    return {"odd": "2n+1", "even": "2n"}.get(argument.strip().lower(), argument.strip().lower())


def _offset(nth: re.Match[str]) -> int:
    return int((nth[2] or "") + (nth[3] or "0"))
