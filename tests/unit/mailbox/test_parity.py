"""Every behaviour of the reference mailbox has a test under its id, or a line that says how ours differs."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("unit", "clients", "promises", "hostile", "contract")


def ids_of_tests() -> set[int]:
    """Ids in the names of tests: one test may show several."""
    paths = (path for folder in FOLDERS for path in (ROOT / "tests" / folder).rglob("test_*.py"))
    named = (re.findall(r"def test((?:_b\d{1,2})+)_", path.read_text(encoding="utf-8")) for path in paths)
    return {int(number) for names in named for name in names for number in re.findall(r"b(\d+)", name)}


def test_each_id_of_the_mailbox_is_tested_or_told_of():
    page = (ROOT / "docs" / "reference" / "parity.md").read_text(encoding="utf-8")
    section = page.partition("## B. ")[2].partition("\n## ")[0]
    told = {int(number) for number in re.findall(r"^\| B(\d+) \|", section, re.MULTILINE)}
    assert sorted(set(range(1, 64)) - ids_of_tests() - told) == []
    assert sorted(told & ids_of_tests()) == []
