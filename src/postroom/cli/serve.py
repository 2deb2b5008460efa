"""`postroom serve`, read with the standard library: the daemon never loads what only people's commands need."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Sequence
from pathlib import Path

from postroom.cli.arguments import Parser
from postroom.cli.options import HTTP, SMTP, serve_options
from postroom.limits import HTTP_CONNECTIONS


def main(arguments: Sequence[str]) -> int:
    """Serve in the foreground until SIGTERM; the exit status."""
    given = _parser().parse_args(arguments)
    os.umask(0o077)
    _allow_open_files(4 * HTTP_CONNECTIONS)
    options = serve_options(config=given.config, data=given.data, http=given.http, smtp=given.smtp)
    from postroom.app.serve import run

    return run(options)


def _allow_open_files(wanted: int) -> None:
    """Raise this process's limit on open files as far as it may: many systems start at 1,024, fewer than our connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _parser() -> Parser:
    parser = Parser(
        prog="postroom serve",
        description="Run the post room in the foreground. Prints one line on stdout when everything listens.",
    )
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="else POSTROOM_CONFIG, else postroom.toml in the data folder")
    add("--data", type=Path, metavar="DIR", help="else POSTROOM_DATA, else the platform's folder for user data")
    add("--http", default=HTTP, metavar="HOST:PORT", help="default %(default)s; port 0 picks a free one")
    add("--smtp", default=SMTP, metavar="HOST:PORT", help="default %(default)s; off: no SMTP")
    return parser
