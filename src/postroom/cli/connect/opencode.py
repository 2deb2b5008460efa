"""opencode: its MCP server. It runs no hooks; a model there asks for its mail, or is told to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from postroom.cli.connect import jsonfile
from postroom.cli.connect.agent import Link
from postroom.cli.connect.files import Change
from postroom.cli.connect.jsonfile import Ours


def folder(given: Path | None = None) -> Path:
    """opencode's configuration folder."""
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    return (given or settings / "opencode").expanduser().absolute()


def changes(to: Link, home: Path) -> list[Change]:
    """What is put into its file."""
    server = {"type": "local", "command": [to.program, "mcp"], "environment": dict(to.environment), "enabled": True}
    return [jsonfile.change(home / "opencode.json", Ours(values={("mcp", "postroom"): server}))]


def server(home: Path | None = None) -> Any:
    """The server's entry in the form of the others, or None."""
    found = jsonfile.read(folder(home) / "opencode.json").get("mcp", {}).get("postroom")
    if not isinstance(found, dict) or not found.get("command"):
        return None
    return {"command": found["command"][0], "args": found["command"][1:], "env": found.get("environment", {})}
