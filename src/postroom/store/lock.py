"""One process owns a data folder: an advisory lock that dies with its holder. POSIX only."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from postroom.errors import InUse
from postroom.store.folder import make_folder


class FolderLock:
    """Held from construction to `release`. Raises `InUse` naming the process that has it."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        path = folder / "lock"
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip()
            os.close(self._file)
            whom = f"process {holder}" if holder.isdigit() else "another process"
            raise InUse(
                f"{whom} is using the data folder {folder}", fix="stop it, or choose another folder with --data"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._file)  # the file stays: removing it would let two processes lock two files of one name
