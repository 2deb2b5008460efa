"""The name a sender gave an attachment, made harmless: a name, never a path.

What is left may be shown and offered as a suggestion; files are stored under names of our own.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_NAME_CHARS: Final = 255


def safe_filename(name: str | None) -> str | None:
    """The last component of `name` without control characters; None if nothing is left."""
    if not name:
        return None
    last = _CONTROL.sub(" ", name).replace("\\", "/").rstrip("/ ").rpartition("/")[2]
    last = " ".join(last.split(" ")).strip().strip('"')
    if len(last) > _NAME_CHARS:
        stem, dot, suffix = last.rpartition(".")
        last = f"{stem[: _NAME_CHARS - 1 - len(suffix)]}.{suffix}" if dot and 0 < len(suffix) <= 16 else last[:_NAME_CHARS]
    return None if last in {"", ".", ".."} else last
