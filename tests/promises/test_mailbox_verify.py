"""What stands in the mailbox is what was written, or `postroom data verify` says what was done to it: on either engine."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import engines
from served import Served, serving


@pytest.fixture(params=engines.ENGINES)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, str]]:
    with engines.url_of(request.param) as url, serving(tmp_path / "data", engines.settings(url)) as served:
        served.ok("POST", "/mailbox/announce", {"name": "bob"})
        yield served, url


def tamper(served: Served, url: str, statement: str) -> None:
    if url:
        engines.run(url, statement)
        return
    connection = sqlite3.connect(served.data / "postroom.db", isolation_level=None)
    connection.execute(statement)
    connection.close()


def test_the_command_verifies_beside_a_running_daemon_and_takes_witnesses(house: tuple[Served, str]):
    served, url = house
    sent = [served.ok("POST", "/mailbox/messages", {"from": "alice", "to": "bob", "text": f"n{at}"}) for at in range(5)]
    witness = f"{sent[2]['seq']}:{sent[2]['link']}"

    assert "mailbox: 5 entries" in served.cli("data", "verify", "--witness", witness).stdout
    other = served.cli("data", "verify", "--witness", f"3:{sent[1]['link']}", check=False)
    assert (other.returncode, "mailbox: 5 entries, " in other.stdout, "at entry 3" in other.stdout) == (1, True, True)
    assert served.cli("data", "verify", "--witness", "3", check=False).returncode == 2

    tamper(served, url, "UPDATE mailbox_record SET recipient = 'eve' WHERE seq = 4")
    found = served.cli("data", "verify", check=False)
    assert (found.returncode, "altered at entry 4" in found.stdout) == (1, True)


def test_a_database_that_is_not_there_is_a_clear_error(tmp_path: Path):
    with serving(tmp_path / "data") as served:
        gone = served.cli("data", "verify", check=False, POSTROOM_STORE__URL="postgresql://127.0.0.1:1/postroom")
    assert gone.returncode != 0
    assert "cannot be read" in gone.stderr
    assert "Traceback" not in gone.stderr
