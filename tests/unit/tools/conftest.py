from collections.abc import AsyncIterator

import pytest

from inprocess import Rooms, rooms_in


@pytest.fixture
async def rooms() -> AsyncIterator[Rooms]:
    """Real rooms in memory, with an inbox for each of two agents."""
    made = await rooms_in(None)
    yield made
    await made.store.close()
