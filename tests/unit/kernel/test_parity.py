"""Every behaviour of the reference email plugin has a test under its id, or a line that says how ours differs."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EMAIL = range(1, 67)


def ids_of_tests() -> set[int]:
    """Ids that a test's name begins with."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {int(number) for source in sources for number in re.findall(r"def test_a(\d{2})_", source)}


def section() -> str:
    page = (ROOT / "docs" / "reference" / "parity.md").read_text(encoding="utf-8")
    return page.partition("## A. ")[2].partition("\n## ")[0]


def test_each_id_of_the_email_plugin_is_tested_or_told_of():
    rows = {int(number) for number in re.findall(r"^\| A(\d+) \|", section(), re.MULTILINE)}
    missing = {int(number) for number in re.findall(r"A(\d+)", section().partition("Not built yet")[2].partition(".\n")[0])}
    assert sorted(set(EMAIL) - ids_of_tests() - rows - missing) == []


def test_what_is_said_to_be_missing_has_no_test_yet():
    missing = {int(number) for number in re.findall(r"A(\d+)", section().partition("Not built yet")[2].partition(".\n")[0])}
    assert sorted(missing & ids_of_tests()) == []
