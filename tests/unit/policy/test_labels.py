"""Labels callers may set, and how they are written."""

import pytest

from postroom.errors import Invalid
from postroom.policy.labels import SYSTEM_LABELS, check_labels


def test_labels_are_trimmed_lower_cased_and_said_once() -> None:
    assert check_labels([" To-Do ", "to-do", "Grün"], ["UNREAD"]) == (("to-do", "grün"), ("unread",))


def test_a_label_in_both_is_only_removed() -> None:
    assert check_labels(["a", "b"], ["B"]) == (("a",), ("b",))


def test_unread_and_trash_are_the_callers_to_edit() -> None:
    assert check_labels(["trash"], ["unread"]) == (("trash",), ("unread",))


@pytest.mark.parametrize("label", sorted(SYSTEM_LABELS))
def test_system_labels_are_the_servers(label: str) -> None:
    for place, edit in (("add_labels", ([f" {label.upper()}"], [])), ("remove_labels", ([], [label]))):
        with pytest.raises(Invalid, match=f"Cannot use system label: {label}") as refused:
            check_labels(*edit)
        assert refused.value.details["errors"][0]["path"] == [place]


@pytest.mark.parametrize(
    ("labels", "code"), [(["  "], "too_small"), (["x" * 257], "too_big"), ([str(number) for number in range(257)], "too_many")]
)
def test_sizes_are_bounded(labels: list[str], code: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_labels(labels)
    assert refused.value.details["errors"][0]["code"] == code
