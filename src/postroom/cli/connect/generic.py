"""Any other client that reads an `mcp.json`: an entry under `mcpServers`, as most of them spell it."""

from __future__ import annotations

import os
from pathlib import Path

from postroom.cli.connect import jsonfile
from postroom.cli.connect.agent import Link
from postroom.cli.connect.files import Change
from postroom.cli.connect.jsonfile import Ours


def folder() -> Path:
    """Where the tokens of such clients are kept."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser().absolute() / "postroom"


def changes(to: Link, file: Path) -> list[Change]:
    """What is put into the file."""
    server = {"type": "stdio", "command": to.program, "args": ["mcp"], "env": dict(to.environment)}
    return [jsonfile.change(file, Ours(values={("mcpServers", "postroom"): server}))]
