"""Tokens: one refresh for all, before the old one runs out, one more try on 401; and where grants are kept."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from httppeer import Response
from pace import PATIENCE_S
from postroom.config import ReaderAccount
from postroom.reader.grants import Grant, Grants, working_keyring
from postroom.reader.request import ReadRequest
from readerkit import GMAIL, OWNER, granted, kit

GRANT = Grant(provider="gmail", client="c", refresh_token="refresh-token-secret")


async def test_c23_three_reads_at_once_refresh_once(world):
    world.google.put(1)
    readings = await asyncio.gather(*(world.read() for _ in range(3)))
    assert [len(reading.messages) for reading in readings] == [1, 1, 1]
    assert world.google.issued == 1


async def test_c24_a_token_is_renewed_before_it_runs_out_and_not_earlier(world):
    await world.read()
    world.kit.clock.advance(3600 - 121)
    await world.read()
    assert world.google.issued == 1
    world.kit.clock.advance(2)
    await world.read()
    assert world.google.issued == 2


async def test_c24_without_expires_in_a_token_lives_3000_seconds(world):
    world.google.expires_in = None
    await world.read()
    world.kit.clock.advance(3000 - 121)
    await world.read()
    world.kit.clock.advance(2)
    await world.read()
    assert world.google.issued == 2


async def test_c24_one_401_is_answered_by_one_refresh_and_one_more_try(world):
    world.google.put(1)
    await world.read()
    world.google.broken = [Response(401, {"error": {"code": 401}})]
    assert len((await world.read()).messages) == 1
    assert world.google.issued == 2


async def test_c24_a_401_that_stays_ends_it_after_one_refresh(world):
    world.google.broken = [Response(401, {"error": "no"})] * 5
    problem = await world.problem()
    assert (problem.code, world.google.issued, len(world.google.broken)) == ("MAIL_OAUTH_FAILED", 2, 3)
    assert problem.message == "gmail did not accept the list (HTTP 401)"


async def test_c21_a_grant_the_provider_took_back_is_found_at_the_next_read(world):
    world.google.refresh = "another"
    problem = await world.problem()
    assert problem.code == "MAIL_OAUTH_FAILED"
    assert problem.fix == "if it stays so, the owner authorizes again: postroom reader add personal-gmail"


async def test_c06_client_id_and_secret_are_resolved_at_each_use(world):
    await world.read()
    world.kit.secrets["env:SECRET"] = "rotated-client-secret"
    world.kit.clock.advance(4000)
    await world.read()
    assert [request.form["client_secret"] for request in world.peer.requests if request.form] == [
        "client-secret-of-the-test",
        "rotated-client-secret",
    ]
    del world.kit.secrets["env:SECRET"]
    world.kit.clock.advance(4000)
    assert await world.code() == "MAIL_CREDENTIAL_MISSING"


async def test_c22_revoking_forgets_the_grant_at_once(world):
    await world.read()
    assert await world.kit.reader.revoke(OWNER, GMAIL.id) is True
    assert await world.kit.reader.revoke(OWNER, GMAIL.id) is False
    problem = await world.problem()
    assert (problem.code, problem.fix) == ("MAIL_AUTHORIZATION_REQUIRED", "the owner runs: postroom reader add personal-gmail")


async def test_c22_an_account_revoked_during_a_refresh_stays_revoked(world):
    answer, reached, go_on = world.peer.handler, asyncio.Event(), asyncio.Event()

    async def slow(request):
        reached.set()
        await go_on.wait()
        return answer(request)

    world.peer.handler = slow
    reading = asyncio.create_task(world.code())
    await asyncio.wait_for(reached.wait(), PATIENCE_S)
    await world.kit.reader.revoke(OWNER, GMAIL.id)
    go_on.set()
    assert await reading == "MAIL_AUTHORIZATION_REQUIRED"
    world.peer.handler = answer
    assert await world.code() == "MAIL_AUTHORIZATION_REQUIRED"


@pytest.mark.parametrize("changed", [{"provider": "outlook"}, {"client_id": "env:OTHER"}])
async def test_a_grant_is_never_sent_to_another_provider_or_client(world, tmp_path: Path, changed: dict[str, Any]):
    fields = {"id": GMAIL.id, "provider": "gmail", "client_id": "env:ID", **changed}
    other = kit(tmp_path, world.peer.url, ReaderAccount(**fields))
    other.secrets["env:OTHER"] = "another-client-id"
    with pytest.raises(Exception, match="not authorized yet"):
        await other.reader.read(OWNER, ReadRequest())
    assert world.peer.requests == []
    await other.reader.close()


async def test_c22_a_grant_is_an_encrypted_file_of_its_own_open_to_its_owner_only(tmp_path: Path):
    grants = Grants(tmp_path / "reader", bytes(32), lambda: None)
    await grants.save("work", GRANT)
    (path,) = (tmp_path / "reader").iterdir()
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == ("work.grant", 0o600)
    assert b"refresh" not in path.read_bytes()
    assert await grants.load("work") == GRANT
    assert await Grants(tmp_path / "reader", b"k" * 32, lambda: None).load("work") is None
    path.rename(tmp_path / "reader" / "other.grant")  # not another account's either
    assert await grants.load("other") is None


class Ring:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = False

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        if self.broken:
            raise RuntimeError("locked")
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


async def test_c22_a_working_keyring_holds_the_grant_and_the_place_is_remembered(tmp_path: Path):
    ring = Ring()
    grants = Grants(tmp_path, bytes(32), lambda: ring)
    await grants.save("work", GRANT)
    ((service, name),) = ring.kept
    assert (service, name.partition("@")[0]) == ("postroom", "mail-reader/work")
    assert (tmp_path / "work.grant").read_bytes() == b"keyring\n"
    assert await grants.load("work") == GRANT
    assert await grants.forget("work") is True
    assert (ring.kept, grants.has("work")) == ({}, False)


async def test_a_keyring_that_fails_gives_way_to_the_file(tmp_path: Path):
    ring = Ring()
    ring.broken = True
    grants = Grants(tmp_path, bytes(32), lambda: ring)
    await grants.save("work", GRANT)
    assert await grants.load("work") == GRANT
    assert ring.kept == {}


async def test_a_fresh_grant_is_not_lost_when_nothing_can_be_written(tmp_path: Path):
    (tmp_path / "reader").write_text("in the way", encoding="utf-8")
    grants = Grants(tmp_path / "reader", bytes(32), lambda: None)
    await grants.save("work", GRANT)
    assert await grants.load("work") == GRANT


def test_a_machine_without_a_keyring_has_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    assert working_keyring() is None


def test_a_grant_and_a_token_do_not_print_themselves():
    assert "secret" not in repr(GRANT)
    assert json.dumps(str(GRANT)) == "\"Grant(provider='gmail')\""


async def test_a_reader_that_gives_up_does_not_lose_a_rotated_token(world):
    await granted(world.kit)
    reading = asyncio.create_task(world.read())
    while not world.peer.requests:
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await world.read()
    assert world.google.issued == 1
