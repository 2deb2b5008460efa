"""`endpoint.json`: where the process that owns a data folder listens. Standard library only: plumbing reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

NAME: Final = "endpoint.json"


def write_endpoint(folder: Path, info: Mapping[str, Any]) -> None:
    """Announce `{pid, http, smtp, version}`; readers see the old file or the new one, never half of it."""
    temporary = folder / f"{NAME}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(dict(info), file)
    temporary.replace(folder / NAME)


def read_endpoint(folder: Path) -> dict[str, Any] | None:
    """What the owner announced, or None when nobody did. It may have died since: ask it, do not trust it."""
    try:
        info = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) else None


def remove_endpoint(folder: Path) -> None:
    """Take the announcement back, if it is ours."""
    info = read_endpoint(folder)
    if info is not None and info.get("pid") == os.getpid():
        (folder / NAME).unlink(missing_ok=True)
