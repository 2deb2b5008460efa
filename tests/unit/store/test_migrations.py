"""The rooms' tables, the revisions and `schema.sql` say the same; a database is upgraded whole or not at all."""

import importlib
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import StaticPool, create_engine

import postroom
from pace import PATIENCE_S
from postroom.errors import StorageFailure
from postroom.store.engine import Store
from postroom.store.migrations import HEAD
from postroom.store.migrations.upgrade import structure, upgrade
from postroom.store.schema import metadata

ADDED = re.compile(r", (?=\w+ (?:TEXT|BIGINT|INTEGER|BLOB)\b)")  # SQLite puts an added column on its predecessor's line,
CLOSED = re.compile(r"\)$")  # or, where there is no constraint, before the end of the table
SNAPSHOT = Path(postroom.__file__).parent / "store" / "migrations" / "schema.sql"


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


def parts(sql: str) -> set[str]:
    """The schema's statements, blind to the order of a table's columns and constraints (one a line)."""
    statements = (CLOSED.sub("\n)", part) for part in ADDED.sub(",\n", sql).split(";\n\n") if part)
    return {"\n".join(sorted(filter(None, (line.strip(" ,") for line in part.splitlines())))) for part in statements}


def test_the_revisions_make_the_tables_the_rooms_declare(database: sqlite3.Connection) -> None:
    for tables in Path(postroom.__file__).parent.glob("*/tables.py"):
        importlib.import_module(f"postroom.{tables.parent.name}.tables")
    declared = sqlite3.connect(":memory:", isolation_level=None)
    metadata.create_all(create_engine("sqlite://", creator=lambda: declared, poolclass=StaticPool))
    upgrade(database)
    only_ours = {part for part in parts(structure(database)) if "alembic_version" not in part and "VIRTUAL TABLE" not in part}
    wanted = parts(structure(declared))
    declared.close()

    assert sorted(wanted - only_ours) == []  # declared by a room, missing in versions/
    assert sorted(only_ours - wanted) == []  # made by versions/, declared by no room


def test_the_snapshot_is_what_the_revisions_come_to(database: sqlite3.Connection) -> None:
    upgrade(database)

    assert SNAPSHOT.read_text() == structure(database)  # python -m postroom.store.migrations.upgrade
    assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]


def test_upgrading_twice_changes_nothing(database: sqlite3.Connection) -> None:
    upgrade(database)
    before = structure(database)
    upgrade(database)

    assert structure(database) == before


def test_a_failed_upgrade_leaves_the_old_schema(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE suppression (id INTEGER)")  # in the way of the last tables
    before = structure(database)
    with pytest.raises(Exception, match="already exists"):
        upgrade(database)

    assert structure(database) == before
    assert database.in_transaction is False


async def test_a_newer_database_is_refused_by_name(tmp_path: Path) -> None:
    await (await Store.open(tmp_path)).close()
    with sqlite3.connect(tmp_path / "postroom.db") as newer:
        newer.execute("UPDATE alembic_version SET version_num = '0999'")
    newer.close()

    with pytest.raises(StorageFailure, match="0999"):
        await Store.open(tmp_path)


@pytest.mark.parametrize("times", [1, 2])
def test_opening_a_new_or_present_database_loads_no_alembic(tmp_path: Path, times: int) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
from postroom.store.engine import Store
async def main():
    for _ in range({times}):
        await (await Store.open(Path({str(tmp_path)!r}))).close()
asyncio.run(main())
sys.exit("alembic" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_S).returncode == 0


def test_bytes_nobody_needs_go_with_the_upgrade_and_all_others_stay(database: sqlite3.Connection) -> None:
    upgrade(database, to="0008")
    _fill(database, "blob", [{"sha": sha, "size": 1, "data": b"x"} for sha in "abcdefg"])
    mails = [("held", "a", "bc"), ("sent", "d", "e"), ("refused", "f", "c"), ("expired", "g", "")]
    for state, raw, files in mails:
        attachments = "[" + ",".join(f'{{"sha":"{sha}","size":1}}' for sha in files) + "]"
        _fill(database, "outgoing", [{"outgoing_id": state, "state": state, "raw_sha": raw, "attachments": attachments}])
    _fill(database, "draft", [{"id": 7, "uuid": "u", "subject": "\u00e4", "text": "abc"}])
    _fill(database, "draft_attachment", [{"draft": 7, "blob": "e", "size": 40}])
    upgrade(database)

    needed = {tuple(row) for row in database.execute("SELECT outgoing_id, blob FROM outgoing_blob")}
    assert needed == {("held", "a"), ("held", "b"), ("held", "c"), ("sent", "d")}
    assert {row[0] for row in database.execute("SELECT sha FROM blob")} == set("abcde")
    assert database.execute("SELECT size FROM draft").fetchall() == [(45,)]


def _fill(database: sqlite3.Connection, table: str, rows: list[dict[str, object]]) -> None:
    """Rows with these values; whatever else a column wants is 0 or its own name."""
    columns = database.execute(f"PRAGMA table_info({table})").fetchall()
    for row in rows:
        given = {
            name: row.get(name, 0 if kind != "TEXT" else name) for _, name, kind, notnull, *_ in columns if notnull or name in row
        }
        given = {name: value for name, value in given.items() if name != "id" or "id" in row}
        marks = ", ".join(f":{name}" for name in given)
        database.execute(f"INSERT INTO {table} ({', '.join(given)}) VALUES ({marks})", given)
