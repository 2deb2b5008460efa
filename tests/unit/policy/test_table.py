"""The policy page says what the code does."""

from pathlib import Path

from postroom.policy.table import markdown

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "policy.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m postroom.policy.table > docs/reference/policy.md"


def test_the_page_shows_the_three_answers() -> None:
    page = markdown()
    assert "| trusted and authenticated | ask | **send** | ask | **send** |" in page
    assert "| blocked | refuse (`blocked`) |" in page
    assert "| held | approved, expired, refused |" in page
