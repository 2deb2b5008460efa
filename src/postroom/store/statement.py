"""Statements: SQLAlchemy Core compiled once per dialect, then run on the driver's own cursor.

Building and compiling per call costs eight times the statement itself, so a room keeps its
statements as module constants: `GET = sql(select(t.c.a).where(t.c.id == bindparam("id")))`.
The few forms whose SQL differs between engines (upsert, lists) are made here, nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, Select, Table, bindparam, column, select
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import Text, TypeDecorator


class Compiled:
    """One statement's text for one dialect, with the values its literals stand for."""

    __slots__ = ("_defaults", "_lists", "text")

    def __init__(self, text: str, defaults: Mapping[str, Any], lists: Sequence[str]) -> None:
        self.text = text
        self._defaults = dict(defaults)
        self._lists = tuple(lists)

    def bind(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters to hand to the driver."""
        if not self._defaults and not self._lists:
            return params
        values = {**self._defaults, **params}
        for name in self._lists:
            values[name] = json.dumps([_clean(value) for value in values[name]])
        return values


def _clean(value: Any) -> Any:
    """No engine finds text with a NUL in a JSON array, and PostgreSQL refuses such an array whole."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


class Statement:
    """A Core construct, compiled the first time each dialect runs it."""

    __slots__ = ("_build", "_compiled")

    def __init__(self, build: Callable[[str], ClauseElement]) -> None:
        self._build = build
        self._compiled: dict[str, Compiled] = {}

    def on(self, dialect: str) -> Compiled:
        found = self._compiled.get(dialect)
        if found is None:
            found = self._compiled[dialect] = _compile(self._build(dialect), dialect)
        return found


def sql(construct: ClauseElement) -> Statement:
    """A statement from a construct both engines share."""
    return Statement(lambda _dialect: construct)


def insert_or_ignore(table: Table, columns: Sequence[str]) -> Statement:
    """INSERT that does nothing (`run` answers 0) when any unique key is taken. Parameters: the columns."""
    return Statement(lambda dialect: _insert(dialect)(table).values(_parameters(columns)).on_conflict_do_nothing())


def upsert(
    table: Table,
    columns: Sequence[str],
    key: Sequence[str],
    update: Sequence[str],
    *,
    where: Callable[[Any], Any] | None = None,
) -> Statement:
    """INSERT; where `key` is taken, set the `update` columns to the new values.

    `where` is given the row that was offered (`excluded`) and may restrict the update.
    """

    def build(dialect: str) -> ClauseElement:
        offered = _insert(dialect)(table).values(_parameters(columns))
        statement: ClauseElement = offered.on_conflict_do_update(
            index_elements=list(key),
            set_={name: offered.excluded[name] for name in update},
            where=where(offered.excluded) if where else None,
        )
        return statement

    return Statement(build)


def in_list(name: str) -> Select[Any]:
    """The right side of `column.in_(in_list("ids"))`; pass `ids=[…]` of any length, even none."""
    elements = _Elements(list_parameter(name)).table_valued(column("value"))
    return select(elements.c.value)


def list_parameter(name: str) -> BindParameter[Any]:
    """A parameter that is a list and travels as one JSON array."""
    return bindparam(name, type_=_JsonArray())


class _JsonArray(TypeDecorator[Any]):
    """Marks a parameter that is a list and travels as one JSON array."""

    impl = Text
    cache_ok = True


class _Elements(FunctionElement[Any]):
    """The elements of a JSON array as rows."""

    name = "elements"
    inherit_cache = True


@compiles(_Elements, "sqlite")
def _elements_sqlite(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Elements, "postgresql")
def _elements_postgresql(element: _Elements, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(CAST({compiler.process(element.clauses, **options)} AS json))"


def _parameters(columns: Sequence[str]) -> dict[str, Any]:
    return {name: bindparam(name) for name in columns}


def _insert(dialect: str) -> Any:
    """The dialect's own INSERT, which knows ON CONFLICT."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert
    from sqlalchemy.dialects import sqlite

    return sqlite.insert


def _dialect(name: str) -> Dialect:
    if name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]  # SQLAlchemy's constructor is untyped
    from sqlalchemy.dialects import sqlite

    return sqlite.dialect(paramstyle="named")


def _compile(construct: ClauseElement, dialect: str) -> Compiled:
    compiled = construct.compile(dialect=_dialect(dialect))
    if not isinstance(compiled, SQLCompiler):
        return Compiled(str(compiled), {}, ())
    required = {name for name, bind in compiled.binds.items() if bind.required}
    lists = [name for name, bind in compiled.binds.items() if isinstance(bind.type, _JsonArray)]
    expanded = compiled.construct_expanded_state(dict.fromkeys(required))  # writes out lists of literals
    defaults = {name: value for name, value in expanded.parameters.items() if name not in required}
    return Compiled(expanded.statement, defaults, lists)
