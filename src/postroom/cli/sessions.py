"""`postroom sessions`: the agents' sessions and what waits for them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from postroom.cli.output import Json, say_json, table
from postroom.client import connect

app = typer.Typer(help="Agents' sessions and what waits for them.", no_args_is_help=True)


@app.command("list")
def listing(as_json: Json = False) -> None:
    """Sessions, last changed first."""
    found = connect().get("/api/sessions")
    if as_json:
        say_json(found)
        return
    rows = [
        (row["session_id"], row["inbox_id"], row["host"] or "pull", row["pending"], row["waiting"]) for row in found["sessions"]
    ]
    table(("session", "inbox", "host", "pending", "waits because"), rows)


@app.command()
def wake(session_id: Annotated[str, typer.Argument(help="The session's id.")], as_json: Json = False) -> None:
    """Start the session's turn now."""
    done = connect().post(f"/api/sessions/{quote(session_id, safe='')}/wake")
    if as_json:
        say_json(done)
        return
    typer.echo("woken" if done["woken"] else "nothing here can wake it; its host pulls", err=True)
