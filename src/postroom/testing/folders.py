"""A data folder for one test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temp_data_folder() -> Iterator[Path]:
    """An empty folder only its owner can read, removed with all it holds."""
    with tempfile.TemporaryDirectory(prefix="postroom-") as name:
        yield Path(name)
