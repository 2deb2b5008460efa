"""Upgrading with Alembic, and `schema.sql`, the schema all revisions come to.

A new database is made from `schema.sql` at once, so a first start loads no Alembic. After a new
revision write the file again: `python -m postroom.store.migrations.upgrade > …/schema.sql`; a test
holds the two, and the rooms' tables, against each other.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any, cast

from alembic import command
from alembic.config import Config
from sqlalchemy import StaticPool, create_engine

from postroom.store.dialect import Connection, Dialect
from postroom.store.sqlite import Sqlite

_URLS = {"sqlite": "sqlite://", "postgresql": "postgresql+psycopg://"}


def upgrade(connection: Connection, dialect: Dialect | None = None, to: str = "head") -> None:
    """Run the missing revisions, all in one transaction: a kill in between leaves the old schema. `dialect` None: SQLite."""
    dialect = dialect or Sqlite(None)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    engine = create_engine(_URLS[dialect.name], creator=lambda: cast(Any, connection), poolclass=StaticPool)
    wrapped = config.attributes["connection"] = engine.connect()
    connection.execute(dialect.begin_write)  # after connecting, which ends with a rollback
    try:
        command.upgrade(config, to)
        wrapped.commit()
    except BaseException:
        wrapped.rollback()
        raise
    finally:
        wrapped.close()  # gives the connection back, still open


def structure(connection: Connection) -> str:
    """The schema as SQL that makes it, one statement per paragraph."""
    rows = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'mail_search_%' "
        "AND name NOT LIKE 'mailbox_search_%' "
        "ORDER BY tbl_name, type DESC, name"
    ).fetchall()
    return "".join(f"{row[0]};\n\n" for row in rows).replace("\t", "    ")


def main() -> None:
    """Print `structure` of a database that went through every revision."""
    connection = cast(Connection, sqlite3.connect(":memory:", isolation_level=None))
    upgrade(connection)
    sys.stdout.write(structure(connection))


if __name__ == "__main__":
    main()
