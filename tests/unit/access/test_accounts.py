"""Which of a person's mail accounts an agent may read: the owner says so, one by one, and takes it back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from postroom.access.access import Access
from postroom.errors import Forbidden, NotFound
from postroom.model.principal import SYSTEM, Principal
from postroom.store.engine import Store
from postroom.testing import FakeClock


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    store = await Store.open(tmp_path / "house", clock=FakeClock())
    yield Access(store)
    await store.close()


async def agent(access: Access, name: str) -> Principal:
    _, token = await access.add_agent(SYSTEM, name)
    return await access.authenticate(token)


async def test_an_agent_may_read_what_it_was_allowed_and_nobody_elses(access: Access):
    scout, other = await agent(access, "scout"), await agent(access, "other")
    assert access.accounts_of(scout) == frozenset()
    assert await access.allow_account(SYSTEM, "scout", "work") == ("work",)
    assert await access.allow_account(SYSTEM, "scout", "home") == ("home", "work")
    assert await access.allow_account(SYSTEM, "scout", "home") == ("home", "work")
    assert (access.accounts_of(scout), access.accounts_of(other)) == (frozenset({"home", "work"}), frozenset())
    assert await access.readers(SYSTEM) == {"home": ["scout"], "work": ["scout"]}
    assert access.accounts_of(SYSTEM) == frozenset()


async def test_what_is_taken_back_is_gone_with_the_commit(access: Access):
    scout = await agent(access, "scout")
    await access.allow_account(SYSTEM, "scout", "work")
    assert await access.deny_account(SYSTEM, "scout", "work") == ()
    assert access.accounts_of(scout) == frozenset()


async def test_an_agent_that_comes_back_under_its_name_reads_nothing_again(access: Access):
    await agent(access, "scout")
    await access.allow_account(SYSTEM, "scout", "work")
    await access.remove(SYSTEM, "scout")
    assert access.accounts_of(await agent(access, "scout")) == frozenset()


async def test_only_the_owner_decides_and_only_of_agents_there_are(access: Access):
    scout = await agent(access, "scout")
    for verb in (access.allow_account, access.deny_account):
        with pytest.raises(Forbidden):
            await verb(scout, "scout", "work")
        with pytest.raises(NotFound):
            await verb(SYSTEM, "nobody", "work")
    with pytest.raises(Forbidden):
        await access.readers(scout)
