"""The entry point: plumbing is dispatched before typer is loaded."""

from __future__ import annotations

import sys

PLUMBING = {"mcp": "postroom.cli.mcp_stdio"}  # each with `main(arguments) -> exit status`


def main() -> int:
    """Run the command line of this process; its exit status."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in PLUMBING and "--help" not in arguments:
        from importlib import import_module

        plumbing = import_module(PLUMBING[arguments[0]])
        return int(plumbing.main(arguments[1:]) or 0)
    from postroom.cli.commands import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
