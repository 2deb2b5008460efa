"""The same work on several items at once, but never on more than a few."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def in_parallel(work: Callable[[T], Awaitable[R]], items: Iterable[T], *, most: int) -> list[R]:
    """The results in the items' order. The first error ends the rest."""
    gate = asyncio.Semaphore(most)

    async def one(item: T) -> R:
        async with gate:
            return await work(item)

    tasks = [asyncio.create_task(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
