"""Claude Code: its MCP server, hooks, permission and the `/mailbox` commands."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any, Final

from postroom.cli.connect import jsonfile
from postroom.cli.connect.agent import MARK, Link
from postroom.cli.connect.files import Change, owned
from postroom.cli.connect.hooks import telling, waking
from postroom.cli.connect.jsonfile import Ours

_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolUse")
_ALLOWED: Final = "mcp__postroom"
_COMMAND_MARK: Final = "written by postroom connect claude"


def folder(given: Path | None = None) -> Path:
    """Claude Code's configuration folder."""
    return (given or Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude")).expanduser().absolute()


def changes(to: Link, home: Path, *, ask: bool = False, wake: bool = False, channel: bool = False) -> list[Change]:
    """What is put into its files. Tools are there at once, not behind its tool search: their schemas are small."""
    server = {
        "type": "stdio",
        "command": to.program,
        "args": ["mcp", "--channel"] if channel else ["mcp"],
        "env": dict(to.environment),
        "alwaysLoad": True,
    }
    hooks = telling(to, _EVENTS) | (waking(to) if wake else {})
    every = Ours(hooks=hooks, entries={("permissions", "allow"): _ALLOWED}, mark=MARK)
    return [
        jsonfile.change(_state(home), Ours(values={("mcpServers", "postroom"): server})),
        jsonfile.change(home / "settings.json", Ours(hooks=hooks, mark=MARK) if ask else every, every),
        *(owned(home / "commands" / name, text, _COMMAND_MARK) for name, text in _commands()),
    ]


def server(home: Path | None = None) -> Any:
    """The server's entry as Claude Code reads it, or None."""
    return jsonfile.read(_state(folder(home))).get("mcpServers", {}).get("postroom")


def _state(home: Path) -> Path:
    """The file that names the servers: beside the default folder, inside any other."""
    return home.with_name(".claude.json") if home == Path("~/.claude").expanduser() else home / ".claude.json"


def _commands() -> list[tuple[str, str]]:
    place = resources.files("postroom.cli.connect") / "slash"
    return sorted((file.name, file.read_text(encoding="utf-8")) for file in place.iterdir() if file.name.endswith(".md"))
