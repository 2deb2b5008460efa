"""`postroom connect dsh`: give a profile of the DeepSeek Harness the mail of one agent, and take it away again.

Files of a person are edited as text, between two marks: comments and everything else stay as they are, a
copy is kept beside, and `--remove` gives back the bytes that were there.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
from collections.abc import Collection
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from postroom.cli.options import HTTP
from postroom.client import connect as daemon
from postroom.client import url_of
from postroom.errors import Conflict, Invalid, NotFound, TransportFailure

PARTS: Final = ("tools", "notices")
_BEGIN, _END = "# >>> postroom: written by `postroom connect dsh`, taken out by its --remove", "# <<< postroom"
_INSTEAD, _AFTER = " (in place of [])", " (after a line without an end)"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_COPY: Final = ".before-postroom"


def dsh(
    *,
    profile: Annotated[str, typer.Option(help="The DSH profile: web, headless, acp, …")],
    agent: Annotated[str, typer.Option(help="The agent whose mail it is; made if there is none.")] = "dsh",
    home: Annotated[Path | None, typer.Option(help="DSH's home; else DSH_HOME, else ~/.dsh.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave out a part: tools or notices.")] = None,
    show: Annotated[bool, typer.Option("--print", help="Only print what would be written.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take it out again.")] = False,
) -> None:
    """Give a profile of your DeepSeek Harness the tools and notices. A running harness takes it up."""
    left_out = set(without or ())
    if unknown := left_out - set(PARTS):
        raise Invalid(f"there is no part {', '.join(sorted(unknown))}", fix=f"the parts are {', '.join(PARTS)}")
    place = (home or Path(os.environ.get("DSH_HOME") or "~/.dsh")).expanduser().absolute() / "profiles" / profile
    if not _NAME.fullmatch(agent):
        raise Invalid("an agent's name has lowercase letters, digits, . _ - only")
    token = place / "postroom" / f"{agent}.token"
    if show:
        print(block(_url(), token, left_out), end="")
        return
    patch = place / "cordis.patch.yml"
    if not patch.is_file():
        raise NotFound(f"there is no DSH profile at {place}", fix=f"start it once: dsh --profile {profile}")
    before = patch.read_bytes().decode("utf-8", "surrogateescape")
    if remove:
        _write(patch, before, taken_out(before))
        _forget(patch, token.parent)
        return
    after = put_in(before, block(_url(), token, left_out))
    _keep_token(token, agent)
    copy = patch.with_name(patch.name + _COPY)
    if not copy.exists():
        shutil.copy2(patch, copy)
    _write(patch, before, after)


def block(url: str, token: Path, left_out: Collection[str] = ()) -> str:
    """The rows of the patch. JSON is YAML, so every value is quoted as JSON."""
    program = Path(sys.executable).with_name("postroom")
    command = str(program) if program.exists() else shutil.which("postroom") or "postroom"
    plugin = str(resources.files("postroom") / "bridge" / "notices.mjs")
    rows = {
        "tools": {
            "id": "postroom-tools",
            "name": "@deepseek-ai/dsh-mcp-client",
            "config": {
                "serverName": "postroom",
                "transport": "stdio",
                "command": command,
                "args": ["mcp"],
                "env": {"POSTROOM_URL": url, "POSTROOM_TOKEN": f"file:{token}"},
            },
        },
        "notices": {"id": "postroom-notices", "name": plugin, "config": {"url": url, "token": str(token)}},
    }
    lines = [f"- insert: [{json.dumps(row)}]" for part, row in rows.items() if part not in left_out]
    return "\n".join([_BEGIN, *lines, _END, ""])


def put_in(text: str, rows: str) -> str:
    """The patch file with the block, in place of an earlier one, of the template's `[]`, or at the end."""
    text = taken_out(text)
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith("[") and line.strip() != "[]":
            raise Invalid("the patch file is one flow list", fix="write its entries as lines that begin with a dash")
        if line.rstrip() == "[]":
            if line != "[]\n" or any(one.strip() and not one.startswith("#") for one in lines[number + 1 :]):
                raise Invalid("something follows the [] of the patch file", fix="put [] on the last line, or remove it")
            return "".join([*lines[:number], rows.replace(_BEGIN, _BEGIN + _INSTEAD), *lines[number + 1 :]])
    if text and not text.endswith("\n"):
        return text + "\n" + rows.replace(_BEGIN, _BEGIN + _AFTER)
    return text + rows


def taken_out(text: str) -> str:
    """The patch file as it was without the block."""
    start = text.find(_BEGIN)
    end = text.find(_END + "\n", start)
    if start < 0 or end < 0:
        return text
    head, rows, tail = text[:start], text[start:end], text[end + len(_END) + 1 :]
    if rows.startswith(_BEGIN + _INSTEAD):
        return head + "[]\n" + tail
    return (head.removesuffix("\n") if rows.startswith(_BEGIN + _AFTER) else head) + tail


def _url() -> str:
    try:
        return url_of()
    except TransportFailure:
        return f"http://{HTTP}"


def _keep_token(path: Path, agent: str) -> None:
    """The agent's token where only this user reads it; the agent is made if there is none."""
    if path.exists():
        return
    try:
        made = daemon().post("/api/agents", {"name": agent})
    except Conflict:
        raise Invalid(
            f"there is an agent {agent} already, and its token was shown only once",
            fix=f"take another name with --agent, or give it a new token: postroom agent rotate {agent} > {path}",
        ) from None
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(made["token"] + "\n")
    typer.echo(f"{made['name']} reads {made['inbox_id']}", err=True)


def _write(path: Path, before: str, after: str) -> None:
    """Replace the file at once, and say what changed."""
    if before == after:
        typer.echo("nothing to change", err=True)
        return
    changes = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=1)
    typer.echo("\n".join(line.encode("utf-8", "replace").decode() for line in changes), err=True)
    new = path.with_name(path.name + ".new")
    new.write_bytes(after.encode("utf-8", "surrogateescape"))
    shutil.copymode(path, new)
    new.replace(path)


def _forget(patch: Path, folder: Path) -> None:
    patch.with_name(patch.name + _COPY).unlink(missing_ok=True)
    if folder.is_dir():
        for token in folder.glob("*.token"):
            token.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
