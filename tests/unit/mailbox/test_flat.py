"""A page costs the same in a log of hundreds and of thousands: counted in steps of the database's own machine, not in time."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postroom.mailbox import reading
from postroom.mailbox.reading import Query
from postroom.mailbox.room import Options
from postroom.store.engine import Store
from postroom.testing import FakeClock

from .conftest import OWNER, Box


def steps_of(box: Box, look: Callable[[Any], Any]) -> int:
    """How many instructions SQLite ran for one view."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection: Any = box.store._inline.connection
    connection.set_progress_handler(step, 1)
    try:
        box.store.read_now(look)
    finally:
        connection.set_progress_handler(None, 1)
    return steps


async def fill(box: Box, count: int) -> None:
    names = ("alice", "bob", "carol", "*")
    await asyncio.gather(*(box.send(f"n{n} plan", to=names[n % 4], by=OWNER, sender="filler") for n in range(count)))


@pytest.mark.parametrize(
    "more",
    [{"newest": True}, {"since": 50}, {"since": 50, "sender": "filler"}, {"newest": True, "sent": True}],
    ids=["newest", "by cursor", "of one sender", "with what was sent"],
)
async def test_b61_reading_a_page_takes_as_many_steps_in_a_log_ten_times_as_long(tmp_path: Path, more: dict[str, Any]):
    store = await Store.open(tmp_path, clock=FakeClock())
    box = Box(store, tmp_path, FakeClock(), Options(domains=("postroom.localhost",)))

    def page(view: Any) -> Any:
        return reading.read(view, Query(reader="bob", limit=20, **more))

    await fill(box, 400)
    short = steps_of(box, page)
    await fill(box, 3600)
    long = steps_of(box, page)
    await store.close()

    assert short > 100
    assert long <= short * 1.1
