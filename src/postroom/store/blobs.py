"""Blobs: bytes under their SHA-256. Small ones live in the row, larger ones in a file beside the database.

A file is complete and synced, and so is its folder, before the transaction that refers to it
begins; so a row never names bytes that are not there. What comes back is hashed again: damaged
bytes are an error, never an answer.

Many rows may name one blob. Whoever takes its row away says so with `release` in the same transaction,
and the blob goes with the last of them; its file goes later, so a crash in between leaves too much,
never too little.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import Select, and_, bindparam, column, delete, exists, not_, select, table

from postroom.errors import NotFound, StorageFailure
from postroom.limits import BLOB_INLINE_BYTES
from postroom.store import schema
from postroom.store.folder import make_folder, sync_folder
from postroom.store.statement import in_list, insert_or_ignore, sql
from postroom.store.transaction import Reader, Tx

GRACE_S: Final = 3600.0  # a file nobody refers to may be younger than the transaction that is going to
FIRST_SWEEP_S: Final = 600.0  # after the start
SWEEP_S: Final = 24 * 3600.0

_blob = schema.blob.c
_GET = sql(select(_blob.data, _blob.size).where(_blob.sha == bindparam("sha")))
_KNOWN = sql(select(_blob.size).where(_blob.sha == bindparam("sha")))
_LINK = insert_or_ignore(schema.blob, ["sha", "size", "data"])
_HOLDERS: Final[tuple[Select[Any], ...]] = tuple(
    select(column(name)).select_from(table(of)).where(column(name) == _blob.sha) for of, name in schema.BLOB_HOLDERS
)
_RELEASE = sql(delete(schema.blob).where(and_(_blob.sha.in_(in_list("shas")), *(not_(exists(holder)) for holder in _HOLDERS))))

log = structlog.get_logger("postroom.store")


class Blobs:
    """Raw mail and attachments. `folder` None (a database in memory): every blob is in its row."""

    def __init__(self, folder: Path | None, read: Callable[[Callable[[Reader], Any]], Awaitable[Any]]) -> None:
        self._folder = folder
        self._read = read
        self._files = threading.Lock()  # between `put` finding a file and `sweep` removing it

    async def put(self, data: bytes) -> str:
        """Make the bytes durable as far as a file can be (small ones wait for `link`); answers their SHA-256."""
        sha = sha_of(data)
        if self._is_file(len(data)):
            await asyncio.to_thread(self._store, sha, data)
        return sha

    def link(self, tx: Tx, sha: str, data: bytes | None) -> None:
        """The blob's row. `data` may be None when the row exists or `put` made a file. Idempotent."""
        if data is None:
            if tx.one(_KNOWN, sha=sha) is not None:
                return
            tx.run(_LINK, sha=sha, size=self._size(sha), data=None)
            return
        tx.run(_LINK, sha=sha, size=len(data), data=None if self._is_file(len(data)) else data)

    def release(self, tx: Tx, shas: Collection[str]) -> None:
        """A row that named each of these is gone: forget those no other row names. Their files go with the next sweep."""
        if shas:
            tx.run(_RELEASE, shas=list(shas))

    async def get(self, sha: str) -> bytes:
        """The bytes. Raises `NotFound`, or `StorageFailure` when they are damaged."""
        data: bytes = await self._read(lambda reader: self.get_in(reader, sha))
        return data

    def get_in(self, reader: Reader, sha: str) -> bytes:
        row = reader.one(_GET, sha=sha)
        if row is None:
            raise NotFound("there is no such blob")
        data = bytes(row[0]) if row[0] is not None else self._load(sha)
        if sha_of(data) != sha:
            raise _damaged(sha)
        return data

    async def run(self) -> None:
        """Sweep some time after the start and once a day, until cancelled."""
        pause = FIRST_SWEEP_S
        while True:
            await asyncio.sleep(pause)
            pause = SWEEP_S
            try:
                removed = await self.sweep()
            except (StorageFailure, OSError) as problem:  # the next one finds the same
                log.warning("blobs_not_swept", reason=type(problem).__name__)
            else:
                log.info("blobs_swept", removed=removed)

    async def sweep(self) -> int:
        """Remove files no row refers to; answers how many."""
        folders = [] if self._folder is None else await asyncio.to_thread(sorted, self._folder.glob("??"))
        removed = 0
        for folder in folders:  # one at a time: a long look would keep the log of writes from being cut
            removed += await self._read(partial(self._sweep, folder))
        return removed

    def _is_file(self, size: int) -> bool:
        return self._folder is not None and size > BLOB_INLINE_BYTES

    def _path(self, sha: str) -> Path:
        if self._folder is None:
            raise NotFound("there is no such blob")
        return self._folder / sha[:2] / sha

    def _store(self, sha: str, data: bytes) -> None:
        path = self._path(sha)
        try:
            with self._files:
                if path.exists() and path.stat().st_size == len(data):
                    os.utime(path)  # young again, so that no sweep takes it before it is linked
                    sync_folder(path.parent)  # whoever wrote it may not have come to this yet
                    return
            _write_durably(path, data)
        except OSError as problem:
            raise StorageFailure(
                f"the disk did not take the mail ({problem.strerror}); nothing of this was stored",
                fix="free disk space or check the disk, then try again",
            ) from problem

    def _size(self, sha: str) -> int:
        try:
            return self._path(sha).stat().st_size
        except OSError:
            raise NotFound("there is no such blob") from None

    def _load(self, sha: str) -> bytes:
        try:
            return self._path(sha).read_bytes()
        except OSError as problem:
            raise _damaged(sha) from problem

    def _sweep(self, folder: Path, reader: Reader) -> int:
        before = time.time() - GRACE_S
        return sum(self._remove(reader, path, before) for path in folder.iterdir())

    def _remove(self, reader: Reader, path: Path, before: float) -> bool:
        if reader.one(_KNOWN, sha=path.name) is not None:
            return False
        with self._files:
            if path.stat().st_mtime > before:
                return False
            path.unlink()
            return True


def sha_of(data: bytes) -> str:
    """The name of a blob with these bytes."""
    return hashlib.sha256(data).hexdigest()


def _write_durably(path: Path, data: bytes) -> None:
    """Temporary file, fsync, rename, fsync of every folder that got a new name in it."""
    make_folder(path.parent.parent)
    make_folder(path.parent)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _damaged(sha: str) -> StorageFailure:
    return StorageFailure(
        f"the stored bytes {sha[:12]}… are damaged or missing",
        code="corrupt",
        fix="run `postroom data verify`, then restore them from a backup",
    )
