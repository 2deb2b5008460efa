"""Bells: whoever waits for a name is rung when something for it has been committed.

A bell only says "look again"; what there is, the waiter reads by its cursor. So a lost ring costs
nothing that the next one does not bring, and a send touches the waiters of its addressee alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from postroom.mailbox.names import EVERYONE


class Bells:
    """All bells of the house."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.count = 0

    @contextmanager
    def listening(self, name: str) -> Iterator[asyncio.Event]:
        """A bell that is rung for `name`; clear it, then look, then wait."""
        bell = asyncio.Event()
        self._waiting.setdefault(name, set()).add(bell)
        self.count += 1
        try:
            yield bell
        finally:
            self.count -= 1
            bells = self._waiting[name]
            bells.discard(bell)
            if not bells:
                del self._waiting[name]

    def waiting(self, name: str) -> int:
        """How many wait for this name."""
        return len(self._waiting.get(name, ()))

    def ring(self, name: str, *, but: str | None = None) -> None:
        """Something for `name` was committed; `*` rings everyone's, except the author's own."""
        if name != EVERYONE:
            for bell in self._waiting.get(name, ()):
                bell.set()
            return
        for reader, bells in self._waiting.items():
            if reader != but:
                for bell in bells:
                    bell.set()

    def ring_all(self) -> None:
        """Another node committed something: everyone looks."""
        for bells in self._waiting.values():
            for bell in bells:
                bell.set()
