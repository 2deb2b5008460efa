"""Logs as JSON lines on stderr: an event name and facts, no bodies, redacted last."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from postroom.safety.redact import Redactor


def configure(redactor: Redactor, *, debug: bool = False) -> None:
    """Set up structlog and route the standard library's warnings into it."""

    def redact(_: Any, __: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in entry.items():
            if isinstance(value, str):
                entry[name] = redactor.redact(value)[0]
        return entry

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=lambda *_: _Lines(),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Bridge()], force=True)


class _Lines:
    """Writes lines to stderr. A log that cannot be written (a full disk behind it) must not stop a room."""

    def msg(self, message: str) -> None:
        """Write one line, if it can be written."""
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(message + "\n")
            sys.stderr.flush()

    debug = info = warning = warn = error = critical = exception = fatal = log = msg


class _Bridge(logging.Handler):
    """Libraries' warnings, as events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger("postroom.library").warning("library", source=record.name, text=record.getMessage()[:500])
