"""What takes a whole subtree of a mail out of sight: not displayed, no room, moved away, clipped, scaled to nothing.

Only the element's own declarations are looked at; what is inherited is judged in `looks`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from postroom.safety.css import RELEVANT
from postroom.safety.css_values import LETTER_PX, background, length

_FAINTEST: Final = 0.1
_FAR_PX: Final = 500.0
_NUMBERS: Final = re.compile(r"-?\d*\.?\d+")
_TRANSFORM: Final = re.compile(r"(translate|scale|rotate|matrix)([xyz]|3d)?\(([^()]*)\)")
_HIDING: Final = RELEVANT - {"color", "background-color", "background-image", "font-size", "opacity", "white-space", "visibility"}
_EDGES: Final = ("left", "top", "right", "bottom", "inset")


def reason_gone(values: Mapping[str, str]) -> str | None:
    """Why a subtree with these declarations is not displayed, or None."""
    if _HIDING.isdisjoint(values):
        return None
    if values.get("display", "").startswith("none") or values.get("content-visibility") == "hidden":
        return "display"
    if values.get("mso-hide") == "all":
        return "mso-hide"
    zoom = length(values.get("zoom", "1"))
    if zoom is not None and zoom <= (0.1 * 0.16 * 100 if values.get("zoom", "").endswith("%") else 0.1):
        return "zoom"
    return _too_small(values) or _moved(values) or _clipped(values)


def _too_small(values: Mapping[str, str]) -> str | None:
    cuts = any(
        values.get(name, "").startswith(("hidden", "clip", "auto", "scroll")) for name in ("overflow", "overflow-x", "overflow-y")
    )
    for name in ("max-height", "max-width", "height", "width", "line-height"):
        value = values.get(name)
        if value is not None and (cuts or name.startswith("max-")) and not (value.endswith("%") and not value.startswith("0")):
            px = length(value)
            if px is not None and px <= 2 and not (name == "line-height" and value[-1:].isdigit() and px > 0):
                return "size"
    spacing = length(values.get("letter-spacing", "0"))
    return "letter-spacing" if spacing is not None and spacing <= -LETTER_PX / 2 else None


def _moved(values: Mapping[str, str]) -> str | None:
    positioned = values.get("position") in {"absolute", "fixed", "relative"}
    if positioned and any(_far(values[name]) for name in _EDGES if name in values):
        return "off-screen"
    if any(_far(values[name]) for name in ("margin", "margin-left", "margin-top", "translate") if name in values):
        return "off-screen"
    if any(_far(values[name]) or values[name] == "100%" for name in ("text-indent", "padding-left") if name in values):
        return "text-indent"
    layer = length(values.get("z-index", "0"))
    return "behind" if positioned and layer is not None and layer < 0 else None


def _far(value: str) -> bool:
    for piece in value.replace(",", " ").split() if "(" not in value else [value]:
        px = length(piece)
        if px is None:
            continue
        if (piece.endswith("%") and px / 0.16 <= -100) or px <= -_FAR_PX or px >= 10 * _FAR_PX:
            return True
    return False


def _clipped(values: Mapping[str, str]) -> str | None:
    clip = values.get("clip", "")
    if clip.startswith("rect("):
        sides = _NUMBERS.findall(clip)
        if len(sides) == 4 and "auto" not in clip:
            top, right, bottom, left = map(float, sides)
            if bottom - top <= 2 or right - left <= 2:
                return "clip"
    if _is_clipped(values.get("clip-path", "")):
        return "clip"
    mask = background(values.get("mask-image", "none"))
    if "transparent" in values.get("mask-image", "") and mask is None:
        return "mask"
    scale = _NUMBERS.findall(values.get("scale", ""))
    if (scale and float(scale[0]) < _FAINTEST) or any(
        _vanishes(*found) for found in _TRANSFORM.findall(values.get("transform", ""))
    ):
        return "transform"
    return None


def _is_clipped(path: str) -> bool:
    shape, _, rest = path.partition("(")
    numbers = [float(number) for number in _NUMBERS.findall(rest)]
    match shape:
        case "inset":
            return bool(numbers) and "%" in rest and (max(numbers) >= 50 if len(numbers) == 1 else max(numbers) >= 95)
        case "circle" | "ellipse":
            return bool(numbers) and numbers[0] <= 1
        case "polygon":
            return bool(numbers) and max(numbers) - min(numbers) <= 1
    return False


def _vanishes(function: str, axis: str, arguments: str) -> bool:
    numbers = [float(number) for number in _NUMBERS.findall(arguments)]
    match function:
        case "translate":
            return _far(arguments)
        case "scale":
            return bool(numbers) and min(map(abs, numbers[:2])) < _FAINTEST / 2
        case "rotate":
            return axis in {"x", "y"} and "deg" in arguments and bool(numbers) and abs(numbers[0]) % 180 == 90
        case _:
            return len(numbers) >= 6 and abs(numbers[0] * numbers[3] - numbers[1] * numbers[2]) < 0.01
