"""Owner's key, agents and their tokens, over a real store in a folder."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import postroom.access.tables
from postroom.access.access import Access
from postroom.access.token import read_token
from postroom.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from postroom.limits import SESSION_TOKEN_S
from postroom.model.principal import SYSTEM, Kind, Principal
from postroom.store.engine import Store

assert postroom.access.tables.agent.name == "agent"


class SetClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.us = 1_767_225_600_000_000

    def now_us(self) -> int:
        return self.us


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def store(tmp_path: Path, clock: SetClock) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "house", clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
def access(store: Store) -> Access:
    return Access(store)


async def code_of(access: Access, token: str | None) -> str:
    with pytest.raises(Unauthorized) as refused:
        await access.authenticate(token)
    return refused.value.code


async def test_an_agents_token_makes_its_principal(access: Access):
    info, token = await access.add_agent(SYSTEM, "scout", "observer")
    principal = await access.authenticate(token)
    assert (principal.kind, principal.agent_id, principal.name, principal.profile) == (
        Kind.AGENT,
        info.agent_id,
        "scout",
        "observer",
    )
    assert (principal.session_id, principal.is_owner) == (None, False)


async def test_each_way_of_not_being_known_has_its_code(access: Access):
    _, token = await access.add_agent(SYSTEM, "scout")
    other_secret = token[:-1] + ("0" if token[-1] != "0" else "1")
    codes = [
        await code_of(access, text) for text in (None, "", "sk-123", "am_", "am_key_0_1", other_secret, token + "0", "am_\udcff")
    ]
    assert codes == ["missing_authorization"] * 2 + ["invalid_token_type"] + ["unknown_api_key"] * 5


async def test_a_rotated_token_stops_working_at_once_and_the_new_one_works(access: Access):
    _, first = await access.add_agent(SYSTEM, "scout")
    await access.authenticate(first)
    second = await access.rotate(SYSTEM, "scout")
    assert await code_of(access, first) == "unknown_api_key"
    assert (await access.authenticate(second)).name == "scout"


async def test_a_removed_agent_is_gone_with_its_tokens_and_comes_back_as_itself(access: Access):
    info, token = await access.add_agent(SYSTEM, "scout")
    await access.authenticate(token)
    await access.remove(SYSTEM, "scout")
    assert await code_of(access, token) == "unknown_api_key"
    assert await access.principal_of(info.agent_id) is None
    assert await access.list_agents(SYSTEM) == []
    with pytest.raises(NotFound):
        await access.rotate(SYSTEM, "scout")
    again, new_token = await access.add_agent(SYSTEM, "scout", "clerk")
    assert (again.agent_id, again.profile) == (info.agent_id, "clerk")
    assert await code_of(access, token) == "unknown_api_key"
    assert (await access.authenticate(new_token)).agent_id == info.agent_id


async def test_a_session_token_carries_its_session_and_ends_by_revoking_or_by_time(access: Access, clock: SetClock):
    info, _ = await access.add_agent(SYSTEM, "scout")
    token, key_id = await access.issue(info.agent_id, "agentmail-1")
    assert (await access.authenticate(token)).session_id == "agentmail-1"
    await access.revoke(key_id)
    await access.revoke(key_id)
    assert await code_of(access, token) == "unknown_api_key"

    token, _ = await access.issue(info.agent_id, "agentmail-2")
    await access.authenticate(token)
    clock.us += SESSION_TOKEN_S * 1_000_000
    assert await code_of(access, token) == "unknown_api_key"
    with pytest.raises(NotFound):
        await access.issue("agt_none", "agentmail-3")


async def test_agents_verbs_are_the_owners(access: Access):
    info, _ = await access.add_agent(SYSTEM, "scout")
    agent = await access.principal_of(info.agent_id)
    assert agent == Principal(kind=Kind.AGENT, agent_id=info.agent_id, name="scout")
    for verb in (
        access.add_agent(agent, "other"),
        access.list_agents(agent),
        access.rotate(agent, "scout"),
        access.remove(agent, "scout"),
    ):
        with pytest.raises(Forbidden):
            await verb


async def test_a_name_is_taken_once(access: Access):
    await access.add_agent(SYSTEM, "scout")
    with pytest.raises(Conflict):
        await access.add_agent(SYSTEM, "scout")


@pytest.mark.parametrize("name", ["a", "a.b-c_d", "0", "-", "x" * 64, "ada.lovelace"])
async def test_names_that_are_local_parts_are_taken(access: Access, name: str):
    assert (await access.add_agent(SYSTEM, name))[0].name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 65,
        "*",
        "Ada",
        "a b",
        "a@b",
        "a/b",
        ".a",
        "a.",
        "a..b",
        "é",
        "a\u200bb",
        "a\nb",
        "a\n",
        "owner",
        "system",
        "a\u0301",
        "ａ",
    ],
)
async def test_other_names_are_refused(access: Access, name: str):
    with pytest.raises(Invalid) as refused:
        await access.add_agent(SYSTEM, name)
    assert refused.value.details["errors"][0]["path"] == ["name"]


async def test_an_unknown_profile_is_refused(access: Access):
    with pytest.raises(Invalid, match="observer, correspondent, clerk"):
        await access.add_agent(SYSTEM, "scout", "admin")


async def test_the_owners_key_is_written_once_for_the_owner_alone(access: Access, tmp_path: Path):
    await access.ensure_owner_key(tmp_path)
    file = tmp_path / "owner.key"
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (await access.authenticate(token)).kind is Kind.OWNER
    await access.ensure_owner_key(tmp_path)
    assert file.read_text().strip() == token


async def test_a_deleted_key_file_means_a_new_key_and_the_old_one_revoked(access: Access, tmp_path: Path):
    await access.ensure_owner_key(tmp_path)
    file = tmp_path / "owner.key"
    old = file.read_text().strip()
    await access.authenticate(old)
    file.unlink()
    await access.ensure_owner_key(tmp_path)
    assert await code_of(access, old) == "unknown_api_key"
    assert (await access.authenticate(file.read_text().strip())).is_owner
    file.write_text(old)
    with pytest.raises(Invalid, match="revoked"):
        await access.ensure_owner_key(tmp_path)


async def test_a_key_file_the_store_never_heard_of_is_the_owners(access: Access, tmp_path: Path, store: Store):
    await access.ensure_owner_key(tmp_path)
    other = await Store.open(tmp_path / "other")
    try:
        elsewhere = Access(other)
        await elsewhere.ensure_owner_key(tmp_path)
        assert (await elsewhere.authenticate((tmp_path / "owner.key").read_text().strip())).is_owner
    finally:
        await other.close()


@pytest.mark.parametrize("content", ["", "hello", "am_key_1_2"])
async def test_a_key_file_without_a_token_is_said_and_left_alone(access: Access, tmp_path: Path, content: str):
    (tmp_path / "owner.key").write_text(content)
    with pytest.raises(Invalid, match=r"delete|holds"):
        await access.ensure_owner_key(tmp_path)
    assert (tmp_path / "owner.key").read_text() == content


async def test_an_agents_token_is_no_owners_key(access: Access, tmp_path: Path):
    _, token = await access.add_agent(SYSTEM, "scout")
    (tmp_path / "owner.key").write_text(token)
    with pytest.raises(Invalid):
        await access.ensure_owner_key(tmp_path)


async def test_a_key_file_open_to_others_is_closed_and_a_link_is_not_followed(access: Access, tmp_path: Path):
    await access.ensure_owner_key(tmp_path)
    file = tmp_path / "owner.key"
    file.chmod(0o644)
    await access.ensure_owner_key(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="cannot be read"):
        await access.ensure_owner_key(tmp_path)


async def test_no_secret_is_stored_or_shown(access: Access, store: Store, tmp_path: Path):
    _, token = await access.add_agent(SYSTEM, "scout")
    secret = token.rpartition("_")[2]
    assert secret not in repr(read_token(token))
    await store.close()
    assert all(secret.encode() not in path.read_bytes() for path in (tmp_path / "house").iterdir() if path.is_file())


async def test_a_secret_of_the_house_is_made_once(access: Access):
    first = await access.house_secret("downloads")
    assert (len(first), await access.house_secret("downloads")) == (32, first)
    assert await access.house_secret("audit") != first
