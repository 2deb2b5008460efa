"""A person's configuration files: what of ours goes in, and comes out again so that nothing of theirs is lost.

A file that nothing else has changed since goes back to the bytes it had. One that its owner or the client
changed meanwhile keeps those changes and loses only what is ours. Files are replaced at once, never half.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer

from postroom.errors import Invalid

_COPY: Final = ".before-postroom"
_PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file. `put` gives its text with ours in it, `take` without; an absent file is the empty text."""

    path: Path
    put: Callable[[str], str]
    take: Callable[[str], str]


def show(changes: Iterable[Change]) -> None:
    """What would be written into each file, were there nothing else in it."""
    for change in changes:
        print(f"# {change.path}\n{change.put('').rstrip()}\n")


def check(changes: Iterable[Change]) -> None:
    """Raise `Invalid` if one of the files is such that ours cannot be put into it."""
    for change in changes:
        change.put(_read(change.path))


def install(changes: Iterable[Change]) -> None:
    """Put ours into every file, keep a copy of each as it was, and say what changed."""
    for change in changes:
        before = _read(change.path)
        after = change.put(before)
        if after == before:
            continue
        copy = _copy(change.path)
        if change.path.exists() and not copy.exists() and change.take(before) == before:
            shutil.copy2(change.path, copy)
        _say(change.path, change.take(after), after)
        _write(change.path, after)


def remove(changes: Iterable[Change]) -> None:
    """Take ours out of every file."""
    for change in changes:
        now, copy = _read(change.path), _copy(change.path)
        if not now:
            continue
        after = change.take(now)
        before = _read(copy)
        if change.take(change.put(before)) == change.take(change.put(now)):
            after = before  # nothing but ours was changed
        if after != now:
            _say(change.path, now, change.take(now))
            _replace(change.path, after, keep=copy.exists())
        copy.unlink(missing_ok=True)


def owned(path: Path, text: str, mark: str) -> Change:
    """A file that is wholly ours, known by a mark in it. One of that name without the mark is a person's and stays."""
    return Change(
        path=path,
        put=lambda now: text if not now or mark in now else now,
        take=lambda now: "" if mark in now else now,
    )


def _copy(path: Path) -> Path:
    return path.with_name(path.name + _COPY)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 text", fix="--print shows what to write into it by hand") from None


def _replace(path: Path, text: str, *, keep: bool) -> None:
    if text or keep:
        _write(path, text)
        return
    path.unlink()
    with contextlib.suppress(OSError):
        path.parent.rmdir()  # a folder that is empty now was made for it


def _write(path: Path, text: str) -> None:
    place = path.resolve()  # a link to a file kept elsewhere stays a link
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f"{place.name}.new-{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode())
    if place.exists():
        shutil.copymode(place, new)
    new.replace(place)


def _say(path: Path, before: str, after: str) -> None:
    changes = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=1)
    typer.echo("\n".join(changes), err=True)
