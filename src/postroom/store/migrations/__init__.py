"""How a database comes to the present schema. Alembic is loaded only when there is something to do."""

from __future__ import annotations

from typing import Final

from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from postroom.store import search
from postroom.store.dialect import Connection
from postroom.store.schema import metadata

HEAD: Final = "0001"


def migrate(connection: Connection) -> None:
    """Bring the database to `HEAD`."""
    dialect = sqlite.dialect()
    connection.execute("BEGIN IMMEDIATE")
    for table in metadata.sorted_tables:
        connection.execute(str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)))
        for index in table.indexes:
            connection.execute(str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect)))
    connection.execute(search.CREATE.replace("VIRTUAL TABLE", "VIRTUAL TABLE IF NOT EXISTS"))
    connection.execute("COMMIT")
