"""Mails made to break a reader: each is read quickly and rightly, and nothing of it is lost.

Most are known to take the standard library's parser seconds, gigabytes or its stack.
"""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pace import within
from postroom.limits import HEADER_BLOCK_BYTES, PARTS
from postroom.mime.addresses import display_holds_address, parse_list
from postroom.mime.parse import Parsed, parse, scan_from

HEAD = b"From: ann@example.org\r\nMessage-ID: <1@example.org>\r\n"
BOUND_S = 1.0


def bounded(raw: bytes) -> Parsed:
    return within(BOUND_S, lambda: parse(raw))


def codes(parsed: Parsed) -> set[str]:
    return {finding.code for finding in parsed.defects}


def mail(field: bytes, body: bytes = b"Hello\r\n") -> bytes:
    return HEAD + field + b"\r\n\r\n" + body


def test_a_nul_byte_is_noted_and_never_handed_on() -> None:
    parsed = bounded(mail(b"Subject: a\0b", b"c\0d\r\n"))
    assert (parsed.subject, parsed.text) == ("ab", "cd")
    assert "nul" in codes(parsed)


def test_eight_bit_headers_without_a_charset_are_read() -> None:
    parsed = bounded(mail("Subject: Köln".encode() + b"\r\nTo: \xc4nne <anne@example.net>"))
    assert (parsed.subject, parsed.to[0].display) == ("Köln", "Änne")


def test_a_folded_to_header_of_64_kib_is_opaque_text_with_a_finding() -> None:
    to = b",\r\n ".join(b"user%d@example.net" % number for number in range(3000))
    assert len(to) > 64 * 1000
    parsed = bounded(mail(b"To: " + to))
    assert (parsed.to, parsed.text, parsed.from_[0].addr) == ((), "Hello", "ann@example.org")
    assert parsed.headers["To"].startswith("user0@example.net, user1@example.net")
    assert "oversize_header" in codes(parsed)


@pytest.mark.parametrize("depth", [60, 500, 2000, 20_000])
def test_nesting_beyond_the_limit_keeps_headers_and_the_first_text(depth: int) -> None:
    opening = b"".join(
        b'--b%d\r\nContent-Type: multipart/mixed; boundary="b%d"\r\n\r\n' % (level, level + 1) for level in range(depth)
    )
    first = b"--b0\r\n\r\nfirst\r\n"
    parsed = bounded(mail(b'Content-Type: multipart/mixed; boundary="b0"', first + opening))
    assert (parsed.text, parsed.message_id) == ("first", "<1@example.org>")
    assert "too_deep" in codes(parsed)


def test_parts_beyond_the_limit_are_left_out() -> None:
    body = b"--b\r\n\r\nfirst\r\n" + b"--b\r\nContent-Type: image/png\r\n\r\nx\r\n" * 100_000
    parsed = bounded(mail(b"Content-Type: multipart/mixed; boundary=b", body))
    assert (parsed.text, len(parsed.attachments)) == ("first", PARTS - 2)
    assert "too_many_parts" in codes(parsed)


def test_twenty_thousand_encoded_words_are_one_subject() -> None:
    parsed = bounded(mail(b"Subject: " + b"\r\n ".join([b"=?utf-8?q?ab?="] * 20_000)))
    assert parsed.subject is not None
    assert set(parsed.subject[:4000]) == {"a", "b"}
    assert {"oversize_header", "oversize_header_block"} <= codes(parsed)


@pytest.mark.parametrize("parameter", [b"; name*%d*=x", b"; p%d=x", b'; p%d="x'])
def test_thousands_of_parameters_are_counted_only_to_the_limit(parameter: bytes) -> None:
    field = b"Content-Type: text/plain" + b"".join(parameter % number for number in range(5000))
    parsed = bounded(mail(field))
    assert [parsed.text] + [part.content for part in parsed.attachments] in (["Hello"], [None, b"Hello\r\n"])


@pytest.mark.parametrize(
    "value",
    [b"(" * 50_000, b"<" * 15_000, b'"' * 16_000, b'"' * 15_999, b"," * 16_000, b"a:;" * 5000, b'"\\' * 8000, b"\\" * 16_000,
     b"a@" * 8000, b"a." * 8000 + b"@b", b"[" * 16_000, b"()" * 8000, b"(\\" * 8000, b"=?" * 8000, b"a@b " * 4000, b"<>" * 8000],
)  # fmt: skip
@pytest.mark.parametrize("name", [b"From", b"To", b"Message-ID", b"References", b"Content-Type", b"Content-Disposition", b"Date"])
def test_no_header_takes_long_whatever_stands_in_it(name: bytes, value: bytes) -> None:
    parsed = bounded(b"X: y\r\n" + name + b": " + value + b"\r\n\r\nHello\r\n")
    assert parsed.text == "Hello"


def test_a_hundred_thousand_header_lines_are_cut_at_the_limit() -> None:
    parsed = bounded(HEAD + b"X-A: b\r\n" * 100_000 + b"Subject: too late\r\n\r\nHello\r\n")
    assert (parsed.subject, parsed.text) == (None, "Hello")
    assert "oversize_header_block" in codes(parsed)


def test_one_line_of_twenty_mebibytes_is_read() -> None:
    parsed = bounded(mail(b"Subject: long", b"x" * (20 << 20)))
    assert parsed.text == "x" * (20 << 20)


@pytest.mark.parametrize("filler", [b"--\r\n", b"\r\n", b"--b", b"=\r\n", b"--b--\r\n", b"From \r\n", b"\r", b"\n"])
def test_megabytes_of_near_delimiters_are_read(filler: bytes) -> None:
    body = b"--b\r\n\r\nfirst\r\n" + filler * ((4 << 20) // len(filler))
    parsed = bounded(mail(b"Content-Type: multipart/mixed; boundary=b", body))
    assert (parsed.text or "").startswith("first")


@pytest.mark.parametrize("filler", [b"--\r\n", b"--b-x\r\n", b"x--b", b"--i\r", b"--b--x\r\n"])
def test_megabytes_of_near_delimiters_of_several_boundaries_are_read(filler: bytes) -> None:
    opening = b"--b\r\n\r\nfirst\r\n--b\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\nsecond\r\n"
    parsed = bounded(mail(b"Content-Type: multipart/mixed; boundary=b", opening + filler * ((4 << 20) // len(filler))))
    assert (parsed.text or "").startswith("first\nsecond")


def test_parts_without_an_end_to_their_header_do_not_each_look_for_one() -> None:
    body = b"--b\r\nX: y\r\n" * 900 + b"--b\r\nX: y" + b"z" * (16 << 20)
    assert bounded(mail(b"Content-Type: multipart/mixed; boundary=b", body)).message_id == "<1@example.org>"


def test_a_boundary_used_twice_loses_no_text() -> None:
    inner = b"--b\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\r\ninner\r\n--b--\r\n"
    assert bounded(mail(b"Content-Type: multipart/mixed; boundary=b", b"--b\r\n\r\nouter\r\n" + inner)).text == "outer\ninner"


def test_a_broken_multipart_shows_its_raw_text() -> None:
    assert bounded(mail(b"Content-Type: multipart/mixed; boundary=nowhere")).text == "Hello"
    assert (
        bounded(mail(b"Content-Type: multipart/mixed", b"--q\r\nContent-Type: text/plain\r\n\r\nfound\r\n--q--\r\n")).text
        == "found"
    )


def test_old_mail_with_bare_carriage_returns_is_read() -> None:
    parsed = bounded(b"From: ann@example.org\rSubject: old\r\rline 1\rline 2\r")
    assert (parsed.subject, parsed.text, parsed.from_[0].addr) == ("old", "line 1\nline 2", "ann@example.org")
    assert scan_from(b"From: ann@example.org\rSubject: old\r\rline 1") == ("ann@example.org",)
    assert "bare_cr" in codes(parsed)


def test_a_stray_line_among_the_headers_does_not_end_them() -> None:
    parsed = bounded(b"From: ann@example.org\r\nthis is no header\r\nSubject: found\r\n\r\nHello\r\n")
    assert (parsed.subject, parsed.text) == ("found", "Hello")
    assert "stray_header_line" in codes(parsed)


def test_a_body_without_its_blank_line_is_still_a_body() -> None:
    parsed = bounded(b"From: ann@example.org\r\nSubject: x\r\nno header any more\r\nnor here\r\n")
    assert (parsed.subject, parsed.text) == ("x", "no header any more\nnor here")


def test_every_from_field_counts() -> None:
    raw = b"From: ann@example.org\r\nFrom: eve@example.com\r\nSubject: one\r\nSubject: two\r\n\r\n"
    parsed = bounded(raw)
    assert [address.addr for address in parsed.from_] == ["ann@example.org", "eve@example.com"]
    assert (parsed.from_count, parsed.subject, scan_from(raw)) == (2, "one", ("ann@example.org", "eve@example.com"))
    assert "multiple_from" in codes(parsed)


def test_line_breaks_inside_an_encoded_word_do_not_leave_the_header() -> None:
    assert bounded(mail(b"Subject: =?utf-8?q?a=0D=0ABcc:_evil?=")).subject == "a Bcc: evil"


def test_an_address_in_a_display_name_is_noticed() -> None:
    found = [parse_list(text)[0] for text in ("a@good.com <b@evil.com>", '"b@evil.com" <b@evil.com>', "Bob <b@evil.com>")]
    assert [display_holds_address(address) for address in found] == [True, False, False]


def as_json(parsed: Parsed) -> bytes:
    strings = [
        parsed.subject,
        parsed.text,
        parsed.html,
        parsed.message_id,
        *parsed.in_reply_to,
        *parsed.references,
        parsed.content_type,
    ]
    strings += [f"{name}: {value}" for name, value in parsed.headers.items()]
    for address in (*parsed.from_, *parsed.sender, *parsed.to, *parsed.cc, *parsed.bcc, *parsed.reply_to):
        strings += [address.display, address.addr, address.canonical, address.formatted]
    for part in parsed.attachments:
        strings += [part.filename, part.content_type, part.content_id]
    encoded = json.dumps(strings, ensure_ascii=False).encode("utf-8")
    assert b"\\u0000" not in encoded
    return encoded


PIECES = st.sampled_from(
    [b"From: ", b"To: a@b.c", b"Subject: ", b"=?utf-8?q?=C3?=", b"=?utf-16?b?2AA=?=", b"\r\n", b"\r\n", b"\n", b"\r", b"\0", b"\xff",
     b"\xed\xa0\x80", b"--b", b"--b--", b"\r\n--b\r\n", b"Content-Type: multipart/mixed; boundary=b\r\n", b"Content-Type: message/rfc822\r\n",
     b"Content-Type: text/html; charset=utf-7\r\n", b"Content-Transfer-Encoding: base64\r\n", b"Content-Transfer-Encoding: x-uuencode\r\n",
     b"filename*0*=", b"''", b"<", b">", b"(", b"@", b'"', b"\\", b";", b":", b",", b" ", b"Date: ", b"1 Jan 2026 00:00:00 +0000", b"=", b"x"]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(raw=st.one_of(st.binary(max_size=400), st.lists(PIECES, max_size=60).map(b"".join)))
@example(raw=b"")
@example(raw=b"\r\n")
@example(raw=b":")
@example(raw=b"--")
def test_any_bytes_are_read_into_plain_strings(raw: bytes) -> None:
    as_json(parse(raw))
    for address in scan_from(raw):
        address.encode()


def test_the_header_block_is_bounded_before_the_sender_is_looked_at() -> None:
    raw = b"X: " + b"y" * HEADER_BLOCK_BYTES + b"\r\nFrom: late@example.org\r\n\r\n"
    assert scan_from(raw) == ()
