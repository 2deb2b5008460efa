"""Keep modules and functions small enough to read in one sitting.

Over the target is printed, over the hard bound fails: module 250 / 500 lines, function 25 / 60 lines,
nesting 3 / 5, positional parameters 6. An exception stands in EXCEPTIONS with its reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE, FUNCTION, NESTING, PARAMETERS = (250, 500), (25, 60), (3, 5), 6
EXCEPTIONS: dict[str, str] = {}
BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def depth(node: ast.AST, level: int = 0) -> int:
    """How deep blocks stand in blocks; an `elif` is not deeper than its `if`."""
    deepest = level
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            chained = isinstance(node, ast.If) and field == "orelse" and len(node.orelse) == 1 and isinstance(child, ast.If)
            deepest = max(deepest, depth(child, level + (isinstance(child, BLOCKS) and not chained)))
    return deepest


def measure(path: Path) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield `(what, kind, value, target, hard)` for each thing over its target."""
    text = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT))
    lines = text.count("\n")
    if lines > MODULE[0]:
        yield name, "lines", lines, *MODULE
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        where = f"{name}:{node.lineno} {node.name}"
        first = node.body[0]
        has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        start = (node.body[1].lineno if len(node.body) > 1 else node.end_lineno or 0) if has_docstring else first.lineno
        length = (node.end_lineno or 0) - start + 1
        if length > FUNCTION[0]:
            yield where, "lines in body", length, *FUNCTION
        if (nesting := depth(node)) > NESTING[0]:
            yield where, "nesting", nesting, *NESTING
        arguments = [*node.args.posonlyargs, *node.args.args]
        if (count := len([arg for arg in arguments if arg.arg not in ("self", "cls")])) > PARAMETERS:
            yield where, "positional parameters", count, PARAMETERS, PARAMETERS


def main() -> int:
    """Print what is over its target; 1 when anything is over its hard bound."""
    failed = False
    over = [row for path in sorted((ROOT / "src").rglob("*.py")) for row in measure(path)]
    for what, kind, value, target, hard in over:
        excused = EXCEPTIONS.get(what.split(" ")[0].split(":")[0], "")
        bad = value > hard and not excused
        failed |= bad
        if bad or "--all" in sys.argv:
            print(f"{'FAIL' if bad else 'note'} {what}: {value} {kind} (target {target}, hard {hard}) {excused}")
    print(f"sizes: {len(over)} over target, {'over a hard bound' if failed else 'none over a hard bound'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
