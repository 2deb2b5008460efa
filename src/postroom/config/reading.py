"""A TOML document and the environment become the config's shapes, or an error that names the key at fault."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from postroom.config.checks import check
from postroom.config.shapes import Config
from postroom.errors import Invalid

_LARGEST = 2**53


def load(path: Path | None, environ: Mapping[str, str] | None = None) -> Config:
    """Read `path` (None: defaults) and the environment. Raises `Invalid` naming the key at fault."""
    document: dict[str, Any] = {}
    if path is not None:
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Invalid(f"there is no config file at {path}", fix="check --config or POSTROOM_CONFIG") from None
        except OSError as problem:
            raise Invalid(f"{path} cannot be read: {problem.strerror}", fix="check --config or POSTROOM_CONFIG") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise Invalid(f"{path} is not valid TOML: {problem}") from None
    _overlay(document, os.environ if environ is None else environ)
    config: Config = _build(Config, document, "")
    check(config)
    return config


def _overlay(document: dict[str, Any], environ: Mapping[str, str]) -> None:
    sections = {entry.name for entry in fields(Config)}
    for name, value in environ.items():
        if not name.startswith("POSTROOM_") or "__" not in name:
            continue
        path = name.removeprefix("POSTROOM_").lower().split("__")
        if path[0] not in sections:
            raise Invalid(f"{name} names no section of the config{_nearest(path[0], sections)}")
        table = document
        for part in path[:-1]:
            table = table.setdefault(part, {})
        table[path[-1]] = _EnvText(value)


class _EnvText(str):
    """A value from the environment: text that still has to become its key's type."""

    __slots__ = ()


def _build(kind: Any, table: Any, at: str) -> Any:
    if not isinstance(table, Mapping):
        raise Invalid(f"{at or 'the config'} must be a table")
    hints = get_type_hints(kind)
    known = {entry.name for entry in fields(kind)}
    for key in table:
        if key not in known:
            raise Invalid(f"unknown config key {_join(at, key)}{_nearest(key, known)}")
    values = {key: _convert(hints[key], value, _join(at, key)) for key, value in table.items()}
    for entry in fields(kind):
        if entry.name not in values and entry.default is MISSING and entry.default_factory is MISSING:
            raise Invalid(f"{_join(at, entry.name)} is required")
    return kind(**values)


def _convert(hint: Any, value: Any, at: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(value, _EnvText) and (origin in (tuple, Mapping) or is_dataclass(hint) or _is_mapping(origin)):
        value = _from_json(value, at)
    if is_dataclass(hint):
        return _build(hint, value, at)
    if _is_mapping(origin):
        return {key: _convert(args[1], item, _join(at, key)) for key, item in _table(value, at).items()}
    if origin is tuple:
        if not isinstance(value, list):
            raise Invalid(f"{at} must be a list")
        return tuple(_convert(args[0], item, f"{at}[{index}]") for index, item in enumerate(value))
    if origin in (types.UnionType, Union):
        return None if value is None else _convert(next(arg for arg in args if arg is not type(None)), value, at)
    if origin is Literal:
        if str(value) not in args:
            raise Invalid(f"{at} must be one of {', '.join(args)}")
        return str(value)
    return _scalar(hint, value, at)


def _scalar(hint: Any, value: Any, at: str) -> Any:
    if isinstance(value, _EnvText) and hint is not str:
        value = _from_json(value.lower() if hint is bool else value, at)
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is _EnvText:
        return str(value)
    if type(value) is not hint:
        words = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise Invalid(f"{at} must be {words[hint]}")
    if hint in (int, float) and value < 0:
        raise Invalid(f"{at} must not be negative")
    if hint in (int, float) and not value <= _LARGEST:  # not a number is no limit either
        raise Invalid(f"{at} must be a number below {_LARGEST}")
    return value


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _table(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{at} must be a table")
    return value


def _from_json(value: str, at: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        raise Invalid(f"{at}: the environment's value is not valid JSON for this key") from None


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def _nearest(key: str, known: set[str]) -> str:
    near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.4)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"
