"""The file `owner.key`: the owner's token, readable by the owner alone, written once.

Whoever may write this file owns the data folder, so a well-formed token found here is the owner's
key even if the store has not heard of it yet (a crash between file and store). Deleting the file
and restarting makes a new key and revokes the old one.
"""

from __future__ import annotations

import os
from pathlib import Path

from postroom.errors import Invalid

NAME = "owner.key"
_MODE = 0o600


def read(folder: Path) -> str | None:
    """The token in the file, None without a file. Closes the file to others if it was open to them."""
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise Invalid(f"{NAME} in the data folder cannot be read: {problem.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        if os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, _MODE)
        return file.read(256).decode("ascii", "replace").strip()


def write(folder: Path, token: str) -> None:
    """Write the file, which must not exist yet, and make it durable before returning."""
    handle = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(token.encode("ascii") + b"\n")
        file.flush()
        os.fsync(handle)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
