"""The page about views names what the code does."""

import re
from pathlib import Path

from postroom.safety import lookalike, view
from postroom.safety.fence import TAGS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "view.md").read_text()


def test_every_finding_of_the_view_is_explained() -> None:
    source = Path(view.__file__).read_text()
    codes = {*re.findall(r'code="(\w+)"', source), *re.findall(r'_SHOWS_ADDRESS = "(\w+)"', source), lookalike.CODE}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == codes


def test_every_tag_is_named() -> None:
    assert all(f"`{tag}`" in PAGE for tag in TAGS)
