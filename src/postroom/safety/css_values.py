"""CSS values as numbers: colours and how far apart they look, lengths in pixels, and which media queries hold.

Judged for one reader: a desktop screen 1,024 pixels wide, light scheme, 16 pixel letters. A value that
cannot be worked out is None, never a guess.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from tinycss2 import color5

Colour: TypeAlias = tuple[float, float, float, float]  # red, green, blue, alpha, each 0 to 1
BLACK: Final[Colour] = (0.0, 0.0, 0.0, 1.0)
WHITE: Final[Colour] = (1.0, 1.0, 1.0, 1.0)
LINK: Final[Colour] = (0.0, 0.0, 0.93, 1.0)
VIEWPORT_PX: Final = 1024.0
LETTER_PX: Final = 16.0
_VALUE_CHARS: Final = 200
_PX: Final = {
    "": 1.0, "px": 1.0, "pt": 4 / 3, "pc": 16.0, "em": LETTER_PX, "rem": LETTER_PX, "ex": 8.0, "ch": 8.0, "%": 0.16,
    "vw": VIEWPORT_PX / 100, "vh": 7.68, "vmin": 7.68, "vmax": VIEWPORT_PX / 100, "cm": 37.8, "mm": 3.78, "q": 0.945, "in": 96.0,
}  # fmt: skip
_LENGTH: Final = re.compile(r"\s*([+-]?(?:\d{1,12}\.?\d{0,12}|\.\d{1,12})(?:e[+-]?\d{1,2})?)\s*([a-z]{1,4}|%)?(?![\w(])")
_MATH: Final = re.compile(r"(?:-webkit-|-moz-)?((?:calc|min|max|clamp)\(.*\))", re.DOTALL)
_MATH_NUMBER: Final = re.compile(r"(\d*\.?\d+)(px|pt|pc|r?em|ex|ch|%|v(?:w|h|min|max)|cm|mm|in|q)?(?![\w.])")
_OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COLOUR_LIKE: Final = re.compile(r"#[0-9a-f]{3,8}\b|[a-z-]+\([^()]*\)|[a-z]+")
_FEATURE: Final = re.compile(r"\(\s*([a-z-]+)\s*(?::\s*([^()]+?)\s*)?\)")


@lru_cache(maxsize=1024)
def colour(value: str) -> Colour | None:
    """A colour, or None for `inherit`, `currentcolor` and what is no colour."""
    if len(value) > _VALUE_CHARS:
        return None
    try:
        parsed = color5.parse_color(value)
        if parsed is None or isinstance(parsed, str):
            return None
        red, green, blue = _srgb(parsed)
        return red, green, blue, min(max(float(parsed.alpha), 0.0), 1.0)
    except (ValueError, TypeError, ArithmeticError, RecursionError, AttributeError):
        return None


def _srgb(parsed: color5.Color) -> Sequence[float]:
    """Red, green and blue; of the perceptual spaces only the lightness, as a grey."""
    space = str(parsed.space)
    if space in {"lab", "lch", "oklab", "oklch"}:
        light = float(parsed.coordinates[0] or 0.0) / (1.0 if space.startswith("ok") else 100.0)
        return (min(max(light, 0.0), 1.0),) * 3
    return [min(max(float(part or 0.0), 0.0), 1.0) for part in parsed.to("srgb").coordinates]


@lru_cache(maxsize=1024)
def background(value: str) -> Colour | bool | None:
    """The colour a background shorthand paints; False for a picture we do not see; None if it paints nothing."""
    lowered = value[:_VALUE_CHARS]
    without_pictures = re.sub(r"url\([^)]*\)", "", lowered)
    for candidate in _COLOUR_LIKE.findall(re.sub(r"[a-z-]*gradient\(", " ", without_pictures)):
        found = colour(candidate)
        if found is not None and found[3] > 0:
            return found
    return False if "url(" in lowered or "image-set(" in lowered else None


def over(front: Colour, back: Colour) -> Colour:
    """`front` painted on the opaque colour `back`."""
    alpha = front[3]
    red, green, blue = (alpha * one + (1 - alpha) * two for one, two in zip(front[:3], back[:3], strict=True))
    return red, green, blue, 1.0


def contrast(one: Colour, two: Colour) -> float:
    """The contrast ratio of two opaque colours, 1 (the same) to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(two)))
    return (high + 0.05) / (low + 0.05)


def _luminance(value: Colour) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in value[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def length(value: str) -> float | None:
    """A length in pixels; of several values the first. Percentages are of a letter's 16 pixels."""
    math = _MATH.match(value)
    if math:
        return _calculated(math[1])
    found = _LENGTH.match(value)
    if found is None or (found[2] or "") not in _PX:
        return None
    return float(found[1]) * _PX[found[2] or ""]


def _calculated(expression: str) -> float | None:
    if len(expression) > _VALUE_CHARS or "**" in expression:
        return None
    in_px = _MATH_NUMBER.sub(lambda found: repr(float(found[1]) * _PX[found[2] or ""]), expression)
    try:
        return _arithmetic(ast.parse(in_px.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _arithmetic(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=float() | int() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_arithmetic(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_arithmetic(left), _arithmetic(right))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments):
            values = [_arithmetic(argument) for argument in arguments]
            return {"min": min(values), "max": max(values), "clamp": sorted(values)[len(values) // 2]}.get(name, values[0])
    raise ValueError("not arithmetic")


def media_holds(query: str) -> bool:
    """Whether a media query list holds for our reader. What is not known does not hold, as in a browser."""
    return any(_query_holds(part.strip()) for part in query.lower().split(",")) or not query.strip()


def _query_holds(query: str) -> bool:
    negated = query.startswith("not ")
    query = query.removeprefix("not ").removeprefix("only ").strip()
    kind = re.match(r"[a-z]*", query)
    media_type = kind[0] if kind else ""
    holds = media_type in {"all", "screen", "", "and"} and all(_feature_holds(*found) for found in _FEATURE.findall(query))
    return holds is not negated


def _feature_holds(name: str, value: str) -> bool:
    wanted = length(value) if value else None
    match name:
        case "min-width" | "min-device-width":
            return wanted is not None and wanted <= VIEWPORT_PX
        case "max-width" | "max-device-width":
            return wanted is not None and wanted >= VIEWPORT_PX
        case "prefers-color-scheme":
            return value == "light"
        case "orientation":
            return value == "landscape"
        case "hover" | "any-hover" | "color" | "width" | "-webkit-min-device-pixel-ratio" | "min-resolution":
            return not value or value.strip() in {"hover", "0", "1", ".5", "0.5", "1dppx"}
    return False
