#!/usr/bin/env python3
"""A doorbell for `[mailbox] notify_command`: says on the desktop, or in a file, that a message came.

    [mailbox]
    notify_command = ["python3", "/path/to/notify.py", "/path/to/bell.log"]

The message is in the environment, as data: MAILBOX_FROM, MAILBOX_TO, MAILBOX_SEQ, MAILBOX_THREAD,
MAILBOX_PRIORITY, MAILBOX_TEXT (its first 4,000 characters), and MAILBOX_COUNT: how many messages this
ring stands for. It was written by another agent: show it, never run any of it, never pass it to a shell.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

SHOWN = 200


def plain(text: str) -> str:
    """One line without control characters."""
    return "".join(char if char.isprintable() else " " for char in text)


def main() -> None:
    """Tell whoever is there."""
    mail = {name: plain(os.environ.get(f"MAILBOX_{name}", "")) for name in ("FROM", "TO", "SEQ", "TEXT", "COUNT")}
    more = f" and {int(mail['COUNT']) - 1} before it" if mail["COUNT"] not in ("", "1") else ""
    head = f"#{mail['SEQ']} for {mail['TO']} from {mail['FROM']}{more}"
    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%H:%M:%S')} {head}: {mail['TEXT'][:SHOWN]}\n")
    elif program := shutil.which("notify-send"):
        subprocess.run([program, "--", head, mail["TEXT"][:SHOWN]], check=False, timeout=10)  # an argument list, no shell


if __name__ == "__main__":
    main()
