"""What an approval binds to: any change is another digest, and no two mails share one."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.model.mail import AttachmentData
from postroom.model.request import Outbound, SendKind
from postroom.policy.digest import digest_bytes, digest_request

RAW = b"From: a@x.example\r\n\r\nHello\r\n"
OUTBOUND = Outbound(
    inbox_id="a@x.example",
    kind=SendKind.SEND,
    from_="a@x.example",
    to=("b@y.example",),
    subject="Hi",
    text="Hello",
    attachments=(AttachmentData(content=b"abc", filename="a.txt"),),
    headers={"X-A": "1"},
)


def test_the_framing_is_the_documented_one() -> None:
    parts = [b"postroom-outgoing-bytes-1", b"a@x.example", b"2", b"b@y.example", b"c@y.example", RAW]
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert digest_bytes("a@x.example", ["c@y.example", "b@y.example"], RAW) == hashlib.sha256(framed).hexdigest()


@pytest.mark.parametrize(
    ("mail_from", "rcpt_to", "raw"),
    [
        ("A@x.example", ["b@y.example"], RAW),
        ("a@x.example", ["b@y.example", "c@y.example"], RAW),
        ("a@x.example", ["b@y.example", "b@y.example"], RAW),
        ("a@x.example", ["b@y.exampl"], b"e" + RAW),
        ("a@x.example", ["b@y.example"], RAW + b"\r\n"),
        ("a@x.example", [], RAW),
    ],
)
def test_one_changed_byte_or_recipient_is_another_digest(mail_from: str, rcpt_to: list[str], raw: bytes) -> None:
    assert digest_bytes(mail_from, rcpt_to, raw) != digest_bytes("a@x.example", ["b@y.example"], RAW)


@given(
    st.lists(st.text(alphabet="ab", max_size=3), min_size=2, max_size=5),
    st.lists(st.text(alphabet="ab", max_size=3), min_size=2, max_size=5),
)
def test_fields_cannot_run_into_each_other(first: list[str], second: list[str]) -> None:
    one = digest_bytes(first[0], first[1:-1], first[-1].encode())
    two = digest_bytes(second[0], second[1:-1], second[-1].encode())
    same = (first[0], sorted(first[1:-1]), first[-1]) == (second[0], sorted(second[1:-1]), second[-1])
    assert (one == two) is same


@pytest.mark.parametrize(
    "change",
    [
        {"to": ("B@y.example",)},
        {"cc": ("c@y.example",)},
        {"bcc": ("c@y.example",)},
        {"subject": "Hi "},
        {"text": "Hello\n"},
        {"html": ""},
        {"headers": {"X-A": "2"}},
        {"attachments": (AttachmentData(content=b"abd", filename="a.txt"),)},
        {"attachments": (AttachmentData(content=b"abc", filename="b.txt"),)},
        {"kind": SendKind.REPLY},
        {"thread_id": "t"},
    ],
)
def test_any_changed_field_of_a_request_is_another_digest(change: dict[str, object]) -> None:
    assert digest_request(replace(OUTBOUND, **change)) != digest_request(OUTBOUND)  # type: ignore[arg-type]  # a table


def test_the_order_of_headers_does_not_matter_and_odd_text_does_not_fail() -> None:
    one = replace(OUTBOUND, headers={"X-A": "1", "X-B": "\ud800"})
    assert digest_request(one) == digest_request(replace(OUTBOUND, headers={"X-B": "\ud800", "X-A": "1"}))
