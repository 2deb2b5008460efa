"""`make bench`: every figure beside its reference, measured in the same run, as one table.

Each module here offers `rows()`: dictionaries with `name`, `value`, `unit`, `reference`,
`reference_value` and `ratio` (value / reference, so above 1 is more). `--json` prints them as JSON lines.
Name modules to run only those: `python benchmarks/run.py smtp search`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

MODULES = ["start", "smtp", "parse", "redact", "search", "reader", "between_agents", "sessions"]


def show(row: dict[str, Any]) -> str:
    """One line of the table."""
    reference = "" if row.get("reference_value") is None else f"{number(row['reference_value'])} {row['unit']}"
    ratio = "" if row.get("ratio") is None else f"{row['ratio']:.2f}"
    return f"| {row['name']} | {number(row['value'])} {row['unit']} | {row.get('reference', '')} | {reference} | {ratio} |"


def number(value: float) -> str:
    """Three figures are enough."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> int:
    """Run and print; a module that cannot run says why and the others go on."""
    sys.path.insert(0, str(Path(__file__).parent))
    as_json = "--json" in sys.argv
    wanted = [name for name in sys.argv[1:] if not name.startswith("-")] or MODULES
    failed = 0
    if not as_json:
        print("| what | postroom | reference | its figure | ratio |\n|---|---|---|---|---|", flush=True)
    for name in wanted:
        try:
            for row in importlib.import_module(name).rows():
                print(json.dumps(row) if as_json else show(row), flush=True)
        except Exception as problem:
            failed = 1
            print(f"{name}: {type(problem).__name__}: {problem}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
