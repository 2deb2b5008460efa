"""`postroom doctor`: is everything as it should be, and is the gate a wall or a rule for whoever asks?

It needs no daemon. With one, the daemon judges the boundary for the user this command runs as, and every
client that is connected is tried with the very command in its configuration, or with the harness itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from postroom import config
from postroom.cli import hosts
from postroom.cli.connect import dsh_probe, probe
from postroom.cli.connect.commands import connected
from postroom.cli.options import HTTP, serve_options
from postroom.client import connect
from postroom.errors import PostroomError, TransportFailure, Unauthorized

Verdict = Literal["ok", "note", "wrong"]


class Check(NamedTuple):
    """One line of the report."""

    what: str
    verdict: Verdict
    said: str


def checks(folder: Path) -> Iterator[Check]:
    """All checks, in order."""
    yield _folder(folder)
    yield _owner_key(folder)
    yield from _config(folder)
    yield from _daemon(folder)
    yield from _clients()


def _folder(folder: Path) -> Check:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return Check("data folder", "note", f"{folder} does not exist yet; the first start makes it")
    except OSError as problem:
        return Check("data folder", "note", f"{folder} is closed to this user ({problem.strerror})")
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        return Check("data folder", "wrong", f"{folder} is open to other users (mode {mode:04o}); run: chmod 700 {folder}")
    return Check("data folder", "ok", f"{folder}, mode {mode:04o}")


def _owner_key(folder: Path) -> Check:
    try:
        mode = stat.S_IMODE((folder / "owner.key").stat().st_mode)
    except FileNotFoundError:
        return Check("owner key", "note", "there is none yet; the first start makes it")
    except OSError as problem:
        return Check("owner key", "note", f"out of this user's reach ({problem.strerror})")
    if mode & 0o077:
        return Check(
            "owner key", "wrong", f"owner.key is open to other users (mode {mode:04o}); run: chmod 600 {folder}/owner.key"
        )
    return Check("owner key", "ok", f"owner.key, mode {mode:04o}")


def _config(folder: Path) -> Iterator[Check]:
    try:
        options = serve_options(config=None, data=folder, http=HTTP, smtp="off")
        found = config.load(options.config_path)
    except PostroomError as problem:
        yield Check("config", "wrong", problem.message)
        return
    except OSError as problem:
        yield Check("config", "note", f"out of this user's reach ({problem.strerror})")
        return
    yield Check("config", "ok", str(options.config_path or "defaults"))
    for name, reason in hosts.missing(found.agents):
        yield Check(f"agent {name}", "wrong", reason)


def _daemon(folder: Path) -> Iterator[Check]:
    try:
        health = connect(folder).get("/api/health")
    except (TransportFailure, Unauthorized) as problem:
        yield Check("daemon", "note", f"{problem.message}; {problem.fix}")
        yield Check("gate", "note", _without_daemon(folder))
        return
    except PostroomError as problem:
        yield Check("daemon", "wrong", problem.message)
        return
    yield Check("daemon", "ok" if health["status"] == "ok" else "wrong", f"version {health['version']}, {health['status']}")
    yield Check("gate", "ok", f"{health['boundary']}: {health['boundary_reason']}")


def _without_daemon(folder: Path) -> str:
    if os.access(folder / "owner.key", os.R_OK):
        return "rule: this user can read the owner's key"
    if not folder.exists():
        return "not known before the first start"
    return "this user cannot read the owner's key; the running daemon says whether that makes a wall"


def _clients() -> Iterator[Check]:
    for name, server in connected().items():
        try:
            yield Check(f"client {name}", "ok", probe.reached(server))
        except TransportFailure as problem:
            yield Check(f"client {name}", "wrong", f"{problem.message}; {problem.fix}")
    for profile, row in dsh_probe.profiles():
        try:
            yield Check(f"client dsh {profile}", "ok", dsh_probe.reached(profile, row))
        except TransportFailure as problem:
            yield Check(f"client dsh {profile}", "wrong", f"{problem.message}; {problem.fix}")
