"""Our entries in a JSON file of a client: a value at a path, and a group in each list of hooks.

Keys keep their order, the file its indent. A container that is empty without us goes with us.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from postroom.cli.connect.files import Change
from postroom.errors import Invalid

Tree: TypeAlias = dict[str, Any]
_INDENT: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """`values` by the path of keys where each stands; `hooks` by event, one group each; `entries` of a list at a path."""

    values: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    hooks: Mapping[str, Any] = field(default_factory=dict)
    entries: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    mark: str = ""  # what only our hooks hold


def change(path: Path, ours: Ours, every: Ours | None = None) -> Change:
    """The change that puts ours into the file. `every` is all that may stand there from an earlier time, if it is more."""
    known = every or ours

    def put(tree: Tree) -> None:
        _take(tree, known)
        _put(tree, ours)

    return Change(
        path=path,
        put=lambda text: _edited(path, text, put),
        take=lambda text: _edited(path, text, lambda tree: _take(tree, known)),
    )


def read(path: Path) -> Tree:
    """The object in the file; empty when there is none to read."""
    try:
        return _parsed(path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, Invalid):
        return {}


def _edited(path: Path, text: str, edit: Callable[[Tree], None]) -> str:
    tree = _parsed(path, text)
    before = copy.deepcopy(tree)
    edit(tree)
    if tree == before and text:
        return text
    if not tree:
        return ""
    found = _INDENT.search(text)
    end = "" if text and not text.endswith("\n") else "\n"
    return json.dumps(tree, indent=found[1] if found else 2, ensure_ascii=False) + end


def _parsed(path: Path, text: str) -> Tree:
    try:
        tree = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise Invalid(f"{path} is not plain JSON", fix="--print shows what to write into it by hand") from None
    if not isinstance(tree, dict):
        raise Invalid(f"{path} is not a JSON object", fix="--print shows what to write into it by hand")
    return tree


def _put(tree: Tree, ours: Ours) -> None:
    for path, value in ours.values.items():
        _container(tree, path[:-1], {})[path[-1]] = value
    for path, entry in ours.entries.items():
        _container(tree, path, []).append(entry)
    for event, group in ours.hooks.items():
        _container(tree, ("hooks", event), []).append(group)


def _take(tree: Tree, ours: Ours) -> None:
    for path in ours.values:
        holder = _at(tree, path[:-1])
        if isinstance(holder, dict) and path[-1] in holder:
            del holder[path[-1]]
            _prune(tree, path[:-1])
    for path, entry in ours.entries.items():
        _drop(tree, path, entry.__eq__)
    events = tree.get("hooks")
    for event in list(events) if ours.mark and isinstance(events, dict) else ():
        _drop(tree, ("hooks", event), lambda group: ours.mark in json.dumps(group))


def _drop(tree: Tree, path: Sequence[str], is_ours: Callable[[Any], bool]) -> None:
    """Take our entries out of a list."""
    found = _at(tree, path)
    if isinstance(found, list) and any(map(is_ours, found)):
        found[:] = [one for one in found if not is_ours(one)]
        _prune(tree, path)


def _prune(tree: Tree, path: Sequence[str]) -> None:
    """Delete the container at the path, and those around it, as long as they are empty."""
    for length in range(len(path), 0, -1):
        holder = _at(tree, path[: length - 1])
        if holder[path[length - 1]] not in ({}, []):
            return
        del holder[path[length - 1]]


def _at(tree: Any, path: Sequence[str]) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _container(tree: Tree, path: Sequence[str], empty: Any) -> Any:
    """The object or list at the path, made where it is missing."""
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
        _must_be(tree, dict, key)
    if not path:
        return tree
    found = tree.setdefault(path[-1], copy.deepcopy(empty))
    _must_be(found, type(empty), path[-1])
    return found


def _must_be(found: Any, kind: type, key: str) -> None:
    if not isinstance(found, kind):
        raise Invalid(f"{key} in the client's file is not what it should be", fix="--print shows what to write into it by hand")
