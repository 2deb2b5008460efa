"""What every test may use, and the rule for skips.

Where `CI` is set a skipped test fails, unless its reason starts with one of ALLOWED_SKIPS: a peer
that is missing there means that CI no longer proves what the README claims. No test connects to
anything but this machine: an audit hook sees to it.
"""

import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases"

# reason prefix -> why CI may skip it
ALLOWED_SKIPS: dict[str, str] = {
    "cases absent": "third-party mails are not part of the project; a lone clone tests its own",
    "needs root": "a second user can only be tried by root; CI runs as root where it can",
}


# What an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("postroom", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("postroom")

ELSEWHERE: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Whatever a test does, it talks to this machine only; a connection to anywhere else is not made, and is told."""
    if event not in ("socket.connect", "socket.sendto"):
        return
    address = arguments[1]
    if isinstance(address, tuple) and not _is_here(str(address[0])):
        ELSEWHERE.append(f"{event} {address[0]}")
        raise PermissionError(f"tests talk to this machine only, not to {address[0]}")


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def _no_connection_elsewhere() -> Iterator[None]:
    before = len(ELSEWHERE)
    yield
    assert ELSEWHERE[before:] == []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the crash and fuzz tests at full length")


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of third-party test mails beside the repository."""
    if not CASES.is_dir():
        pytest.skip("cases absent: no folder of third-party mails beside this checkout")
    return CASES


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    """True when the run was asked to take its time."""
    return bool(request.config.getoption("--long"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.startswith(tuple(ALLOWED_SKIPS)):
            report.outcome = "failed"
            report.longrepr = f"skipped where CI is set, and not in ALLOWED_SKIPS: {reason}"
    return report
