"""Leases: one holder at a time, until a moment passes."""

from postroom.clock import MICROS
from postroom.store.engine import Store


class Hands:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.at = 1_000 * MICROS

    def now_us(self) -> int:
        return self.at


async def test_a_lease_has_one_holder_until_it_is_released_or_runs_out() -> None:
    clock = Hands()
    store = await Store.open(":memory:", clock=clock)

    async def take(holder: str) -> bool:
        return await store.write(lambda tx: store.leases.take(tx, "sweep", holder, 10))

    try:
        assert await take("a") is True
        assert await take("b") is False
        clock.at += 9 * MICROS
        assert await take("a") is True  # renewed
        clock.at += 9 * MICROS
        assert await take("b") is False
        clock.at += MICROS
        assert await take("b") is True  # a's ran out
        await store.write(lambda tx: store.leases.release(tx, "sweep", "a"))
        assert await take("a") is False
        await store.write(lambda tx: store.leases.release(tx, "sweep", "b"))
        assert await take("a") is True
    finally:
        await store.close()
