"""Gemini CLI: its MCP server and hooks, both in settings.json. Nothing can wake its idle terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from postroom.cli.connect import jsonfile
from postroom.cli.connect.agent import MARK, Link
from postroom.cli.connect.files import Change
from postroom.cli.connect.hooks import TELL_S, telling
from postroom.cli.connect.jsonfile import Ours

_EVENTS: Final = ("SessionStart", "BeforeAgent", "AfterTool")
_MILLIS: Final = 1000  # its time limits


def folder(given: Path | None = None) -> Path:
    """Gemini CLI's configuration folder."""
    return (given or Path("~/.gemini")).expanduser().absolute()


def changes(to: Link, home: Path, *, ask: bool = False) -> list[Change]:
    """What is put into its file. Without `trust` it offers a server's tools in its terminal only, and asks at each call."""
    server = {"command": to.program, "args": ["mcp"], "env": dict(to.environment), "trust": not ask}
    hooks = telling(to, _EVENTS, TELL_S * _MILLIS)
    return [jsonfile.change(home / "settings.json", Ours(values={("mcpServers", "postroom"): server}, hooks=hooks, mark=MARK))]


def server(home: Path | None = None) -> Any:
    """The server's entry as Gemini CLI reads it, or None."""
    return jsonfile.read(folder(home) / "settings.json").get("mcpServers", {}).get("postroom")
