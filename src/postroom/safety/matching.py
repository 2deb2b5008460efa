"""Which style rules match which element of a mail, in time linear in elements times candidates.

Selectors are run forwards during one walk over the tree: each element remembers which beginnings of
which selectors it completed, so a descendant combinator never searches. (Matching backwards, as
libraries do, takes minutes on a mail made for it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from postroom.safety.css import Rule, StyleTooLarge
from postroom.safety.selectors import Compound, Element, Match, read_selectors

_SELECTORS: Final = 20_000
_RULES_AN_ELEMENT: Final = 500
_CHECKS: Final = 1_000_000  # candidate compounds tried per mail
_NOTHING: Final[frozenset[int]] = frozenset()


@dataclass(slots=True)
class Level:
    """What is known at one level of the walk: steps completed above, by the parent, and by siblings so far."""

    above: frozenset[int] = _NOTHING
    parent: frozenset[int] = _NOTHING
    before: frozenset[int] = _NOTHING
    previous: frozenset[int] = _NOTHING
    index: int = 0

    def descend(self, completed: frozenset[int]) -> Level:
        """The level of the children of the element that completed these steps; it is now the previous sibling here."""
        self.previous = completed
        self.before |= completed
        return Level(self.above | completed if completed else self.above, completed)


class Matcher:
    """The rules of a mail, asked element by element in document order.

    `counts_siblings`: some rule asks for siblings or places among them, so no two elements stand alike.
    Else elements in one place are alike whose tag, class, id and `asked` attributes are the same.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._index: dict[str, list[Compound]] = {}
        self._simple: dict[tuple[str, str | None, str | None], tuple[Match, ...]] = {}
        self._tried: dict[tuple[str, str | None, str | None], tuple[Compound, ...]] = {}
        self._checks = 0
        self._steps = 0
        self._selectors = 0
        self.counts_siblings = False
        self.asked: dict[str, bool] = {}  # attributes by name: does their value matter, or only that they are there
        for number, rule in enumerate(rules):
            for row in read_selectors(rule.selector):
                self._add_row(row, number, certain=rule.certain)

    def _add_row(self, row: list[Compound], rule: int, *, certain: bool) -> None:
        self._selectors += 1
        if self._selectors > _SELECTORS:
            raise StyleTooLarge
        if any(compound.never for compound in row):
            return
        total = sum(compound.specificity for compound in row)
        certain = certain and all(compound.certain for compound in row)
        for place, compound in enumerate(row):
            compound.after = row[place - 1].step if place else -1
            if place + 1 < len(row):
                compound.step = self._steps
                self._steps += 1
            else:
                compound.match = Match(total, rule, certain)
            if compound.combinator in {"+", "~"} or compound.nth is not None:
                self.counts_siblings = True
            for name, operator in compound.asked():
                self.asked[name] = self.asked.get(name, False) or bool(operator)
            self._index.setdefault(_key(compound), []).append(compound)

    def match(self, tag: str, attributes: Mapping[str, str | None], level: Level) -> tuple[tuple[Match, ...], frozenset[int]]:
        """The rules that apply to an element and the steps it completed; `level` is that of its siblings."""
        key = (tag, attributes.get("class"), attributes.get("id"))
        known = self._simple.get(key)
        if known is not None:
            return known, _NOTHING
        element = Element(tag, attributes, level.index)
        candidates = self._tried.get(key)
        if candidates is None:
            candidates = self._tried[key] = tuple(self._candidates(element))
            if all(compound.simple for compound in candidates):
                self._simple[key] = _matched(candidates, element, level)[0]
        self._checks += len(candidates)
        if self._checks > _CHECKS:
            raise StyleTooLarge
        return _matched(candidates, element, level)

    def _candidates(self, element: Element) -> list[Compound]:
        index = self._index
        candidates = list(index.get("*", ()))
        keys = [element.tag]
        keys += ["." + name for name in dict.fromkeys(element.text("class").split())]
        keys.append("#" + element.text("id"))
        for key in keys:
            candidates += index.get(key, ())
        return candidates


def _matched(candidates: Iterable[Compound], element: Element, level: Level) -> tuple[tuple[Match, ...], frozenset[int]]:
    found: list[Match] = []
    completed: set[int] = set()
    for compound in candidates:
        if compound.after >= 0 and compound.after not in _reachable(compound.combinator, level):
            continue
        if not compound.fits(element):
            continue
        if compound.match is None:
            completed.add(compound.step)
        else:
            found.append(compound.match)
    if len(found) > _RULES_AN_ELEMENT:
        raise StyleTooLarge
    return tuple(found), frozenset(completed) if completed else _NOTHING


def _key(compound: Compound) -> str:
    if compound.id:
        return "#" + compound.id
    if compound.classes:
        return "." + compound.classes[0]
    return compound.tag or "*"


def _reachable(combinator: str, level: Level) -> frozenset[int]:
    match combinator:
        case ">":
            return level.parent
        case "+":
            return level.previous
        case "~":
            return level.before
    return level.above
