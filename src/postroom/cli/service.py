"""`postroom service install`: the daemon under systemd.

As a service of the person's own (`systemctl --user`) it runs as that user, and so does an agent: the gate is a
rule. With `--system` it runs as a user of its own that owns the data folder, which nobody else can open: the
gate is a wall. The unit is written and what to type next is said; nothing is started behind anybody's back.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from postroom.cli.output import Json, say_json
from postroom.errors import Conflict, Invalid

app = typer.Typer(help="Run postroom as a service.", no_args_is_help=True)

_SYSTEM_UNITS: Final = Path("/etc/systemd/system")
_NAME: Final = "postroom.service"
SYSTEM_DATA: Final = "/var/lib/postroom"
_UNIT: Final = """[Unit]
Description=postroom, mail for AI agents
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command} serve{data}
Restart=on-failure
UMask=0077
NoNewPrivileges=yes
{more}
[Install]
WantedBy={wanted_by}
"""
# A user of its own, made by systemd, and as little of the machine as it needs.
_OWN_USER: Final = """DynamicUser=yes
User=postroom
StateDirectory=postroom
StateDirectoryMode=0700
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
CapabilityBoundingSet=
"""


@app.command()
def install(
    system: Annotated[bool, typer.Option("--system", help="Under a user of its own: the gate is a wall. Needs root.")] = False,
    to: Annotated[Path | None, typer.Option(help="The folder of the unit, instead of systemd's.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a unit that is there and differs.")] = False,
    as_json: Json = False,
) -> None:
    """Write the unit of a systemd service, and say how to start it."""
    path = (to or (_SYSTEM_UNITS if system else _user_units())) / _NAME
    written = _write(path, unit(Path(sys.executable), system=system), force=force)
    word = "systemctl" if system else "systemctl --user"
    following = [f"{word} daemon-reload", f"{word} enable --now postroom"]
    if system:
        following.append(f"POSTROOM_DATA={SYSTEM_DATA} postroom doctor")
    if as_json:
        say_json({"unit": str(path), "written": written, "next": following, "boundary": "wall" if system else "rule"})
        return
    typer.echo(f"{path} {'written' if written else 'is as it should be'}; now, as {'root' if system else 'yourself'}:", err=True)
    print("\n".join(following))


def unit(python: Path, *, system: bool) -> str:
    """The unit's text. Raises `Invalid` where a user of its own could not run this installation."""
    command = f"{python} -m postroom.cli.main"
    if any(char.isspace() or char in "%\"'\\$" for char in str(python)):
        raise Invalid("the path of this installation has characters a unit cannot hold", fix="install it under a plain path")
    if not system:
        return _UNIT.format(command=command, data="", more="", wanted_by="default.target")
    if any(python.is_relative_to(home) for home in ("/home", "/root", "/run/user")) or not _for_all(python):
        raise Invalid(
            "a service of the system cannot use an installation only its owner can read",
            fix="install postroom for everybody, for example in /opt/postroom, and run that one's command",
        )
    return _UNIT.format(command=command, data=f" --data {SYSTEM_DATA}", more=_OWN_USER, wanted_by="multi-user.target")


def _for_all(path: Path) -> bool:
    """May everybody enter every folder above it?"""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


def _user_units() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def _write(path: Path, text: str, *, force: bool) -> bool:
    """Whether it was written; False when it is there already. Raises `Conflict` for another one, `Invalid` without the right."""
    try:
        if path.exists():
            if path.read_text(encoding="utf-8") == text:
                return False
            if not force:
                raise Conflict(f"{path} is there and differs", fix="look at it, then give --force")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
    except PermissionError:
        raise Invalid(f"{path} may not be written by this user", fix="run it as root, or give --to a folder of yours") from None
    return True
