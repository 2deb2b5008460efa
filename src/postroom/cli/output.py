"""How commands print: JSON for programs, aligned text for people, untrusted text without control characters."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from postroom.safety.unicode import clean, one_line

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_CELL = 60


def say_json(value: Any) -> None:
    """One JSON document. ASCII only, so that no terminal is driven by what a stranger wrote."""
    print(json.dumps(value, indent=2))


def line(value: Any, limit: int = 500) -> str:
    """A value on one line, safe for a terminal."""
    return one_line(str(value), limit)


def address_first(entry: str) -> str:
    """`ada@example.org (Ada)` of `Ada <ada@example.org>`: a name can say anything, the address decides."""
    name, bracket, address = entry.rstrip().rpartition("<")
    if not bracket or not address.endswith(">"):
        return entry
    return f"{address[:-1]} ({name.strip()})" if name.strip() else address[:-1]


def block(text: str) -> str:
    """Many lines, safe for a terminal, each set off so that none can pose as ours."""
    return "\n".join(f"  │ {row}" for row in clean(text)[0].expandtabs(8).split("\n"))


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows under their heads, columns aligned by what a terminal shows."""
    cells = [[head.upper() for head in heads], *[[line(value, _CELL) for value in row] for row in rows]]
    widths = [max(_width(row[column]) for row in cells) for column in range(len(heads))]
    for row in cells:
        print("  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)).rstrip())


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1 for char in text)
