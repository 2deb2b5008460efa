"""`postroom agent`: who may use this post room."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from postroom.cli.output import Json, line, say_json, table
from postroom.client import connect

app = typer.Typer(help="Agents and their tokens.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The agent's name: lowercase letters, digits, . _ -")]


@app.command()
def add(
    name: Name,
    inbox: Annotated[str | None, typer.Option(help="Its address; without it NAME at the first domain.")] = None,
    profile: Annotated[
        str, typer.Option(help="observer (never sends), correspondent, clerk (internal mail only).")
    ] = "correspondent",
    as_json: Json = False,
) -> None:
    """Make an agent with an inbox. Prints its token, this once."""
    body = {"name": name, "profile": profile} | ({"inbox": inbox} if inbox else {})
    made = connect().post("/api/agents", body)
    if as_json:
        say_json(made)
        return
    typer.echo(f"{made['name']} reads {made['inbox_id']}. Its token, shown only now:", err=True)
    print(made["token"])


@app.command("list")
def listing(as_json: Json = False) -> None:
    """The agents and their inboxes."""
    found = connect().get("/api/agents")
    if as_json:
        say_json(found)
        return
    rows = [(row["name"], row["profile"], ", ".join(row["inboxes"]), row["created_at"]) for row in found["agents"]]
    table(("name", "profile", "inboxes", "created"), rows)


@app.command()
def rotate(name: Name, as_json: Json = False) -> None:
    """Give an agent a new token; its earlier ones stop working. Prints it, this once."""
    made = connect().post(f"/api/agents/{quote(name, safe='')}/rotate")
    if as_json:
        say_json(made)
        return
    typer.echo("The new token, shown only now:", err=True)
    print(made["token"])


@app.command()
def remove(name: Name, as_json: Json = False) -> None:
    """Take an agent's tokens away. Its inboxes and their mail stay; adding the name again brings it back to them."""
    gone = connect().call("DELETE", f"/api/agents/{quote(name, safe='')}")
    if as_json:
        say_json(gone)
        return
    typer.echo(f"removed {line(gone['name'])}", err=True)


AccountId = Annotated[str, typer.Option("--account", help="The account's id in [reader] of the config.")]


@app.command()
def allow(name: Name, account: AccountId, as_json: Json = False) -> None:
    """Let an agent read one of your mail accounts."""
    _tell_accounts(connect().call("PUT", _account_path(name, account)), as_json=as_json)


@app.command()
def deny(name: Name, account: AccountId, as_json: Json = False) -> None:
    """Take that back; the next read is refused."""
    _tell_accounts(connect().call("DELETE", _account_path(name, account)), as_json=as_json)


def _account_path(name: str, account: str) -> str:
    return f"/api/agents/{quote(name, safe='')}/accounts/{quote(account, safe='')}"


def _tell_accounts(now: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        say_json(now)
        return
    typer.echo(f"{line(now['name'])} may read {', '.join(map(line, now['accounts'])) or 'no mail account'}", err=True)
