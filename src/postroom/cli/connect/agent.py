"""The agent whose mail a client gets: its token where only this user reads it, and the command that speaks for it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from postroom.client import connect, data_folder
from postroom.errors import Conflict, Invalid, NotFound, PostroomError

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MARK: Final = "POSTROOM_TOKEN=file:"  # in every command line of ours, and in nobody else's


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How a client reaches the service as one agent."""

    agent: str
    token: Path
    environment: Mapping[str, str]

    @property
    def program(self) -> str:
        """The `postroom` that runs now, by its full path: a client's PATH may be another."""
        beside = Path(sys.executable).with_name("postroom")
        return str(beside) if beside.exists() else shutil.which("postroom") or "postroom"

    def shell(self, *arguments: str) -> str:
        """A command line for a client's hooks. `exec`: the client itself is its parent, and it can end with it."""
        given = [f"{name}={value}" for name, value in self.environment.items()]
        return shlex.join(["exec", "env", *given, self.program, *arguments])


def link(agent: str, folder: Path) -> Link:
    """The link of an agent whose token is kept in `folder`. Nothing is written yet.

    Where the service is, the client's commands find out anew each time, unless POSTROOM_URL fixes it.
    """
    if not _NAME.fullmatch(agent):
        raise Invalid("an agent's name has lowercase letters, digits, . _ - only")
    token = folder / f"{agent}.token"
    url = os.environ.get("POSTROOM_URL")
    where = {"POSTROOM_URL": url} if url else {"POSTROOM_DATA": str(data_folder().absolute())}
    return Link(agent=agent, token=token, environment={**where, "POSTROOM_TOKEN": f"file:{token}"})


def keep_token(to: Link) -> None:
    """Make the agent and keep its token, unless there is one already."""
    if to.token.exists():
        return
    try:
        made = connect().post("/api/agents", {"name": to.agent})
    except Conflict:
        raise Invalid(
            f"there is an agent {to.agent} already, and its token was shown only once",
            fix=f"take another name with --agent, or give it a new token: postroom agent rotate {to.agent} > {to.token}",
        ) from None
    to.token.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(to.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(made["token"] + "\n")
    typer.echo(f"{made['name']} reads {made['inbox_id']}", err=True)


def forget_token(to: Link) -> None:
    """Delete the token and take it back at the service. The agent's inbox and mail stay, for when it is connected again."""
    if not to.token.exists():
        return
    to.token.unlink()
    if not any(to.token.parent.iterdir()):
        to.token.parent.rmdir()
    try:
        connect().call("DELETE", f"/api/agents/{to.agent}")
    except NotFound:
        pass
    except PostroomError as problem:
        typer.echo(f"its token still counts ({problem.message}); take it away with: postroom agent remove {to.agent}", err=True)


def known_agents(folder: Path) -> Sequence[str]:
    """Agents whose tokens are kept in `folder`."""
    return sorted(path.stem for path in folder.glob("*.token"))
