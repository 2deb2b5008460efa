"""The small readers under `parse`: charsets, transfer encodings, encoded words, parameters, names, flowed text, threads."""

import base64

import pytest

from postroom.limits import PARAMETERS
from postroom.mime.charset import codec, decode
from postroom.mime.encoded_words import decode_words
from postroom.mime.filename import safe_filename
from postroom.mime.flowed import unflow
from postroom.mime.marks import marks
from postroom.mime.parameters import parse_parameterized
from postroom.mime.parse import Parsed, parse, scan_from
from postroom.mime.threading import message_ids, references_for_reply, thread_candidates
from postroom.mime.transfer import decode_base64, decode_quoted_printable, decode_transfer


@pytest.mark.parametrize(
    ("raw", "charset", "text"),
    [
        (b"abc", None, "abc"),
        (b"a\0b", None, "ab"),
        ("ü".encode(), "utf-8", "ü"),
        (b"\xef\xbb\xbfx", "utf-8", "x"),
        (b"\xff ok", "utf-8", "\N{REPLACEMENT CHARACTER} ok"),
        (b"\x80", "iso-8859-1", "€"),
        (b"\x81\xfc", "iso-8859-1", "\N{REPLACEMENT CHARACTER}ü"),
        ("ü".encode("utf-16"), "utf-16", "ü"),
        (b"\xd8", "utf-16-le", "\N{REPLACEMENT CHARACTER}"),
        ("日本".encode("iso2022_jp"), "ISO-2022-JP", "日本"),
        ("日本".encode("cp932"), '"Shift_JIS"', "日本"),
        ("한국".encode("cp949"), "ks_c_5601-1987", "한국"),
        ("привет".encode("koi8-r"), "KOI8-R", "привет"),
        ("ł".encode("iso8859-2"), "ISO_8859-2:1987", "ł"),
        ("ę".encode("cp1250"), "x-windows-1250", "ę"),
        (b"ABC=", "rot13", "ABC="),
        (b"x", "a" * 100, "x"),
        (b"x", "ü", "x"),
        (b"x", "cp99999", "x"),
    ],
)
def test_bytes_become_text(raw: bytes, charset: str | None, text: str) -> None:
    assert decode(raw, charset) == text


@pytest.mark.parametrize(
    "charset", ["utf-7", "unicode-1-1-utf-7", "base64", "hex", "idna", "punycode", "unicode_escape", "undefined", "zlib"]
)
def test_what_is_no_text_encoding_names_no_codec(charset: str) -> None:
    assert codec(charset) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (" folded\r\n value ", "folded value"),
        ("bare\rreturn", "bare return"),
        ("=?utf-8?q?a_b=3F?=", "a b?"),
        ("=?utf-8?b?w7w=?= =?utf-8?b?w6Q=?=", "üä"),
        ("=?utf-8?b?w7w=?= and =?utf-8?b?w6Q=?=", "ü and ä"),
        ("=?utf-8?q?=C3?=\r\n =?utf-8?q?=BC?=", "ü"),
        ("=?utf-8?q?=FC?= =?iso-8859-1?q?=FC?=", "\N{REPLACEMENT CHARACTER}ü"),
        ("=?iso-8859-1*de?q?=FC?=", "ü"),
        ("=?utf-8?q?ü?=", "ü"),
        ("=?iso-2022-jp?q?ü?=", "ü"),
        ("=?utf-8?b?w7w?=", "ü"),
        ("=?utf-8?x?abc?=", "=?utf-8?x?abc?="),
        ("=?broken", "=?broken"),
        ("=?utf-8?q?=00?=x", "x"),
    ],
)
def test_encoded_words_are_decoded(value: str, text: str) -> None:
    assert decode_words(value) == text


@pytest.mark.parametrize(
    ("raw", "content", "intact"),
    [
        (b"YQ==", b"a", True),
        (b"Y\r\nQ\r\n==\r\n", b"a", True),
        (b"YQ", b"a", True),
        (b"YQ*=", b"a", False),
        (b"YWJjZ", b"abc", False),
        (b"YQ==YQ==", b"aa", True),
        (b"YQ==\n--\nfooter, here", b"a", False),
        (b"", b"", True),
        (b"====", b"", True),
    ],
)
def test_base64_gives_every_whole_byte(raw: bytes, content: bytes, intact: bool) -> None:
    assert decode_base64(raw) == (content, intact)


def test_transfer_encodings_are_undone_and_unknown_ones_left() -> None:
    assert decode_transfer(b"a=3Db", "quoted-printable") == (b"a=b", True)
    assert decode_transfer(b"YQ==", "base64") == (b"a", True)
    assert decode_transfer(b"a=3Db", "8bit") == (b"a=3Db", True)
    assert decode_transfer(b"a=3Db", "x-nonsense") == (b"a=3Db", True)
    assert decode_transfer(b"begin 644 x\r\n#86)C\r\n`\r\nend\r\n", "x-uuencode") == (b"abc", True)
    assert decode_transfer(b"begin 644 x\n#86)C\n\x80\x80\n", "uuencode") == (b"abc", False)
    assert decode_quoted_printable(b"=zz=4") == b"=zz=4"


@pytest.mark.parametrize(
    ("header", "value", "parameters"),
    [
        ("text/plain", "text/plain", {}),
        ("Text / Plain ; Charset = UTF-8", "text/plain", {"charset": "UTF-8"}),
        ('a/b; x="1;2"; y=3', "a/b", {"x": "1;2", "y": "3"}),
        ('a/b; x="C:\\dir\\f"', "a/b", {"x": "C:\\dir\\f"}),
        ('a/b; x="open', "a/b", {"x": "open"}),
        ("a/b; x=1; x=2", "a/b", {"x": "1"}),
        ("a/b; x*0=a; x*2=c; x*1=b", "a/b", {"x": "abc"}),
        ("a/b; x*=utf-8'en'%C3%BC; x=plain", "a/b", {"x": "ü"}),
        ("a/b; x*=noquotes%20here", "a/b", {"x": "noquotes here"}),
        ("a/b; x*0*=''=?utf-8?q?a?=", "a/b", {"x": "a"}),
        ("a/b;;; ; x=1", "a/b", {"x": "1"}),
        ("a/b; x=", "a/b", {"x": ""}),
        ("a/b; *=1; x**=2", "a/b", {"*": "1", "x**": "2"}),
    ],
)
def test_parameters_are_read(header: str, value: str, parameters: dict[str, str]) -> None:
    found = parse_parameterized(header)
    assert (found.value, dict(found.parameters)) == (value, parameters)


def test_parameters_beyond_the_limit_are_left_out() -> None:
    found = parse_parameterized("a/b" + "".join(f"; p{number}=1" for number in range(PARAMETERS + 1)))
    assert (len(found.parameters), found.truncated) == (PARAMETERS, True)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        (None, None), ("", None), ("a.txt", "a.txt"), ("/etc/passwd", "passwd"), ("a/b/", "b"), ("..\\..\\x.exe", "x.exe"), ("...", "..."),
        (".", None), ("a\r\nb", "a b"), ("\x00", None), ("x" * 300 + ".pdf", "x" * 251 + ".pdf"), ("x" * 300, "x" * 255),
    ],
)  # fmt: skip
def test_names_are_never_paths(name: str | None, safe: str | None) -> None:
    assert safe_filename(name) == safe


@pytest.mark.parametrize(
    ("text", "delete", "expected"),
    [
        ("a \nb\nc", False, "a b\nc"),
        ("a \nb", True, "ab"),
        ("> a \n> b\n>> c", False, "> a b\n>> c"),
        ("> a \nb", False, "> a \nb"),
        ("a \n-- \nAnn", False, "a \n-- \nAnn"),
        (" >stuffed", False, ">stuffed"),
        ("", False, ""),
    ],
)
def test_flowed_lines_are_joined(text: str, delete: bool, expected: str) -> None:
    assert unflow(text, delete_space=delete) == expected


@pytest.mark.parametrize(
    ("header", "ids"),
    [
        ("<a@b>", ("<a@b>",)),
        ("<a@b><c@d> <a@b>", ("<a@b>", "<c@d>")),
        ("your mail of Monday <a@b> (fine)", ("<a@b>",)),
        ("< a@\t b >", ("<a@b>",)),
        ("a@b", ("<a@b>",)),
        ("nothing", ()),
        ("<>", ()),
        ("<" + "x" * 997 + ">", ()),
    ],
)
def test_message_ids_are_found(header: str, ids: tuple[str, ...]) -> None:
    assert message_ids(header) == ids


def test_a_mail_is_never_its_own_parent() -> None:
    assert thread_candidates(Parsed(message_id="<b@x>", in_reply_to=("<b@x>", "<a@x>"), references=("<a@x>",))) == ("<a@x>",)


def test_references_keep_the_first_and_the_newest() -> None:
    chain = tuple(f"<{number}@x>" for number in range(500))
    kept = references_for_reply("<new@x>", (), chain)
    assert (len(kept), kept[0], kept[1], kept[-2:]) == (100, "<0@x>", "<402@x>", ("<499@x>", "<new@x>"))
    assert references_for_reply("<new@x>", ("<old@x>",), ()) == ("<old@x>", "<new@x>")
    assert references_for_reply("<new@x>", ("<a@x>", "<b@x>"), ()) == ("<new@x>",)
    assert references_for_reply("<new@x>", (), ("<new@x>", "<a@x>")) == ("<a@x>", "<new@x>")
    huge = tuple(f"<{number}{'y' * 900}@x>" for number in range(50))
    assert len(references_for_reply("<new@x>", (), huge)) == 9


@pytest.mark.parametrize(
    ("field", "mark"),
    [
        (("From", "MAILER-DAEMON"), "daemon"),
        (("From", "Mail System <postmaster@example.org>"), "daemon"),
        (("List-Id", "x"), "list"),
        (("X-Loop", "y"), "loop"),
        (("X-Failed-Recipients", "a@b.c"), "failed_recipients"),
        (("Precedence", "list"), "list"),
        (("Precedence", "first-class"), None),
        (("List-Id", ""), None),
        (("From", "my-postmaster@example.org"), None),
    ],
)
def test_marks_are_found(field: tuple[str, str], mark: str | None) -> None:
    assert marks([field]) == ((mark,) if mark else ())


def test_a_mail_that_went_round_too_often_is_marked() -> None:
    assert marks([("Received", "x")] * 30) == ()
    assert marks([("Received", "x")] * 31, content_type="multipart/report") == ("hops", "report")


def test_html_names_its_charset_where_the_part_does_not() -> None:
    html = '<meta charset="windows-1251"><p>привет'.encode("cp1251")
    assert "привет" in (parse(b"Content-Type: text/html\n\n" + html).html or "")


def test_the_newest_ids_of_an_oversize_field_are_kept() -> None:
    chain = b"\r\n ".join(b"<%d@example.org>" % number for number in range(2000))
    parsed = parse(b"References: " + chain + b"\r\n\r\n")
    assert parsed.references[-1] == "<1999@example.org>"
    assert len(parsed.references) < 2000


def test_an_empty_mail_is_an_empty_mail() -> None:
    parsed = parse(b"")
    assert (parsed.subject, parsed.from_, parsed.text, parsed.html) == (None, (), "", None)
    assert scan_from(b"") == ()


def test_a_mail_may_begin_with_an_mbox_line_or_blank_lines() -> None:
    assert parse(b"From ann@x Mon Jun  1 09:00:00 2026\nSubject: x\n\nHi\n").subject == "x"
    assert parse(b"\r\n\r\nSubject: x\r\n\r\nHi\r\n").subject == "x"


def test_preamble_and_epilogue_are_no_text() -> None:
    body = b"This is MIME.\r\n--b\r\n\r\nHi\r\n--b--\r\nepilogue\r\n"
    assert parse(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + body).text == "Hi"


def test_an_inner_part_left_open_ends_with_its_parent() -> None:
    inner = b'--a\r\nContent-Type: multipart/alternative; boundary="i"\r\n\r\n--i\r\n\r\nHi\r\n'
    rest = b"--a\r\nContent-Type: image/png\r\n\r\nx\r\n--a--\r\n"
    parsed = parse(b"Content-Type: multipart/mixed; boundary=a\r\n\r\n" + inner + rest)
    assert (parsed.text, [part.content for part in parsed.attachments]) == ("Hi", [b"x"])


def test_a_part_of_an_unreadable_type_is_plain_text() -> None:
    assert parse(b"Content-Type: nonsense\r\n\r\nHi\r\n").text == "Hi"


def test_an_encoded_attached_mail_is_decoded_whole() -> None:
    inner = b"Subject: in\r\n\r\n--b\r\nx"
    part = b"--b\r\nContent-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(inner)
    parsed = parse(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part + b"\r\n--b--")
    assert [part.content for part in parsed.attachments] == [inner]


def test_more_than_a_hundred_headers_are_kept_to_a_hundred() -> None:
    parsed = parse(b"".join(b"X-%d: y\r\n" % number for number in range(150)) + b"\r\n")
    assert len(parsed.headers) == 100
    assert "many_headers" in {finding.code for finding in parsed.defects}


def test_a_repeated_header_shows_its_first_value() -> None:
    assert dict(parse(b"X-A: 1\r\nx-a: 2\r\n\r\n").headers) == {"X-A": "1"}
