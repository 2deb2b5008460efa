"""The one table from errors to exit status, and how an error is told on stderr.

0 done, 1 failed, 2 wrong usage or input, 3 refused by policy, 4 not found, 5 try again.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Final

from postroom import errors

FAILED, USAGE, REFUSED, NOT_FOUND, TRY_AGAIN = 1, 2, 3, 4, 5
INTERRUPTED: Final = 130

# Most special first: the first class that matches decides.
BY_CLASS: Final[tuple[tuple[type[errors.PostroomError], int], ...]] = (
    (errors.Invalid, USAGE),
    (errors.Unauthorized, REFUSED),
    (errors.Forbidden, REFUSED),
    (errors.Refused, REFUSED),
    (errors.NotFound, NOT_FOUND),
    (errors.Conflict, FAILED),
    (errors.Busy, TRY_AGAIN),
    (errors.StorageFailure, TRY_AGAIN),
    (errors.InUse, FAILED),
    (errors.TransportFailure, FAILED),
    (errors.PostroomError, FAILED),
)
# Codes whose class says something else: a name that is taken travels as 403.
BY_CODE: Final = {"already_exists": FAILED}


def ending(run: Callable[[], int], *, as_json: bool) -> int:
    """The exit status of `run`, whichever way it ends: no error becomes a stack trace."""
    try:
        return run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED if end.code else 0
    except errors.PostroomError as error:
        return tell(error, as_json=as_json)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has had enough
        return 0
    except OSError as problem:
        return tell(_of_system(problem), as_json=as_json)
    except Exception as problem:  # noqa: BLE001  (the last resort: one line instead of a stack trace)
        return tell_unexpected(problem, as_json=as_json)


def status_of(error: errors.PostroomError) -> int:
    """The exit status of `error`. Of transport failures only a temporary one is worth another try."""
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    if isinstance(error, errors.TransportFailure) and error.kind == "temporary":
        return TRY_AGAIN
    return next(status for kind, status in BY_CLASS if isinstance(error, kind))


def tell(error: errors.PostroomError, *, as_json: bool) -> int:
    """Say what went wrong and what to do next; the exit status."""
    if as_json:
        body = {"code": error.code, "message": error.message, "fix": error.fix, **error.details}
        print(json.dumps(body, default=str), file=sys.stderr)
    else:
        print(f"postroom: {error.message}", file=sys.stderr)
        if error.fix:
            print(f"  {error.fix}", file=sys.stderr)
    return status_of(error)


def tell_unexpected(problem: Exception, *, as_json: bool) -> int:
    """One line for a fault of ours; POSTROOM_DEBUG=1 shows all of it."""
    if os.environ.get("POSTROOM_DEBUG"):
        traceback.print_exception(problem)
        return FAILED
    message = f"something went wrong ({type(problem).__name__})"
    return tell(errors.PostroomError(message, fix="POSTROOM_DEBUG=1 shows more"), as_json=as_json)


def _of_system(problem: OSError) -> errors.PostroomError:
    """What the operating system refused: a folder that is a file, a file nobody may read."""
    what = f"{problem.filename}: " if isinstance(problem.filename, str | os.PathLike) else ""  # else a descriptor's number
    return errors.PostroomError(f"{what}{problem.strerror or type(problem).__name__}", code="system_error")
