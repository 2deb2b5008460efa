"""`postroom reader`: a person's mail accounts, and a look at their mail."""

from __future__ import annotations

import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from postroom.cli.output import Json, line, say_json, table
from postroom.client import Client, connect
from postroom.safety.unicode import clean

app = typer.Typer(help="A person's mail accounts, read only.", no_args_is_help=True)

Account = Annotated[str, typer.Argument(help="The account's id in [reader] of the config.")]
_WAIT_S = 20


@app.command()
def add(
    account: Account,
    device: Annotated[bool, typer.Option("--device", help="No browser here: type a code on another device.")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Authorize an account. The consent is given in your browser and kept in your keyring or an encrypted file."""
    client = connect()
    begun = client.post(f"{_path(account)}/authorization", {"device": device})
    if begun["state"] == "pending":
        _tell(begun, open_it=not (device or no_browser))
        _follow(client, account)
    checked = client.post(f"{_path(account)}/check")
    if as_json:
        say_json(checked)
        return
    typer.echo(f"{line(account)} can be read. Let an agent: postroom agent allow NAME --account {line(account)}", err=True)


@app.command("list")
def listing(as_json: Json = False) -> None:
    """The accounts, whether they can be read, and by which agents."""
    found = connect().get("/api/reader/accounts")
    if as_json:
        say_json(found)
        return
    table(
        ("account", "provider", "address", "state", "read by"),
        [
            (row["id"], row["provider"], row["address"], row["state"], ", ".join(row.get("agents", ())))
            for row in found["accounts"]
        ],
    )


@app.command()
def check(account: Account, as_json: Json = False) -> None:
    """Ask the provider for one message, to see that the account works."""
    typer.echo(f"asking {line(account)} …", err=True)
    found = connect().post(f"{_path(account)}/check")
    if as_json:
        say_json(found)
        return
    typer.echo(f"{line(account)} works", err=True)


@app.command()
def revoke(account: Account, as_json: Json = False) -> None:
    """Forget an account's authorization."""
    done = connect().call("DELETE", f"{_path(account)}/grant")
    if as_json:
        say_json(done)
        return
    typer.echo("forgotten; the provider's own list of apps is yours to clear" if done["revoked"] else "there was none", err=True)


@app.command()
def mail(
    account: Annotated[str, typer.Argument(help="Needed when there are several.")] = "",
    *,
    query: Annotated[str, typer.Option(help="Gmail search, Outlook KQL, or words (IMAP).")] = "",
    folder: Annotated[str, typer.Option(help="A label or folder.")] = "",
    limit: Annotated[int | None, typer.Option(help="At most this many.")] = None,
    after: Annotated[str, typer.Option(help="YYYY-MM-DD, included.")] = "",
    before: Annotated[str, typer.Option(help="YYYY-MM-DD, not included.")] = "",
    unread: Annotated[bool, typer.Option("--unread", help="Only unread mail.")] = False,
    message: Annotated[str, typer.Option(help="Read this one.")] = "",
    page: Annotated[str, typer.Option(help="The page token of the list before.")] = "",
    as_json: Json = False,
) -> None:
    """List, search or read mail as an agent sees it."""
    asked: dict[str, str] = {"account": account, "query": query, "folder": folder, "after": after, "before": before}
    asked |= {"limit": str(limit or ""), "messageId": message, "pageToken": page, "unreadOnly": "true" if unread else ""}
    if sys.stderr.isatty():
        typer.echo("reading …", err=True)
    found = connect().get("/api/reader/mail", **{name: value for name, value in asked.items() if value != ""}, rendered="true")
    text = found.pop("rendered")
    if as_json:
        say_json(found)
        return
    print(clean(text)[0])


def _tell(begun: dict[str, Any], *, open_it: bool) -> None:
    if begun["user_code"]:
        typer.echo(f"Open {line(begun['url'])} and type {line(begun['user_code'])}", err=True)
        return
    typer.echo(f"Open this address and agree to reading mail:\n{line(begun['url'], 4000)}", err=True)
    if open_it and sys.stderr.isatty():
        import webbrowser

        webbrowser.open(begun["url"])


def _follow(client: Client, account: str) -> None:
    """Wait for the person; an interrupt stops the authorization too."""
    typer.echo("waiting for your answer …", err=True)
    try:
        while client.get(f"{_path(account)}/authorization", wait_s=_WAIT_S)["state"] == "pending":
            pass
    except KeyboardInterrupt:
        client.call("DELETE", f"{_path(account)}/authorization")
        raise
    typer.echo("authorized", err=True)


def _path(account: str) -> str:
    return f"/api/reader/accounts/{quote(account, safe='')}"
