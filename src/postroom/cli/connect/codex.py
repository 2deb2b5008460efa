"""Codex CLI: its MCP server as a marked block of config.toml, where comments stay, and its hooks."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from pathlib import Path
from typing import Any, Final

from postroom.cli.connect import jsonfile
from postroom.cli.connect.agent import MARK, Link
from postroom.cli.connect.files import Change
from postroom.cli.connect.hooks import queueing, telling
from postroom.cli.connect.jsonfile import Ours
from postroom.errors import Invalid, NotFound

_BEGIN: Final = "# >>> postroom: written by `postroom connect codex`, taken out by its --remove\n"
_END: Final = "# <<< postroom\n"
_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolUse")


def folder(given: Path | None = None) -> Path:
    """Codex's configuration folder."""
    return (given or Path(os.environ.get("CODEX_HOME") or "~/.codex")).expanduser().absolute()


def changes(to: Link, home: Path, *, ask: bool = False, wake: str | None = None) -> list[Change]:
    """What is put into its files. `wake` is the program that wakes it."""
    hooks = telling(to, _EVENTS) | (queueing(to, wake) if wake else {})
    block = _block(to, ask=ask)
    return [
        Change(path=home / "config.toml", put=lambda text: _put(home, text, block), take=_take),
        jsonfile.change(home / "hooks.json", Ours(hooks=hooks, mark=MARK)),
    ]


def server(home: Path | None = None) -> Any:
    """The server's entry as Codex reads it, or None."""
    try:
        tree = tomllib.loads((folder(home) / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return tree.get("mcp_servers", {}).get("postroom")


def program() -> str:
    """Codex itself. Raises `NotFound`."""
    found = shutil.which("codex")
    if found is None:
        raise NotFound("codex is not on the PATH, and waking goes through it", fix="put it there, or leave out --wake")
    return found


def _block(to: Link, *, ask: bool) -> str:
    """Without `ask` Codex does not ask before a call: what an agent sends is held by the gate."""
    environment = ", ".join(f"{name} = {_text(value)}" for name, value in to.environment.items())
    rows = ["[mcp_servers.postroom]", f"command = {_text(to.program)}", 'args = ["mcp"]', f"env = {{ {environment} }}"]
    rows += [] if ask else ['default_tools_approval_mode = "approve"']
    return _BEGIN + "\n".join(rows) + "\n" + _END


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a TOML basic string is written as JSON writes one


def _put(home: Path, text: str, block: str) -> str:
    bare = _take(text)
    try:
        tree = tomllib.loads(bare)
    except ValueError:
        raise Invalid(f"{home / 'config.toml'} is not TOML", fix="repair it; --print shows what goes into it") from None
    if "postroom" in tree.get("mcp_servers", {}):
        raise Invalid(f"{home / 'config.toml'} has a server postroom of your own", fix="rename it, or take it out")
    return bare + ("\n" if bare and not bare.endswith("\n") else "") + block


def _take(text: str) -> str:
    start = text.find(_BEGIN)
    end = text.find(_END, start)
    return text if start < 0 or end < 0 else text[:start] + text[end + len(_END) :]
