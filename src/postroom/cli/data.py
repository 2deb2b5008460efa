"""`postroom data`: the data folder itself. It needs no daemon, and disturbs none that runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from postroom.cli import exits
from postroom.cli.output import Json, line, say_json
from postroom.client import data_folder

app = typer.Typer(help="The data folder.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """The data folder."""


@app.command()
def verify(
    data: Annotated[Path | None, typer.Option(help="The data folder.")] = None,
    config: Annotated[Path | None, typer.Option(help="The config file, where it is not in the data folder.")] = None,
    witness: Annotated[list[str] | None, typer.Option(help="SEQ:LINK that a mailbox receipt or cursor showed.")] = None,
    as_json: Json = False,
) -> None:
    """Check that the records of what left and of the mailbox are what was written; say what was done to them, if not."""
    from postroom import config as settings
    from postroom.app.verify import verify_folder
    from postroom.cli.options import serve_options

    folder = data_folder(data)
    found = serve_options(config=config, data=folder, http="127.0.0.1:0", smtp="off").config_path
    reports = verify_folder(folder, url=settings.load(found).store.url, witnesses=witness or ())
    if as_json:
        say_json({"logs": [dataclasses.asdict(report) for report in reports]})
    else:
        for report in reports:
            said = f"{report.kind} at entry {report.seq}: {line(report.detail)}" if report.kind else "as it was written"
            print(f"{report.log}: {report.entries} entries, {report.checkpoints} checkpoints: {said}")
    if any(report.kind for report in reports):
        raise typer.Exit(exits.FAILED)
