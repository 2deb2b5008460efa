"""The entry point. Commands that only need the standard library are dispatched before typer is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from postroom.cli.exits import ending
from postroom.errors import Invalid

# The daemon and the plumbing: modules with `main(arguments) -> exit status`.
PLAIN = {
    "serve": "postroom.cli.serve",
    "mcp": "postroom.cli.mcp_stdio",
    "mailbox": "postroom.cli.mailbox",
    "wait": "postroom.cli.wait",
    "hook": "postroom.cli.hook",
}


def main() -> int:
    """Run the command line of this process; its exit status."""
    arguments = sys.argv[1:]
    return ending(lambda: run(arguments), as_json="--json" in arguments)


def run(arguments: Sequence[str]) -> int:
    """Run one command line."""
    if arguments and arguments[0] in PLAIN:
        return int(import_module(PLAIN[arguments[0]]).main(arguments[1:]))
    from typer.exceptions import TyperException

    from postroom.cli.commands import app

    try:
        # Asked for JSON, wrong usage is told as JSON too; a person gets the command's own usage lines.
        status = app(args=list(arguments), prog_name="postroom", standalone_mode="--json" not in arguments)
    except TyperException as wrong:
        raise Invalid(wrong.format_message(), code="usage", fix="add --help to see what the command takes") from None
    return int(status or 0)


if __name__ == "__main__":
    sys.exit(main())
