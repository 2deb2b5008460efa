"""One spelling for one value: canonical JSON, so that a hash means the content and not its layout.

RFC 8785 for the values a ledger entry has: null, booleans, integers that every JSON reader holds
exactly, strings, lists, objects with string keys. Object keys are ordered by UTF-16 code units, strings
are escaped as little as JSON allows. Floats are refused: their spelling is where implementations differ.
Bytes are not JSON; callers put their hash in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_INTEGER = 2**53 - 1


def canonical(value: Any) -> bytes:
    """The canonical UTF-8 of `value`. Raises ValueError for what has no canonical form."""
    return json.dumps(_checked(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _checked(value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ValueError("an integer beyond 2^53 has no canonical form")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("an object's keys are strings")
        return {key: _checked(value[key]) for key in sorted(value, key=_utf16)}
    if isinstance(value, tuple | list):
        return [_checked(each) for each in value]
    raise ValueError(f"a {type(value).__name__} has no canonical form")


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
