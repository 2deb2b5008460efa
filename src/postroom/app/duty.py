"""Which node does the house's own work: reading arrived mail, sending, following events, driving sessions.

A database in the data folder has one node, which works from the start. Several nodes over one server
all take mail in and answer requests; the work is done by the one that holds the lease, so nothing is
sent or offered twice. A node that stops lets go at once; one that died or lost the server is followed
when its lease runs out, and what it had begun is taken up as after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

import structlog

from postroom.errors import StorageFailure
from postroom.store.engine import Store

LEASE: Final = "work"
LEASE_S: Final = 15.0
RENEW_S: Final = 5.0
LOOK_S: Final = 2.0  # between two attempts of a node that waits

Rooms: TypeAlias = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
log = structlog.get_logger("postroom.app")


class _Lost(Exception):
    """Another node may be at work by now."""


class Duty:
    """Runs `rooms` while it is this node's turn."""

    def __init__(self, store: Store, rooms: Rooms) -> None:
        self._store = store
        self._rooms = rooms
        self._holder = secrets.token_hex(8)

    async def run(self) -> None:
        """Until cancelled, or until a room fails."""
        if self._store.alone:
            await self._work()
            return
        try:
            while True:
                if await self._take():
                    log.info("duty_begins", holder=self._holder)
                    await self._work(self._renew())
                await asyncio.sleep(LOOK_S)
        finally:
            with contextlib.suppress(StorageFailure):
                await self._store.write(lambda tx: self._store.leases.release(tx, LEASE, self._holder))

    async def _work(self, *beside: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for name, room in self._rooms.items():
                    group.create_task(room(), name=name)
                for work in beside:
                    group.create_task(work)
        except* _Lost:
            log.warning("duty_lost", holder=self._holder)

    async def _renew(self) -> None:
        until = time.monotonic() + LEASE_S - RENEW_S
        while True:
            await asyncio.sleep(RENEW_S)
            asked = time.monotonic()
            if await self._take():
                until = asked + LEASE_S - RENEW_S
            elif self._store.accepting or asked >= until:
                raise _Lost

    async def _take(self) -> bool:
        try:
            return await self._store.write(lambda tx: self._store.leases.take(tx, LEASE, self._holder, LEASE_S))
        except StorageFailure:
            return False
