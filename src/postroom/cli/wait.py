"""`postroom wait`: block until the mailbox has something for you, or with `--mail` your email has.

For an agent that runs it in the background, and for scripts. `--mail` prints ids and senders and marks
nothing read: what it names waits until it is read or acknowledged. Exit 5 when nothing came in time.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import Final

from postroom.cli.arguments import Parser
from postroom.cli.hook import told
from postroom.cli.mailbox import wait_main
from postroom.client import connect
from postroom.errors import Busy, Invalid

_POLL_S: Final = 50
_MOST_S: Final = 86_400.0


def main(arguments: Sequence[str]) -> int:
    """Wait; the exit status."""
    if "--mail" not in arguments:
        return wait_main(arguments)
    given = _parser().parse_args(arguments)
    if not 0 <= given.timeout <= _MOST_S:
        raise Invalid(f"--timeout is between 0 and {_MOST_S:.0f} seconds")
    end = time.monotonic() + given.timeout
    daemon = connect(timeout_s=_POLL_S + 10)
    while True:
        left = end - time.monotonic()
        waiting = daemon.get("/api/waiting", wait=max(0, min(_POLL_S, math.ceil(left))))["waiting"]
        if waiting:
            print(json.dumps({"waiting": waiting}) if given.json else told(waiting))
            return 0
        if time.monotonic() >= end:
            raise Busy("nothing waits in your mail", code="nothing_waits", fix="wait again, or with a longer --timeout")


def _parser() -> Parser:
    parser = Parser(prog="postroom wait", description="Wait until your email has something for you, and say what.")
    parser.add_argument("--mail", action="store_true", help="your email instead of the mailbox")
    parser.add_argument("--timeout", type=float, default=3300.0, metavar="SECONDS", help="default %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
