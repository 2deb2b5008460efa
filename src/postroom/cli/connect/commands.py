"""The commands of `postroom connect`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from postroom.cli.connect import claude as claude_code
from postroom.cli.connect import codex as codex_cli
from postroom.cli.connect import files, probe
from postroom.cli.connect import gemini as gemini_cli
from postroom.cli.connect import generic as any_client
from postroom.cli.connect import opencode as opencode_cli
from postroom.cli.connect.agent import Link, forget_token, keep_token, known_agents, link
from postroom.cli.connect.dsh import dsh
from postroom.cli.connect.files import Change

app = typer.Typer(help="Give a harness or client an agent's mail.", no_args_is_help=True)
app.command()(dsh)

_AGENT = "The agent whose mail it is; made if there is none."
Home: TypeAlias = Annotated[Path | None, typer.Option(help="The client's configuration folder, if not the usual one.")]
Ask: TypeAlias = Annotated[bool, typer.Option("--ask", help="The client asks before calls; else only the gate asks.")]
Show: TypeAlias = Annotated[bool, typer.Option("--print", help="Only print what would be written.")]
Remove: TypeAlias = Annotated[bool, typer.Option("--remove", help="Take it out again.")]


@app.callback()
def root() -> None:
    """Give a harness or client an agent's mail."""


@app.command()
def claude(
    *,
    agent: Annotated[str, typer.Option(help=_AGENT)] = "claude",
    home: Home = None,
    wake: Annotated[bool, typer.Option("--wake", help="New mail wakes an idle terminal.")] = False,
    channel: Annotated[
        bool, typer.Option("--channel", help="Also announce mail as a channel; needs Claude's own switch.")
    ] = False,
    ask: Ask = False,
    show: Show = False,
    remove: Remove = False,
) -> None:
    """Give Claude Code tools, hooks that say what waits, and the /mailbox commands."""
    place = claude_code.folder(home)
    _carry_out(
        agent, place / "postroom", lambda to: claude_code.changes(to, place, ask=ask, wake=wake or remove, channel=channel),
        show=show, remove=remove,
    )  # fmt: skip


@app.command()
def codex(
    *,
    agent: Annotated[str, typer.Option(help=_AGENT)] = "codex",
    home: Home = None,
    wake: Annotated[bool, typer.Option("--wake", help="New mail wakes an idle thread, through `codex queue`.")] = False,
    ask: Ask = False,
    show: Show = False,
    remove: Remove = False,
) -> None:
    """Give Codex CLI tools, and hooks that say what waits. It runs them once you reviewed them in its /hooks."""
    place = codex_cli.folder(home)
    waker = "codex" if remove else codex_cli.program() if wake else None  # all there may be is taken out
    _carry_out(
        agent, place / "postroom", lambda to: codex_cli.changes(to, place, ask=ask, wake=waker), show=show, remove=remove
    )  # fmt: skip
    if not (show or remove):
        typer.echo("review the hooks once: start codex, then /hooks", err=True)


@app.command()
def gemini(
    *,
    agent: Annotated[str, typer.Option(help=_AGENT)] = "gemini",
    home: Home = None,
    ask: Ask = False,
    show: Show = False,
    remove: Remove = False,
) -> None:
    """Give Gemini CLI tools, and hooks that say what waits."""
    place = gemini_cli.folder(home)
    _carry_out(agent, place / "postroom", lambda to: gemini_cli.changes(to, place, ask=ask), show=show, remove=remove)


@app.command()
def opencode(
    *,
    agent: Annotated[str, typer.Option(help=_AGENT)] = "opencode",
    home: Home = None,
    show: Show = False,
    remove: Remove = False,
) -> None:
    """Give opencode tools. It has no hooks that a command could answer."""
    place = opencode_cli.folder(home)
    _carry_out(agent, place / "postroom", lambda to: opencode_cli.changes(to, place), show=show, remove=remove)


@app.command()
def generic(
    *,
    file: Annotated[Path, typer.Option(help="The client's file of MCP servers.")] = Path(".mcp.json"),
    agent: Annotated[str, typer.Option(help=_AGENT)] = "mcp",
    show: Show = False,
    remove: Remove = False,
) -> None:
    """Give any client that reads an mcp.json the tools."""
    place = file.expanduser().absolute()
    _carry_out(agent, any_client.folder(), lambda to: any_client.changes(to, place), show=show, remove=remove, only=True)


def _carry_out(
    agent: str, folder: Path, changes: Callable[[Link], Sequence[Change]], *, show: bool, remove: bool, only: bool = False
) -> None:
    """Print, put in, or take out. `only`: the folder keeps tokens of other clients too."""
    to = link(agent, folder)
    wanted = changes(to)
    if show:
        files.show(wanted)
    elif remove:
        files.remove(wanted)
        for name in [agent] if only else known_agents(folder):
            forget_token(link(name, folder))
    else:
        files.check(wanted)  # before an agent is made
        keep_token(to)
        files.install(wanted)
        typer.echo(probe.reached({"command": to.program, "args": ["mcp"], "env": to.environment}), err=True)


def connected() -> dict[str, Any]:
    """The entry of the service in the configuration of each client of this user that has one."""
    modules = {"claude": claude_code, "codex": codex_cli, "gemini": gemini_cli, "opencode": opencode_cli}
    found = {name: module.server() for name, module in modules.items()}
    return {name: server for name, server in found.items() if isinstance(server, dict)}
