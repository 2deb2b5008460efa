"""What the tools cost a model, and that arguments are checked before anything happens."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import Invalid
from postroom.tools.schemas import EMAIL_TOOLS, check_arguments, schema_bytes

BY_NAME = {spec.name.removeprefix("agentmail_"): spec for spec in EMAIL_TOOLS}


def test_all_eleven_cost_at_most_3900_bytes_and_the_four_reading_ones_1227():
    assert schema_bytes(EMAIL_TOOLS) <= 3900
    assert schema_bytes(tuple(spec for spec in EMAIL_TOOLS if spec.reads)) <= 1227


def test_names_and_order_are_the_references():
    assert [spec.name.removeprefix("agentmail_") for spec in EMAIL_TOOLS] == [
        "list_inboxes",
        "list_threads",
        "get_thread",
        "search",
        "create_inbox",
        "send_message",
        "reply",
        "create_draft",
        "send_draft",
        "update_labels",
        "followup",
    ]
    assert all(re.fullmatch("[a-z_]{1,48}", spec.name) for spec in EMAIL_TOOLS)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("get_thread", {}, "threadId is required"),
        ("get_thread", {"threadId": 7}, "threadId must be text"),
        ("get_thread", {"threadId": None}, "threadId is required"),
        ("get_thread", {"thread": "t", "threadId": "t"}, "unknown argument 'thread', did you mean threadId?"),
        ("send_message", {"to": "a@b.example", "subject": "s", "text": "t"}, "to must be a list of texts"),
        ("send_message", {"to": [1], "subject": "s", "text": "t"}, "to must be a list of texts"),
        ("send_message", {"to": ["a@b.example"], "subject": "s", "body": "t"}, "unknown argument 'body'"),
        ("reply", {"messageId": "m", "text": "t", "replyAll": "yes"}, "replyAll must be true or false"),
        ("search", {"query": "q", "limit": True}, "limit must be a whole number"),
        ("search", {"query": "q", "limit": "5"}, "limit must be a whole number"),
    ],
)
def test_a_wrong_argument_is_named(tool, arguments, message):
    with pytest.raises(Invalid) as problem:
        check_arguments(BY_NAME[tool], arguments)
    assert message in problem.value.message


def test_null_is_the_same_as_not_given():
    assert check_arguments(BY_NAME["list_threads"], {"limit": None, "labels": ["a"]}) == {"labels": ["a"]}


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@given(
    st.sampled_from(EMAIL_TOOLS),
    st.dictionaries(st.text(string.ascii_letters, max_size=9) | st.sampled_from(["to", "text", "limit"]), json_values),
)
def test_any_arguments_either_fit_or_are_refused_in_ascii(spec, arguments):
    try:
        fitting = check_arguments(spec, arguments)
    except Invalid as problem:
        assert problem.message.isascii()  # noqa: PT017 - either way is right; the refusal has a property
    else:
        assert set(fitting) <= set(spec.input_schema["properties"])
