"""`postroom connect`: give a harness or client the mail of one agent, and take it away again.

One module for each; what they write, `--remove` takes out to the byte.
"""

from __future__ import annotations

import typer

from postroom.cli.connect.dsh import dsh

app = typer.Typer(help="Give a harness an agent's mail.", no_args_is_help=True)
app.command()(dsh)


@app.callback()
def root() -> None:
    """Give a harness an agent's mail."""
