"""`postroom held`: mail that waits for a person. What is approved is a digest, so what was shown is what leaves."""

from __future__ import annotations

import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from postroom.cli.output import Json, address_first, block, line, say_json, table
from postroom.client import connect
from postroom.errors import Conflict, Invalid
from postroom.safety.unicode import clean

app = typer.Typer(help="Mail that waits for your yes or no.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="The id, out_…")]
_LISTED = 5
_SHORT = 16  # characters of a digest that stand for it: 64 bits


@app.command("list")
def listing(
    state: Annotated[
        str, typer.Option(help="held, approved, sending, sent, failed, refused, expired, uncertain or all.")
    ] = "held",
    limit: Annotated[int, typer.Option(help="At most this many.")] = 50,
    as_json: Json = False,
) -> None:
    """What waits, newest first."""
    found = connect().get("/api/outgoing", state=None if state == "all" else state, limit=limit)
    if as_json:
        say_json(found)
        return
    rows = found["outgoing"]
    table(
        ("id", "state", "agent", "to", "subject", "expires"),
        [
            (row["outgoing_id"], row["state"], row["agent"], ", ".join(_recipients(row)), row["subject"], row["expires_at"])
            for row in rows
        ],
    )
    if found.get("next_page_token"):
        typer.echo(f"there are more; --limit shows more than {limit}", err=True)


@app.command()
def show(
    outgoing_id: Id,
    raw: Annotated[bool, typer.Option("--raw", help="The exact bytes that would leave.")] = False,
    as_json: Json = False,
) -> None:
    """One mail as its approver must see it: who gets it (hidden recipients first), and all it says."""
    client = connect()
    if raw:
        sys.stdout.buffer.write(client.fetch("GET", f"{_path(outgoing_id)}/raw"))
        return
    mail = client.get(_path(outgoing_id))
    if as_json:
        say_json(mail)
        return
    print(rendered(mail))


@app.command()
def approve(
    outgoing_id: Id,
    digest: Annotated[str | None, typer.Option(help="The digest shown, or its first 16 characters.")] = None,
    as_json: Json = False,
) -> None:
    """Let exactly the mail that was shown go. Without --digest it is shown, and you are asked."""
    client = connect()
    mail = client.get(_path(outgoing_id))
    whole = _matching(mail, digest) if digest is not None else _asked(mail)
    done = client.post(f"{_path(outgoing_id)}/approve", {"digest": whole})
    if as_json:
        say_json(done)
        return
    typer.echo(f"approved; now {done['state']}", err=True)


@app.command()
def refuse(
    outgoing_id: Id,
    comment: Annotated[str, typer.Option(help="Why not; told to the agent.")] = "",
    as_json: Json = False,
) -> None:
    """Say no for good."""
    done = connect().post(f"{_path(outgoing_id)}/refuse", {"comment": comment})
    if as_json:
        say_json(done)
        return
    typer.echo("refused", err=True)


@app.command("clear-read")
def clear_read(
    agent: Annotated[str, typer.Argument(help="The agent's name.")],
    as_json: Json = False,
) -> None:
    """Say that what an agent has read from outside so far no longer matters to what it may send unasked."""
    done = connect().call("DELETE", f"/api/agents/{quote(agent, safe='')}/read-log")
    if as_json:
        say_json(done)
        return
    typer.echo(f"cleared: {done['cleared']} mails", err=True)


def rendered(mail: dict[str, Any]) -> str:
    """The approval screen."""
    rows = [("state", mail["state"]), ("agent", mail["agent"]), ("from", mail["from"])]
    for name in ("bcc", "to", "cc", "reply_to"):
        rows += [(name.replace("_", "-"), address_first(entry)) for entry in mail[name]]
    rows += [("subject", mail["subject"]), *(("header", f"{name}: {value}") for name, value in mail["headers"].items())]
    rows += [("attached", f"{entry['filename']} ({entry['size']} bytes)") for entry in mail["attachments"]]
    if unseen := _unseen(mail):
        rows += [("unseen", f"{unseen} characters that nobody can see are left out here; --raw has them")]
    rows += [("why", reason) for reason in mail["reasons"]]
    rows += [("noticed", _noticed(entry)) for entry in mail.get("findings", ())]
    rows += _reading(mail)
    rows += [(mail["boundary"], mail["boundary_reason"]), ("expires", mail["expires_at"]), ("digest", mail["digest"])]
    rows += [(name, mail[name]) for name in ("decided_by", "comment", "detail") if mail.get(name)]
    head = "\n".join(f"{line(name, 40):>10}  {line(value, 2000)}" for name, value in rows)
    screen = f"{line(mail['outgoing_id'])}\n{head}\n\n{block(mail['text'])}\n"
    if mail["html"]:
        screen += f"\n  and as HTML, which mail programs show instead:\n\n{block(mail['html'])}\n"
    if mail["state"] == "held":
        screen += f"\n{_commands(mail)}"
    return screen


def _unseen(mail: dict[str, Any]) -> int:
    """How many characters of what the agent wrote this screen cannot show: they can carry text past its reader."""
    names = (entry["filename"] for entry in mail["attachments"])
    addresses = (entry for field in ("bcc", "to", "cc", "reply_to") for entry in mail[field])
    written = (mail["subject"], mail["text"], mail["html"], *mail["headers"].values(), *names, *addresses)
    return sum(clean(text)[1] for text in written if text)


def _noticed(finding: dict[str, Any]) -> str:
    times = f" ({finding['count']})" if finding["count"] > 1 else ""
    return f"{finding['code']}{times}: {finding['detail']}"


def _reading(mail: dict[str, Any]) -> list[tuple[str, str]]:
    """What the agent had been shown by strangers before it asked, as far as that was not cleared."""
    read = mail.get("read_outside") or []
    if not read:
        return []
    more = f" and {len(read) - _LISTED} more" if len(read) > _LISTED else ""
    return [("has read", f"{len(read)} from outside: {' '.join(read[-_LISTED:])}{more}")]


def _commands(mail: dict[str, Any]) -> str:
    name = line(mail["outgoing_id"])
    return f"postroom held approve {name} --digest {line(mail['digest'])[:_SHORT]}\npostroom held refuse {name}"


def _recipients(mail: dict[str, Any]) -> list[str]:
    return [*mail["bcc"], *mail["to"], *mail["cc"]]


def _matching(mail: dict[str, Any], digest: str) -> str:
    """The whole digest a person gave, or gave the beginning of."""
    whole: str = mail["digest"]
    if len(digest) < _SHORT:
        raise Invalid(f"a digest is given with at least its first {_SHORT} characters")
    if not whole.startswith(digest.lower()):
        raise Conflict("this is not the digest of the held mail", fix="show it again and approve what you see")
    return whole


def _asked(mail: dict[str, Any]) -> str:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Invalid("approving needs the digest of what was shown", fix="see `postroom held show ID`, then give --digest")
    typer.echo(rendered(mail), err=True)
    typer.echo("Let it go? [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Conflict("not approved; it still waits")
    whole: str = mail["digest"]
    return whole


def _path(outgoing_id: str) -> str:
    return f"/api/outgoing/{quote(outgoing_id, safe='')}"
