"""A page token belongs to the listing it was made for; anything else is the contract's 400."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import Invalid
from postroom.model.paging import MailFilter, PageRequest, make_token, read_token, scope_of

SCOPE = scope_of("threads", "scout@postroom.localhost", ("unread",), frozenset({"spam"}))


def test_a_token_comes_back_as_the_position_it_was_made_of():
    token = make_token(SCOPE, [1_764_612_000_123_456, 42])
    assert read_token(SCOPE, token, int, int) == [1_764_612_000_123_456, 42]
    assert read_token(SCOPE, None, int, int) is None


def test_a_token_of_another_filter_is_refused():
    token = make_token(scope_of("threads", "other@postroom.localhost"), [1, 2])
    with pytest.raises(Invalid) as caught:
        read_token(SCOPE, token, int, int)
    assert caught.value.details["errors"][0]["path"] == ["page_token"]


@pytest.mark.parametrize("position", [[1], [1, "2"], [1, True], [1, 2**63], [1, 2, 3]])
def test_a_position_of_the_wrong_shape_is_refused(position: list[object]):
    with pytest.raises(Invalid):
        read_token(SCOPE, make_token(SCOPE, position), int, int)


@given(st.text())
def test_junk_is_refused_and_never_raises_anything_else(junk: str):
    with pytest.raises(Invalid):
        read_token(SCOPE, junk, int, int)


@pytest.mark.parametrize(("limit", "filtered"), [(0, False), (-1, False), (1001, False), (101, True)])
def test_a_limit_outside_the_range_is_refused(limit: int, filtered: bool):
    with pytest.raises(Invalid, match="limit must be between 1 and"):
        PageRequest(limit=limit).size(filtered=filtered)


def test_the_default_page_is_fifty():
    assert PageRequest().size() == 50
    assert PageRequest(limit=100).size(filtered=True) == 100


@pytest.mark.parametrize("name", ["labels", "senders", "recipients", "subject"])
def test_a_filter_has_as_many_entries_as_a_statement_can_carry(name: str):
    assert getattr(MailFilter(**{name: ("a",) * 20}), name) == ("a",) * 20
    with pytest.raises(Invalid, match=f"at most 20 {name}"):
        MailFilter(**{name: ("a",) * 21})
