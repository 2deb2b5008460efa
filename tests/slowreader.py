"""Readers that never come back, for tests of what must not wait for them. In a module of their own: a worker imports it."""

import signal

from postroom.office.content import Content, read_content

SLOW = b"X-Slow: yes"


def never(raw: bytes) -> Content:
    """Reads a mail for ever."""
    while True:
        signal.pause()


def never_the_slow_one(raw: bytes) -> Content:
    """Reads a mail, but one marked slow for ever."""
    return never(raw) if SLOW in raw else read_content(raw)
