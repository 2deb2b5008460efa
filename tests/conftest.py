"""What every test may use, and the rule for skips.

Where `CI` is set a skipped test fails, unless its reason starts with one of ALLOWED_SKIPS: a peer
that is missing there means that CI no longer proves what the README claims. No test connects to
anything but this machine, and no Python or Node it starts: `egress/` sees to it.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from egress.egress_watch import FILE, watch

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases"

# reason prefix -> why CI may skip it
ALLOWED_SKIPS: dict[str, str] = {
    "cases absent": "third-party mails are not part of the project; a lone clone tests its own",
    "needs root": "a second user can only be tried by root; CI runs as root where it can",
}


# What an example takes says how busy the machine is, not whether the code is right. Each run tries the same examples, so
# that a red run is about what was changed; other ones are looked for with --long.
_EASY: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("postroom", **_EASY, derandomize=True)
settings.register_profile("long", **_EASY)
settings.load_profile("postroom")

_EGRESS = ROOT / "tests" / "egress"
_TOLD, ELSEWHERE = tempfile.mkstemp(prefix="elsewhere-")
os.environ[FILE] = ELSEWHERE
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_EGRESS), os.environ.get("PYTHONPATH"))))
os.environ["NODE_OPTIONS"] = " ".join(
    filter(None, (f'--require="{_EGRESS / "egress_watch.cjs"}"', os.environ.get("NODE_OPTIONS")))
)
watch()


@pytest.fixture(autouse=True)
def _no_connection_elsewhere() -> Iterator[None]:
    """No test, and no Python or Node it starts, connects to anything but this machine."""
    yield
    if told := os.read(_TOLD, 10_000):
        pytest.fail(f"a connection elsewhere was tried: {told.decode()}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        settings.load_profile("long")


def pytest_unconfigure() -> None:
    os.close(_TOLD)
    Path(ELSEWHERE).unlink()


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
