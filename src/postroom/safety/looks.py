"""How text at one place of a mail looks: whether a person could see it, and if not, why.

What hides a whole subtree (`display`, clipping, off-screen) is told from what is inherited and may be
undone further in (`visibility`, `font-size`, colours): only the latter are judged where the text stands.
Elements that are styled alike share one judgement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from postroom.safety.css import Declarations, Rule, declarations
from postroom.safety.css_values import BLACK, LETTER_PX, LINK, WHITE, Colour, background, colour, contrast, length, over
from postroom.safety.hiding import reason_gone
from postroom.safety.matching import Level, Matcher
from postroom.safety.selectors import Match

_SMALLEST_PX: Final = 3.0
_FAINTEST: Final = 0.1
_LOWEST_CONTRAST: Final = 1.2
_VAR: Final = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,\s*([^()]*(?:\([^()]*\)[^()]*)*))?\)")
_FILTER: Final = re.compile(r"opacity\s*[(=]\s*(\d*\.?\d+)(%?)")
_KEEPS_SPACES: Final = frozenset(("pre", "xmp", "listing", "plaintext"))
_STYLED_TAGS: Final = _KEEPS_SPACES | {"a", "font", "body"}
_STYLING_ATTRIBUTES: Final = frozenset(("hidden", "aria-hidden", "bgcolor", "background"))
_FLAGS: Final = ("hidden", "href")  # attributes that matter by being there
_JUDGED: Final = frozenset(("class", "id", "style", "bgcolor", "background", "color", "text", "aria-hidden"))


@dataclass(frozen=True, slots=True)
class Look:
    """The look of text at one place. `unseen` says why a person could not see it there, or is None."""

    unseen: str | None = None
    font_px: float = LETTER_PX
    shown: bool = True
    front: Colour = BLACK
    back: Colour | None = WHITE  # None: a picture we do not see
    opacity: float = 1.0
    keeps_spaces: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """What one element changes of the look around it. `gone`: the whole subtree is not displayed."""

    gone: str | None = None
    font: tuple[Literal["px", "em", "rem"], float] | None = None
    shown: bool | None = None
    front: Colour | None = None
    back: Colour | bool | None = None
    opacity: float = 1.0
    keeps_spaces: bool | None = None


_START: Final = Look()
_NO_CHANGE: Final = _Change()


@dataclass(frozen=True, slots=True)
class Inside:
    """What holds inside one open element: the look of its text, and what its children's selectors need."""

    look: Look
    level: Level


class Judge:
    """Judges one mail's elements in document order; elements with the same attributes are judged once."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._matcher = Matcher(rules)
        asked = self._matcher.asked
        self._by_value = _JUDGED.union(name for name, by_value in asked.items() if by_value)
        self._matters = self._by_value.union(_FLAGS, asked)
        self._variables = {name: value for rule in rules for name, value, _ in rule.declarations if name.startswith("--")}
        self._inline: dict[str, Declarations] = {}
        self._changes: dict[tuple[str, Declarations, tuple[Match, ...]], _Change] = {}
        self._root_px = LETTER_PX
        self._start = Inside(_START, Level())
        self._insides: dict[tuple[int, int, frozenset[int]], Inside] = {}
        self._known: dict[tuple[object, ...], Inside | str] = {}

    def start(self) -> Inside:
        """Where the document begins: black on white."""
        return self._start

    def enter(self, around: Inside, tag: str, attributes: Mapping[str, str | None]) -> Inside | str:
        """What holds inside an element, or why it is not displayed at all."""
        if self._matcher.counts_siblings:
            around.level.index += 1
            return self._judged(around, tag, attributes)
        # Objects named by their id live as long as this one.
        key: tuple[object, ...] = (id(around), tag)
        if attributes:
            by_value, matters = self._by_value, self._matters
            key += (*[(name, value) if name in by_value else name for name, value in attributes.items() if name in matters],)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._judged(around, tag, attributes)
        return known

    def _judged(self, around: Inside, tag: str, attributes: Mapping[str, str | None]) -> Inside | str:
        matches, completed = self._matcher.match(tag, attributes, around.level)
        style = attributes.get("style") or ""
        key = (style, _presentation(tag, attributes), matches)
        change = self._changes.get(key)
        if change is None:
            change = self._changes[key] = _change(self._cascade(key[1], matches, style))
        if change.gone is not None:
            return change.gone
        place = (id(around), id(change), completed)
        inside = None if self._matcher.counts_siblings else self._insides.get(place)
        if inside is None:
            inside = Inside(_inside(around.look, change, self._root_px), around.level.descend(completed))
            self._insides[place] = inside
        if tag == "html":
            self._root_px = inside.look.font_px
        return inside

    def _cascade(self, own: Declarations, matches: Sequence[Match], style: str) -> dict[str, str]:
        """The winning value of each property: presentation, sheets, style attribute; then what is important."""
        layers: list[tuple[Declarations, bool]] = [(own, True)]
        layers += [(self._rules[match.rule].declarations, match.certain) for match in sorted(matches, key=_weight)]
        if style:
            inline = self._inline.get(style)
            if inline is None:
                inline = self._inline[style] = declarations(style)
            layers.append((inline, True))
        values: dict[str, str] = {}
        for important in (False, True):
            for block, certain in layers:
                for name, value, is_important in block:
                    if is_important is important:
                        resolved = self._resolved(value)
                        if certain or _only_hides(name, resolved):
                            values[name] = resolved
        return values

    def _resolved(self, value: str) -> str:
        for _ in range(4):
            if "var(" not in value or len(value) > 500:
                return value
            value = _VAR.sub(lambda found: self._variables.get(found[1]) or found[2] or "", value)
        return value


def _weight(match: Match) -> tuple[int, int]:
    return match.specificity, match.rule


def _presentation(tag: str, attributes: Mapping[str, str | None]) -> Declarations:
    """Old attributes as the declarations they stand for, and the default looks of links and of text kept as it is."""
    if tag not in _STYLED_TAGS and _STYLING_ATTRIBUTES.isdisjoint(attributes):
        return ()
    found: list[tuple[str, str, bool]] = []
    if tag in _KEEPS_SPACES:
        found.append(("white-space", "pre", False))
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        found.append(("display", "none", True))
    if bgcolor := attributes.get("bgcolor"):
        found.append(("background-color", bgcolor.strip().lower(), False))
    if attributes.get("background"):
        found.append(("background-image", "url()", False))
    front = attributes.get("color") if tag == "font" else attributes.get("text") if tag == "body" else None
    if front:
        found.append(("color", front.strip().lower(), False))
    if tag == "a" and "href" in attributes:
        found.append(("color", "-link", False))
    return tuple(found)


def _only_hides(name: str, value: str) -> bool:
    """Whether a declaration that may not hold should count all the same: only if it takes text away."""
    change = _change({name: value, "position": "absolute", "overflow": "hidden"} if name not in {"position", "overflow"} else {})
    small = change.font is not None and change.font[1] * (1.0 if change.font[0] == "px" else LETTER_PX) <= _SMALLEST_PX
    faint = change.front is not None and change.front[3] <= _FAINTEST
    return change.gone is not None or change.shown is False or small or faint


def _change(values: Mapping[str, str]) -> _Change:
    if not values:
        return _Change()
    front = values.get("-webkit-text-fill-color")
    if front in {None, "currentcolor", "inherit"}:
        front = values.get("color")
    back = background(values.get("background-color", "none"))
    if back is None:
        back = background(values.get("background-image", "none"))
    visibility = values.get("visibility")
    space = values.get("white-space")
    return _Change(
        gone=reason_gone(values),
        font=_font(values),
        shown=None if visibility in {None, "inherit"} else visibility not in {"hidden", "collapse"},
        front=LINK if front == "-link" else _colour(front) if front else None,
        back=back,
        opacity=_opacity(values),
        keeps_spaces=None if space is None else space.startswith("pre"),
    )


def _colour(value: str) -> Colour | None:
    """A colour; of the old `color=` attribute also six digits without their #."""
    return colour(value) or (colour(f"#{value}") if re.fullmatch(r"[0-9a-f]{6}", value) else None)


def _font(values: Mapping[str, str]) -> tuple[Literal["px", "em", "rem"], float] | None:
    size = values.get("font-size")
    px = length(size) if size else None
    if size is None or px is None:
        return None if size in {None, "inherit", "unset", "smaller", "larger"} else ("px", LETTER_PX)
    if size.endswith("rem"):
        return "rem", px / LETTER_PX
    return ("em", px / LETTER_PX) if size.endswith(("em", "%", "ex", "ch")) else ("px", px)


def _opacity(values: Mapping[str, str]) -> float:
    value = values.get("opacity", "1")
    found = length(value)
    opacity = 1.0 if found is None else found / 0.16 / 100 if value.endswith("%") else found
    for number, percent in _FILTER.findall(values.get("filter", "")):
        opacity *= float(number) / (100 if percent or "=" in values["filter"] else 1)
    return min(max(opacity, 0.0), 1.0)


def _inside(around: Look, change: _Change, root_px: float) -> Look:
    if change == _NO_CHANGE:
        return around
    font = around.font_px
    if change.font is not None:
        unit, size = change.font
        font = size * {"px": 1.0, "em": around.font_px, "rem": root_px}[unit]
    back = around.back
    if change.back is False:
        back = None
    elif isinstance(change.back, tuple):
        back = over(change.back, around.back or WHITE)
    front = change.front or around.front
    shown = around.shown if change.shown is None else change.shown
    opacity = around.opacity * change.opacity
    keeps = around.keeps_spaces if change.keeps_spaces is None else change.keeps_spaces
    return Look(_unseen(font, opacity, front, back, shown=shown), font, shown, front, back, opacity, keeps)


def _unseen(font: float, opacity: float, front: Colour, back: Colour | None, *, shown: bool) -> str | None:
    if not shown:
        return "visibility"
    if font <= _SMALLEST_PX:
        return "font-size"
    if opacity <= _FAINTEST:
        return "opacity"
    hidden = front[3] <= _FAINTEST if back is None else contrast(over(front, back), back) < _LOWEST_CONTRAST
    return "contrast" if hidden else None
