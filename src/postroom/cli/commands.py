"""The tree of commands for people, in typer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from postroom import __version__
from postroom.cli import agents, data, exits, held, reader, service, sessions
from postroom.cli.connect import commands as connect
from postroom.cli.output import Json, say_json
from postroom.client import connect as connect_daemon
from postroom.client import data_folder

app = typer.Typer(
    name="postroom",
    help="Mail for AI agents, behind one set of trust rules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(agents.app, name="agent")
app.add_typer(connect.app, name="connect")
app.add_typer(held.app, name="held")
app.add_typer(data.app, name="data")
app.add_typer(reader.app, name="reader")
app.add_typer(sessions.app, name="sessions")
app.add_typer(service.app, name="service")


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Mail for AI agents, behind one set of trust rules."""
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def demo(
    as_json: Json = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running, and say how to mail it by hand.")] = False,
    host: Annotated[str, typer.Option(help="What runs the agent: command, or dsh with a scripted model.")] = "command",
) -> None:
    """Show one mail's whole way: in, read by an agent, answered, held, approved, out, and back."""
    os.umask(0o077)
    from postroom.demo.main import main

    raise typer.Exit(main(as_json=as_json, keep=keep, host=host))


@app.command()
def doctor(
    data: Annotated[Path | None, typer.Option(help="The data folder.")] = None,
    as_json: Json = False,
) -> None:
    """Check the data folder, the config and the daemon, and say whether the gate is a wall or a rule."""
    from postroom.cli.doctor import checks

    found = list(checks(data_folder(data)))
    if as_json:
        say_json({"checks": [check._asdict() for check in found]})
    else:
        for check in found:
            print(f"{check.verdict:>5}  {check.what}: {check.said}")
    if any(check.verdict == "wrong" for check in found):
        raise typer.Exit(exits.FAILED)


@app.command()
def reload(as_json: Json = False) -> None:
    """Have the daemon read its config again. Whom mail wakes changes at once; what needs a restart is named."""
    done = connect_daemon().post("/api/reload")
    if as_json:
        say_json(done)
        return
    for what, keys in (("taken over", done["taken"]), ("at the next start", done["restart"])):
        typer.echo(f"{what}: {', '.join(keys) or 'nothing'}", err=True)


# Those below are listed here for --help; `main` runs them without loading this module.
@app.command()
def serve() -> None:
    """Run the post room in the foreground."""


@app.command()
def mailbox() -> None:
    """Mail between agents: send, read, wait, search, peers and more."""


@app.command()
def wait() -> None:
    """Block until the mailbox (with --mail: your email) has something for you, then print it."""


@app.command()
def mcp() -> None:
    """Speak MCP on stdin and stdout, forwarding to the daemon."""


@app.command()
def hook() -> None:
    """Tell a coding agent's hook what waits for it (Claude Code, Codex, Gemini CLI)."""
