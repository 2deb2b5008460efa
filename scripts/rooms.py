"""The import table as data: what each room may import. Written out as `.importlinter` forbidden lists.

`python scripts/rooms.py` rewrites `.importlinter`; `--check` fails when the file is stale. The table is
the one in ARCHITECTURE.md; import-linter enforces it.
"""

from __future__ import annotations

import sys
from pathlib import Path

KERNEL = ["errors", "ids", "clock", "limits", "config"]
JOBS = ["office", "hosted", "gate", "mailbox", "reader", "sessions"]

# room: rooms (or submodules) it may import besides itself and the kernel
MAY: dict[str, list[str]] = {
    "model": [],
    "mime": ["model"],
    "policy": ["model"],
    "ledger": ["model"],
    "safety": ["model", "mime.charset", "mime.addresses"],
    "store": ["model", "ledger"],
    "wires": ["model", "mime.addresses"],
    "access": ["model", "store"],
    "office": ["model", "mime", "safety", "policy", "store", "wires"],
    "hosted": ["model", "mime", "safety", "policy", "store", "wires"],
    "gate": ["model", "mime", "safety", "policy", "ledger", "store"],
    "mailbox": ["model", "safety", "policy", "ledger", "store"],
    "reader": ["model", "mime", "safety", "store", "wires"],
    "sessions": ["model", "safety", "store", "wires"],
    "tools": ["model", "safety", "gate", "mailbox", "reader"],
    "interfaces": ["model", "access", "tools", *[job for job in JOBS if job != "hosted"]],
}
OUTER = ["interfaces", "client", "cli", "demo", "app", "testing"]


def forbidden(room: str, present: list[str]) -> list[str]:
    """Modules `room` must not import."""
    may = MAY[room]
    out = []
    for other in [*MAY, *OUTER]:
        if other == room or other in may or other not in present or (other in OUTER and other == "interfaces" == room):
            continue
        if any(entry.startswith(other + ".") for entry in may):
            allowed = {entry.split(".")[1] for entry in may if entry.startswith(other + ".")}
            parts = sorted(path.stem for path in (ROOT / "src/postroom" / other).glob("*.py") if path.stem != "__init__")
            out += [f"{other}.{part}" for part in parts if part not in allowed]
            continue
        out.append(other)
    return sorted(set(out))


ROOT = Path(__file__).resolve().parent.parent


def render() -> str:
    """The text of `.importlinter`."""
    source = ROOT / "src/postroom"
    present = [path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    lines = [
        "# Written by scripts/rooms.py from the table there; do not edit by hand.",
        "[importlinter]",
        "root_package = postroom",
        "",
        "[importlinter:contract:jobs]",
        "name = jobs never import each other",
        "type = independence",
        "modules =",
        *[f"    postroom.{job}" for job in JOBS if job in present],
    ]
    for room in MAY:
        barred = forbidden(room, present) if room in present else []
        if barred:
            lines += ["", f"[importlinter:contract:{room}]", f"name = what {room} may import", "type = forbidden"]
            lines += ["source_modules =", f"    postroom.{room}", "forbidden_modules ="]
            lines += [f"    postroom.{other}" for other in barred]
            lines += ["allow_indirect_imports = True"]
    kernel = [f"    postroom.{name}" for name in KERNEL]
    rest = [f"    postroom.{name}" for name in sorted({*MAY, *OUTER} & set(present))]
    lines += ["", "[importlinter:contract:kernel]", "name = the kernel imports nothing of postroom's rooms", "type = forbidden"]
    lines += ["source_modules =", *kernel, "forbidden_modules =", *rest, "allow_indirect_imports = True"]
    plumbing = [name for name in ("client", "cli") if name in present]
    rooms = [f"    postroom.{name}" for name in sorted((set(MAY) | {"interfaces", "testing"}) & set(present))]
    lines += ["", "[importlinter:contract:plumbing]", "name = client and cli speak to the daemon", "type = forbidden"]
    lines += ["source_modules =", *[f"    postroom.{name}" for name in plumbing], "forbidden_modules =", *rooms]
    lines += ["allow_indirect_imports = True", "unmatched_ignore_imports_alerting = none", "ignore_imports ="]
    lines += [f"    {entry}" for entry in PLUMBING_EXCEPTIONS]
    return "\n".join(lines) + "\n"


# serve and demo start the house, inside the function; held and doctor clean what a terminal shows.
PLUMBING_EXCEPTIONS = [
    "postroom.cli.** -> postroom.app",
    "postroom.cli.** -> postroom.demo.**",
    "postroom.cli.** -> postroom.safety.unicode",
    "postroom.cli.** -> postroom.store.endpoint",
    "postroom.client -> postroom.store.endpoint",
]


def main() -> int:
    """Write, or with `--check` compare."""
    path = ROOT / ".importlinter"
    wanted = render()
    if "--check" in sys.argv:
        if path.read_text(encoding="utf-8") != wanted:
            print("the import contract is stale: run python scripts/rooms.py")
            return 1
        return 0
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
