"""One value, one spelling."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.ledger.canonical import canonical

# Values and spellings after RFC 8785 §3.2.2 and §3.2.3, without floats.
SPELLINGS = [
    (None, b"null"),
    (True, b"true"),
    (0, b"0"),
    (-(2**53) + 1, b"-9007199254740991"),
    ("", b'""'),
    ('"\\/\b\f\n\r\t\x1f\x7f', b'"\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f"'),
    ("\u20ac\u2028\U0001f600", '"\u20ac\u2028\U0001f600"'.encode()),
    ([1, [], {}], b"[1,[],{}]"),
    ((1, "a"), b'[1,"a"]'),
    ({"b": 1, "a": {"d": 2, "c": 3}}, b'{"a":{"c":3,"d":2},"b":1}'),
    ({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}, None),
]


@pytest.mark.parametrize(("value", "spelling"), [case for case in SPELLINGS if case[1] is not None])
def test_values_have_the_spelling_of_rfc_8785(value: object, spelling: bytes) -> None:
    assert canonical(value) == spelling


def test_keys_are_ordered_by_utf_16() -> None:
    value = SPELLINGS[-1][0]
    assert list(json.loads(canonical(value))) == ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize("value", [1.0, float("nan"), b"x", {1: 2}, {"a": {None: 1}}, 2**53, -(2**53), {1, 2}, object()])
def test_what_has_no_one_spelling_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"canonical form|keys are strings"):
        canonical(value)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        canonical("\ud800")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON)
def test_reading_it_back_and_writing_it_again_changes_nothing(value: object) -> None:
    written = canonical(value)
    assert json.loads(written) == value
    assert canonical(json.loads(written)) == written
