"""Who owns a data folder, and how others find it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pace import PATIENCE_S
from postroom.errors import InUse
from postroom.store.endpoint import read_endpoint, remove_endpoint, write_endpoint
from postroom.store.lock import FolderLock


def test_a_second_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    program = f"from pathlib import Path; from postroom.store.lock import FolderLock; FolderLock(Path({str(tmp_path)!r}))"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    lock.release()

    assert child.returncode == 1
    assert f"process {os.getpid()} is using the data folder {tmp_path}" in child.stderr
    FolderLock(tmp_path).release()


def test_a_lock_file_of_a_dead_owner_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("999999999")
    lock = FolderLock(tmp_path)

    assert (tmp_path / "lock").read_text() == str(os.getpid())
    with pytest.raises(InUse):
        FolderLock(tmp_path)
    lock.release()


def test_an_endpoint_is_announced_whole_and_taken_back_by_its_owner(tmp_path: Path) -> None:
    assert read_endpoint(tmp_path) is None
    write_endpoint(tmp_path, {"pid": 1, "http": "http://127.0.0.1:1", "smtp": "", "version": "0"})
    remove_endpoint(tmp_path)
    assert read_endpoint(tmp_path) == {"pid": 1, "http": "http://127.0.0.1:1", "smtp": "", "version": "0"}

    write_endpoint(tmp_path, {"pid": os.getpid()})
    assert stat.S_IMODE((tmp_path / "endpoint.json").stat().st_mode) == 0o600
    remove_endpoint(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_endpoint_is_none(tmp_path: Path) -> None:
    (tmp_path / "endpoint.json").write_text("[1]")
    assert read_endpoint(tmp_path) is None
    (tmp_path / "endpoint.json").write_bytes(b"\xff")
    assert read_endpoint(tmp_path) is None


def test_plumbing_reads_the_endpoint_with_the_standard_library_only() -> None:
    program = "import sys, postroom.store.endpoint; sys.exit('sqlalchemy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S).returncode == 0
