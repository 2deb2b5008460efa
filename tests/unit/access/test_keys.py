"""API keys beside the owner's: what each may do, and that a deleted one stops working."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from postroom.access.access import Access
from postroom.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from postroom.model.mail import Inbox
from postroom.model.paging import PageRequest
from postroom.model.principal import DEFAULT_POD, Kind, Principal
from postroom.store.engine import Store

OWNER = Principal(kind=Kind.OWNER)


@pytest.fixture
async def access(tmp_path: Path) -> AsyncIterator[Access]:
    store = await Store.open(tmp_path)
    opened = Access(store)
    await opened.ensure_owner_key(tmp_path)
    yield opened
    await store.close()


async def inbox_of_agent(access: Access) -> Inbox:
    agent, _ = await access.add_agent(OWNER, "nora")
    return Inbox(inbox_id="nora@postroom.localhost", pod_id=DEFAULT_POD, owner_agent=agent.agent_id)


async def test_a_key_of_the_house_is_an_owners_until_it_is_deleted(access: Access) -> None:
    key, text = await access.keys.create(OWNER, name="ci")
    principal = await access.authenticate(text)
    assert (principal.kind, principal.key_id, key.name, text.startswith(key.prefix)) == (Kind.OWNER, key.key_id, "ci", True)
    await access.keys.delete(OWNER, key.key_id)
    with pytest.raises(Unauthorized):
        await access.authenticate(text)
    with pytest.raises(NotFound):
        await access.keys.get(OWNER, key.key_id)


async def test_a_key_of_one_inbox_is_its_agents_and_no_owners(access: Access) -> None:
    inbox = await inbox_of_agent(access)
    _, text = await access.keys.create(OWNER, inbox=inbox)
    principal = await access.authenticate(text)
    assert (principal.kind, principal.agent_id, principal.inbox_scope) == (Kind.AGENT, inbox.owner_agent, inbox.inbox_id)


async def test_an_inbox_without_an_agent_has_no_keys(access: Access) -> None:
    inbox = Inbox(inbox_id="free@postroom.localhost", pod_id=DEFAULT_POD)
    with pytest.raises(Conflict):
        await access.keys.create(OWNER, inbox=inbox)


async def test_an_agent_may_not_touch_keys(access: Access) -> None:
    agent = Principal(kind=Kind.AGENT, agent_id="agt_1", name="nora")
    with pytest.raises(Forbidden):
        await access.keys.create(agent)
    with pytest.raises(Forbidden):
        await access.keys.list(agent, PageRequest())


async def test_keys_are_listed_newest_first_in_pages_and_by_inbox(access: Access) -> None:
    inbox = await inbox_of_agent(access)
    made = [(await access.keys.create(OWNER, name=f"k{number}"))[0] for number in range(3)]
    scoped, _ = await access.keys.create(OWNER, name="scoped", inbox=inbox)
    first = await access.keys.list(OWNER, PageRequest(limit=2))
    rest = await access.keys.list(OWNER, PageRequest(limit=2, page_token=first.next_page_token))
    assert [key.name for key in (*first.items, *rest.items)] == ["scoped", "k2", "k1", "k0"]
    assert (await access.keys.list(OWNER, PageRequest(), inbox)).items == (scoped,)
    with pytest.raises(NotFound):
        await access.keys.get(OWNER, made[0].key_id, inbox)


async def test_a_key_can_be_renamed_but_not_to_the_name_of_the_one_in_the_folder(access: Access) -> None:
    key, _ = await access.keys.create(OWNER)
    assert (await access.keys.rename(OWNER, key.key_id, "laptop")).name == "laptop"
    with pytest.raises(Invalid):
        await access.keys.rename(OWNER, key.key_id, "owner.key")


async def test_the_key_in_the_folder_is_not_deleted_by_a_door(access: Access) -> None:
    (own,) = (await access.keys.list(OWNER, PageRequest(ascending=True))).items
    with pytest.raises(Forbidden):
        await access.keys.delete(OWNER, own.key_id)


async def test_a_key_cannot_expire_before_it_is_made(access: Access) -> None:
    with pytest.raises(Invalid):
        await access.keys.create(OWNER, expires_at=1)
