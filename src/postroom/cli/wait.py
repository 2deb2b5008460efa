"""`postroom wait`: block until the mailbox has something for you, then print it."""

from __future__ import annotations

from postroom.cli.mailbox import wait_main as main

__all__ = ["main"]
