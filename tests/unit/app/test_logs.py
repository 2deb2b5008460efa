"""Logs are redacted, and a log that cannot be written stops nothing."""

import io
import json
from collections.abc import Callable

import pytest
import structlog

from postroom.app.logs import configure
from postroom.safety.redact import Redactor


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.fixture
def logs(capsys: pytest.CaptureFixture[str]):
    configure(Redactor(own_secrets=["am_made_up_owner_secret"]))
    yield lambda: capsys.readouterr().err
    structlog.reset_defaults()


def test_what_postroom_holds_secret_is_not_logged(logs: Callable[[], str]):
    structlog.get_logger("t").info("relay_refused", reply="bad password am_made_up_owner_secret")
    (line,) = logs().splitlines()
    assert json.loads(line)["event"] == "relay_refused"
    assert "am_made_up_owner_secret" not in line


def test_a_full_disk_behind_the_log_is_no_error(logs: Callable[[], str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stderr", FullDisk())
    structlog.get_logger("t").error("disk_full")
