"""`postroom connect dsh`: give a profile of the DeepSeek Harness the mail of one agent, and take it away again.

One row mounts the bridge plugin; its four parts (tools, identity, approval, inbound) can each be left out.
Files of a person are edited as text, between two marks: comments and everything else stay as they are, a
copy is kept beside, and `--remove` gives back the bytes that were there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from postroom.cli.connect import files
from postroom.cli.options import HTTP
from postroom.client import Client, url_of
from postroom.client import connect as daemon
from postroom.errors import Conflict, Forbidden, Invalid, NotFound, PostroomError, TransportFailure, Unauthorized

PARTS: Final = ("tools", "identity", "approval", "inbound")
_PRIVATE_ROWS: Final = ("session-log-deepseek", "plugin-package-inventory-deepseek", "session-telemetry-otel")
_PRIVACY: Final = "# Off: the copy of each session that goes to the model's provider, the list of plugins, telemetry."
_BEGIN, _END = "# >>> postroom: written by `postroom connect dsh`, taken out by its --remove", "# <<< postroom"
_ROW: Final = "- insert: "
_INSTEAD, _AFTER = " (in place of [])", " (after a line without an end)"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def dsh(
    *,
    profile: Annotated[str, typer.Option(help="The DSH profile: web, headless, acp, …")],
    agent: Annotated[str, typer.Option(help="The agent whose mail it is; made if there is none.")] = "dsh",
    home: Annotated[Path | None, typer.Option(help="DSH's home; else DSH_HOME, else ~/.dsh.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave out a part: tools, identity, approval or inbound.")] = None,
    show: Annotated[bool, typer.Option("--print", help="Only print what would be written.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take it out again.")] = False,
) -> None:
    """Give a profile of your DeepSeek Harness an agent's mail. A running harness takes it up."""
    left_out = set(without or ())
    if unknown := left_out - set(PARTS):
        raise Invalid(f"there is no part {', '.join(sorted(unknown))}", fix=f"the parts are {', '.join(PARTS)}")
    place = home_of(home) / "profiles" / profile
    if not _NAME.fullmatch(agent):
        raise Invalid("an agent's name has lowercase letters, digits, . _ - only")
    kept = place / "postroom" / f"{agent}.token"
    if show:
        print(block(_url(), kept, left_out), end="")
        return
    patch = place / "cordis.patch.yml"
    if not patch.is_file():
        raise NotFound(f"there is no DSH profile at {place}", fix=f"start it once: dsh --profile {profile}")
    rows = block(_url(), kept, left_out)
    changes = [files.Change(path=patch, put=lambda text: put_in(text, rows), take=taken_out)]
    if remove:
        files.remove(changes)
        _forget(kept.parent)
        return
    files.check(changes)
    _keep_key(kept, agent)
    files.install(changes)


def home_of(given: Path | None = None) -> Path:
    """DSH's home."""
    return (given or Path(os.environ.get("DSH_HOME") or "~/.dsh")).expanduser().absolute()


def row_in(text: str) -> Mapping[str, Any] | None:
    """The plugin's row in a patch file; None where it was not put in."""
    block = text.partition(_BEGIN)[2].partition(_END)[0]
    line = next((line for line in block.splitlines() if line.startswith(_ROW)), None)
    return None if line is None else json.loads(line.removeprefix(_ROW))[0]


def block(url: str, token: Path, left_out: Collection[str] = ()) -> str:
    """The rows of the patch. JSON is YAML, so every value is quoted as JSON."""
    row = {
        "id": "postroom",
        "name": str(resources.files("postroom") / "bridge" / "bridge.mjs"),
        "config": {
            "url": url,
            "token": str(token),
            "manifest": str(_manifest(token)),
            "cwd": str(token.parent / "mail"),
            "parts": [part for part in PARTS if part not in left_out],
        },
    }
    off = [f"- {{id: {name}, disabled: true}}" for name in _PRIVATE_ROWS]
    return "\n".join([_BEGIN, _PRIVACY, *off, f"{_ROW}[{json.dumps(row)}]", _END, ""])


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


def _manifest(token: Path) -> Path:
    return token.with_suffix(".json")


def _keep_key(path: Path, agent: str) -> None:
    """The plugin's own key and what it must know at its start, where only this user reads them; the agent is made if there is none."""
    client = daemon()
    with contextlib.suppress(Conflict):
        made = client.post("/api/agents", {"name": agent})
        typer.echo(f"{made['name']} reads {made['inbox_id']}", err=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        key = path.read_text(encoding="ascii")
        manifest = Client(_url(), key).post("/bridge/manifest", {})
    except (OSError, Unauthorized, Forbidden):
        key = client.post(f"/api/agents/{agent}/bridge")["token"]
        manifest = Client(_url(), key).post("/bridge/manifest", {})
    for place, text in ((path, key), (_manifest(path), json.dumps(manifest))):
        place.unlink(missing_ok=True)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)


def _forget(folder: Path) -> None:
    """Delete the keys, here and at the daemon if it runs. What an agent left in the folder of its mail sessions stays."""
    for token in folder.glob("*.token"):
        key_id = "_".join(token.read_text(encoding="ascii").split("_")[1:3])
        try:
            daemon().call("DELETE", f"/v0/api-keys/{key_id}")
        except NotFound:
            pass
        except PostroomError as problem:
            typer.echo(f"the key could not be taken back at the daemon: {problem.message}", err=True)
        _manifest(token).unlink(missing_ok=True)
        token.unlink()
    for empty in (folder / "mail", folder):
        with contextlib.suppress(OSError):
            empty.rmdir()
