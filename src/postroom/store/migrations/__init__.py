"""How a database comes to the present schema. Alembic is loaded only to upgrade an older one.

To change a table: change the room's `tables.py`; before a release edit the newest revision in
`versions/`, after one add the next; then write `schema.sql` anew (see `upgrade`). A test holds the
three against each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from postroom.errors import StorageFailure
from postroom.store.dialect import Connection, Dialect

HEAD: Final = "0009"


def migrate(dialect: Dialect, connection: Connection) -> None:
    """Bring the database to `HEAD`. Raises `StorageFailure` for one this version cannot read."""
    version = _version(dialect, connection)
    if version is None and dialect.snapshot:
        _create(dialect, connection)
    elif version is not None and version > HEAD:
        raise StorageFailure(
            f"the database has schema {version}, this version of postroom knows {HEAD}", fix="run the newer version of postroom"
        )
    elif version != HEAD:
        dialect.upgrade(connection)


def _version(dialect: Dialect, connection: Connection) -> str | None:
    if not dialect.has_table(connection, "alembic_version"):
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def _create(dialect: Dialect, connection: Connection) -> None:
    """A new database, at once; when anything of it fails, nothing of it is there."""
    statements = (Path(__file__).with_name(dialect.snapshot)).read_text(encoding="utf-8").split(";\n\n")
    connection.execute(dialect.begin_write)
    try:
        for statement in filter(None, statements):
            connection.execute(statement)
        connection.execute("INSERT INTO alembic_version (version_num) VALUES (:version)", {"version": HEAD})
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
