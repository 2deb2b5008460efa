"""Stores to test with: the same promises over a WAL file and in memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from sqlalchemy import Column, Index, Integer, MetaData, Table, Text, bindparam, insert, select

from engines import url_of
from postroom.store.engine import Store
from postroom.store.statement import sql

# A table of the tests' own, on a metadata of its own: the rooms' schema stays what it is.
note = Table(
    "note", MetaData(), Column("id", Integer, primary_key=True), Column("name", Text), Index("note_name", "name", unique=True)
)


class Notes:
    """Statements over that table."""

    ADD = sql(insert(note).values(name=bindparam("name")))
    NAMES = sql(select(note.c.name).order_by(note.c.id))
    ID = sql(select(note.c.id).where(note.c.name == bindparam("name")))

    @staticmethod
    def make(store: Store) -> None:
        connection = store._writer._connection
        key = "INTEGER" if store.alone else "SERIAL"
        connection.execute(f"CREATE TABLE IF NOT EXISTS note (id {key} PRIMARY KEY, name TEXT UNIQUE)")

    @classmethod
    def names(cls, store: Store) -> list[str]:
        return store.read_now(lambda reader: [row[0] for row in reader.all(cls.NAMES)])


@pytest.fixture
def notes() -> type[Notes]:
    return Notes


@pytest.fixture(params=["file", "memory", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    where: Path | Literal[":memory:"] = ":memory:" if request.param == "memory" else tmp_path / "data"
    with url_of("postgresql" if request.param == "postgresql" else "sqlite") as url:
        opened = await Store.open(where, url=url)
        Notes.make(opened)
        yield opened
        await opened.close()


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two nodes over one database."""
    with url_of("postgresql") as url:
        nodes = await Store.open(tmp_path / "one", url=url), await Store.open(tmp_path / "two", url=url)
        Notes.make(nodes[0])
        yield nodes
        for node in nodes:
            await node.close()


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "data")
    Notes.make(opened)
    yield opened
    await opened.close()
