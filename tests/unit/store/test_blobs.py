"""Blobs come back byte for byte, or as an error; never damaged, never half."""

import asyncio
import importlib
import os
import stat
from pathlib import Path

import pytest
from sqlalchemy import bindparam, delete

import postroom
from pace import PATIENCE_S
from postroom.errors import NotFound, StorageFailure
from postroom.gate.tables import outgoing_blob
from postroom.limits import BLOB_INLINE_BYTES
from postroom.store import schema
from postroom.store.blobs import Blobs
from postroom.store.engine import Store
from postroom.store.statement import insert_or_ignore, sql

_HOLD = insert_or_ignore(outgoing_blob, ("outgoing_id", "blob"))
_LET_GO = sql(delete(outgoing_blob).where(outgoing_blob.c.outgoing_id == bindparam("outgoing_id")))
SMALL = b"s" * BLOB_INLINE_BYTES
LARGE = b"l" * (BLOB_INLINE_BYTES + 1)


async def keep(store: Store, data: bytes) -> str:
    sha = await store.blobs.put(data)
    await store.write(lambda tx: store.blobs.link(tx, sha, data))
    return sha


def files(store: Store) -> list[Path]:
    folder = store.blobs._folder
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder else []


@pytest.mark.parametrize("data", [b"", b"x", SMALL, LARGE, LARGE * 20], ids=len)
async def test_bytes_come_back_as_they_were(store: Store, data: bytes) -> None:
    sha = await keep(store, data)

    assert await keep(store, data) == sha
    assert await store.blobs.get(sha) == data
    assert store.read_now(lambda reader: store.blobs.get_in(reader, sha)) == data


async def test_only_large_blobs_are_files_and_only_their_owner_reads_them(on_disk: Store) -> None:
    await keep(on_disk, SMALL)
    assert files(on_disk) == []

    sha = await keep(on_disk, LARGE)
    (path,) = files(on_disk)
    assert path.relative_to(on_disk.blobs._folder) == Path(sha[:2]) / sha
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_file_may_be_linked_without_its_bytes_and_a_stranger_may_not(store: Store) -> None:
    sha = await store.blobs.put(LARGE)
    if store.blobs._folder is None:
        with pytest.raises(NotFound):
            await store.write(lambda tx: store.blobs.link(tx, sha, None))
        await store.write(lambda tx: store.blobs.link(tx, sha, LARGE))
    await store.write(lambda tx: store.blobs.link(tx, sha, None))

    assert await store.blobs.get(sha) == LARGE
    with pytest.raises(NotFound):
        await store.write(lambda tx: store.blobs.link(tx, "0" * 64, None))
    with pytest.raises(NotFound):
        await store.blobs.get("0" * 64)


async def test_damaged_or_missing_bytes_are_an_error(on_disk: Store) -> None:
    sha = await keep(on_disk, LARGE)
    (path,) = files(on_disk)
    path.write_bytes(b"X" + LARGE[1:])
    with pytest.raises(StorageFailure) as damaged:
        await on_disk.blobs.get(sha)
    path.unlink()
    with pytest.raises(StorageFailure) as missing:
        await on_disk.blobs.get(sha)

    assert (damaged.value.code, missing.value.code) == ("corrupt", "corrupt")


async def test_a_sweep_removes_old_files_no_row_refers_to(on_disk: Store) -> None:
    kept = await keep(on_disk, LARGE)
    dropped = await keep(on_disk, LARGE + b"dropped")
    await on_disk.blobs.put(LARGE + b"young")
    await on_disk.write(lambda tx: on_disk.blobs.release(tx, [dropped]))
    for path in files(on_disk):
        if path.name in (kept, dropped):
            os.utime(path, (0, 0))

    assert await on_disk.blobs.sweep() == 1
    assert dropped not in {path.name for path in files(on_disk)}
    assert len(files(on_disk)) == 2
    assert await on_disk.blobs.get(kept) == LARGE
    with pytest.raises(NotFound):
        await on_disk.blobs.get(dropped)


async def test_a_blob_goes_with_the_last_row_that_names_it(store: Store) -> None:
    sha = await keep(store, SMALL)
    await store.write(lambda tx: tx.run(_HOLD, outgoing_id="out_1", blob=sha))
    await store.write(lambda tx: tx.run(_HOLD, outgoing_id="out_2", blob=sha))
    for outgoing_id in ("out_1", "out_2"):
        await store.write(lambda tx: store.blobs.release(tx, [sha, "0" * 64]))
        assert await store.blobs.get(sha) == SMALL
        await store.write(lambda tx, which=outgoing_id: tx.run(_LET_GO, outgoing_id=which))  # type: ignore[misc]  # binds the loop's value
    await store.write(lambda tx: store.blobs.release(tx, [sha]))
    with pytest.raises(NotFound):
        await store.blobs.get(sha)


def test_every_column_that_names_a_blob_is_known_to_the_store() -> None:
    """One left out would have its bytes collected."""
    for tables in Path(postroom.__file__).parent.glob("*/tables.py"):
        importlib.import_module(f"postroom.{tables.parent.name}.tables")
    named = {
        (table.name, column.name) for table in schema.metadata.tables.values() for column in table.c if column.name == "blob"
    }
    assert named == set(schema.BLOB_HOLDERS)


async def test_a_blob_put_again_after_its_row_went_is_whole(on_disk: Store) -> None:
    sha = await keep(on_disk, LARGE)
    await on_disk.write(lambda tx: on_disk.blobs.release(tx, [sha]))
    assert await keep(on_disk, LARGE) == sha
    assert await on_disk.blobs.sweep() == 0
    assert await on_disk.blobs.get(sha) == LARGE


async def test_it_sweeps_by_itself_and_goes_on_after_a_failure(on_disk: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postroom.store.blobs.FIRST_SWEEP_S", 0)
    monkeypatch.setattr("postroom.store.blobs.SWEEP_S", 0)
    outcomes: list[object] = [StorageFailure("the disk"), 1, PermissionError("the folder"), 0]
    done = asyncio.Event()

    async def sweep(self: Blobs) -> object:
        outcome = outcomes.pop(0) if outcomes else 0
        if not outcomes:
            done.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(Blobs, "sweep", sweep)
    task = asyncio.create_task(on_disk.blobs.run())
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_file_put_again_is_young_again(on_disk: Store) -> None:
    sha = await on_disk.blobs.put(LARGE)
    os.utime(files(on_disk)[0], (0, 0))
    assert await on_disk.blobs.put(LARGE) == sha

    assert await on_disk.blobs.sweep() == 0


async def test_a_truncated_file_is_written_again(on_disk: Store) -> None:
    sha = await keep(on_disk, LARGE)
    files(on_disk)[0].write_bytes(b"half")
    await on_disk.blobs.put(LARGE)

    assert await on_disk.blobs.get(sha) == LARGE
