"""The command tree, and how it ends: every error becomes one exit status, none a stack trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from postroom import __version__
from postroom.cli import agents, exits, held, sessions
from postroom.cli.options import HTTP, SMTP, serve_options
from postroom.cli.output import Json, say_json
from postroom.client import data_folder
from postroom.errors import PostroomError

app = typer.Typer(
    name="postroom",
    help="Mail for AI agents, behind one set of trust rules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(agents.app, name="agent")
app.add_typer(held.app, name="held")
app.add_typer(sessions.app, name="sessions")


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit status."""
    try:
        app(args=list(arguments), prog_name="postroom")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else exits.FAILED if end.code else 0
    except PostroomError as error:
        return exits.tell(error, as_json="--json" in arguments)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has had enough
        return 0
    except Exception as problem:  # noqa: BLE001  (the last resort: one line instead of a stack trace)
        return exits.tell_unexpected(problem)
    return 0


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Mail for AI agents, behind one set of trust rules."""
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option(help="The config file; else POSTROOM_CONFIG, else postroom.toml in the data folder.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The data folder; else POSTROOM_DATA, else the platform's.")] = None,
    http: Annotated[str, typer.Option(help="HOST:PORT; port 0 picks a free one.")] = HTTP,
    smtp: Annotated[str, typer.Option(help="HOST:PORT, or off.")] = SMTP,
) -> None:
    """Run the post room in the foreground. Prints one line on stdout when everything listens."""
    os.umask(0o077)
    options = serve_options(config=config, data=data, http=http, smtp=smtp)
    from postroom.app.serve import run as run_app

    raise typer.Exit(run_app(options))


@app.command()
def demo(
    as_json: Json = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running, and say how to mail it by hand.")] = False,
) -> None:
    """Show one mail's whole way: in, read by an agent, answered, held, approved, out, and back."""
    os.umask(0o077)
    from postroom.demo.main import main

    raise typer.Exit(main(as_json=as_json, keep=keep))


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


@app.command(help="Speak MCP on stdin and stdout, forwarding to the daemon.", add_help_option=True)
def mcp() -> None:
    """Listed here for --help; `main` runs it before typer is loaded."""
