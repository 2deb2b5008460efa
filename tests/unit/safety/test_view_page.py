"""The page about views names what the code does."""

import re
from pathlib import Path

from postroom.safety import lookalike, view
from postroom.safety.fence import TAGS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "view.md").read_text()


def explained(table: str) -> set[str]:
    rows = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`(\w+)`", row)}


def test_every_finding_of_the_view_is_explained() -> None:
    source = Path(view.__file__).read_text()
    codes = {*re.findall(r'code="(\w+)"', source), *re.findall(r'_SHOWS_ADDRESS = "(\w+)"', source), lookalike.CODE}
    assert explained(PAGE.partition("Those made when")[0]) == codes


def test_every_finding_of_an_arrival_is_explained() -> None:
    rooms = Path(view.__file__).parents[1]
    files = (*(rooms / "office").glob("*.py"), *(rooms / "mime").glob("*.py"), rooms / "safety" / "visible.py")
    text = "\n".join(path.read_text() for path in files)
    codes = set(re.findall(r'Finding\(\s*code="(\w+)"|defects\.(?:add|append)\("(\w+)"', text))
    flat = {code for pair in codes for code in pair if code}
    assert flat - explained(PAGE) == set()


def test_every_tag_is_named() -> None:
    assert all(f"`{tag}`" in PAGE for tag in TAGS)
