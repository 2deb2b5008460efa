"""Files in Outlook's `winmail.dat` are listed beside it; whatever is wrong with one, nothing is lost."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace import within
from postroom.mime.parse import Parsed, parse
from postroom.mime.tnef import File, read_tnef

HEAD = b"\x78\x9f\x3e\x22\x01\x00"
CODEPAGE, MESSAGE, BEGIN, TITLE, DATA, PROPERTIES = 0x00069007, 0x00069003, 0x00069002, 0x00018010, 0x0006800F, 0x00069005


def attribute(tag: int, data: bytes) -> bytes:
    level = 1 if tag in {CODEPAGE, MESSAGE} else 2
    return struct.pack("<BII", level, tag, len(data)) + data + struct.pack("<H", sum(data) & 0xFFFF)


def text(number: int, value: str) -> bytes:
    data = value.encode("utf-16-le") + b"\0\0"
    return struct.pack("<HHII", 0x1F, number, 1, len(data)) + data + bytes(-len(data) % 4)


def plain(number: int, kind: int, data: bytes) -> bytes:
    return struct.pack("<HHII", kind, number, 1, len(data)) + data + bytes(-len(data) % 4)


def row(*properties: bytes) -> bytes:
    return struct.pack("<I", len(properties)) + b"".join(properties)


def file(title: bytes, content: bytes, *properties: bytes) -> bytes:
    made = attribute(BEGIN, bytes(14)) + attribute(TITLE, title + b"\0") + attribute(DATA, content)
    return made + (attribute(PROPERTIES, row(*properties)) if properties else b"")


def mail(container: bytes, *, body: bytes = b"See the file.", name: str = "winmail.dat") -> Parsed:
    return parse(
        b"From: ann@example.org\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
        b"--b\r\nContent-Type: text/plain\r\n\r\n" + body + b"\r\n"
        b"--b\r\nContent-Type: application/ms-tnef; name=" + name.encode() + b"\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        + base64.b64encode(container) + b"\r\n--b\r\nContent-Type: image/png; name=last.png\r\n\r\npng\r\n--b--\r\n"
    )  # fmt: skip


DOCUMENT = row(
    struct.pack("<HHi", 0x03, 0x3705, 1),
    struct.pack("<HH16sII", 0x03, 0x8001, bytes(16), 0, 5) + struct.pack("<i", 7),  # named by a number
    struct.pack("<HH16sII", 0x0B, 0x8002, bytes(16), 1, 6) + b"a\0b\0c\0\0\0" + struct.pack("<i", 1),  # named by a word
    struct.pack("<HHIqq", 0x1014, 0x3001, 2, 1, 2),  # many numbers
    text(0x3707, "план на год.docx"),
    text(0x370E, "application/msword"),
)
INVITATION = (
    HEAD
    + attribute(CODEPAGE, struct.pack("<II", 1251, 0))
    + file("ПЛАН~1.DOC".encode("cp1251"), b"one\0two")
    + attribute(PROPERTIES, DOCUMENT)
    + file(b"b.txt", b"second")
)


def test_the_files_in_a_container_come_after_everything_else_and_the_container_stays():
    parsed = mail(INVITATION)
    assert [(part.filename, part.content_type, part.content) for part in parsed.attachments] == [
        ("winmail.dat", "application/ms-tnef", INVITATION),
        ("last.png", "image/png", b"png"),
        ("план на год.docx", "application/msword", b"one\0two"),
        ("b.txt", "application/octet-stream", b"second"),
    ]
    assert (parsed.text, parsed.defects) == ("See the file.", ())


def test_a_short_name_is_read_in_the_containers_own_code_page():
    container = HEAD + attribute(CODEPAGE, struct.pack("<II", 1251, 0)) + file("план.doc".encode("cp1251"), b"x")
    assert read_tnef(container).files == [File(name="план.doc", content=b"x")]


def test_the_text_in_a_container_counts_where_the_mail_has_none():
    container = HEAD + attribute(MESSAGE, row(plain(0x1000, 0x1E, b"Hello\r\nBob\r\n\0")))
    only = b"From: ann@example.org\r\nContent-Type: application/ms-tnef; name=winmail.dat\r\n"
    only += b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(container)
    assert (parse(only).text, mail(container).text) == ("Hello\nBob", "See the file.")


def test_a_mail_within_a_container_is_one_file_of_it():
    inner = HEAD + file(b"deep.txt", b"deep")
    embedded = attribute(BEGIN, bytes(14)) + attribute(
        PROPERTIES, row(text(0x3707, "Fwd"), plain(0x3701, 0x0D, bytes(16) + inner))
    )
    assert read_tnef(HEAD + embedded).files == [File(name="Fwd", content=inner)]


def test_a_name_is_never_a_path_and_a_type_never_a_header():
    container = HEAD + file(b"x", b"y", text(0x3707, "..\\..\\etc/passwd"), text(0x370E, "text/html\r\nX: y"))
    assert [(part.filename, part.content_type) for part in mail(container).attachments[2:]] == [
        ("passwd", "application/octet-stream")
    ]


AFTER = HEAD + file(b"a", b"b")
BROKEN = {
    "nothing": (b"", 0),
    "a signature alone": (HEAD[:4], 0),
    "something else": (b"not one at all", 0),
    "cut short": (INVITATION[:-9], 2),
    "an endless attribute": (AFTER + struct.pack("<BII", 2, DATA, 0xFFFFFFFF), 1),
    "endless properties": (AFTER + attribute(PROPERTIES, struct.pack("<I", 0xFFFFFFFF)), 1),
    "endless numbers": (AFTER + attribute(PROPERTIES, struct.pack("<IHHI", 1, 0x1003, 1, 0xFFFFFFFF)), 1),
    "endless texts": (AFTER + attribute(PROPERTIES, struct.pack("<IHHI", 1, 0x101F, 1, 0xFFFFFFFF)), 1),
    "an unknown type": (AFTER + attribute(PROPERTIES, struct.pack("<IHH", 1, 0x7777, 1)), 1),
}


@pytest.mark.parametrize(("container", "files"), BROKEN.values(), ids=BROKEN.keys())
def test_where_it_breaks_what_came_before_is_kept_and_said(container: bytes, files: int):
    found = read_tnef(container)
    assert (len(found.files), found.intact) == (files, False)
    parsed = mail(container)
    assert (parsed.attachments[0].filename, parsed.attachments[0].content) == ("winmail.dat", container)
    assert len(parsed.attachments) == 2 + files
    assert [defect.code for defect in parsed.defects] == ["bad_tnef"]


@pytest.mark.parametrize(
    "container",
    [
        HEAD + file(b"a", b"b") * 10_000,
        HEAD + attribute(CODEPAGE, b"") * 500_000,
        HEAD + attribute(MESSAGE, struct.pack("<I", 2**31) + struct.pack("<HHi", 3, 1, 1) * 1_000_000),
        HEAD + attribute(MESSAGE, struct.pack("<IHHI", 1, 0x101E, 1, 2**31) + bytes(8_000_000)),
    ],
    ids=["ten thousand files", "attributes of nothing", "a million properties", "millions of empty values"],
)
def test_a_container_made_to_take_long_does_not(container: bytes):
    found = within(1.0, lambda: read_tnef(container))
    assert not found.intact
    assert len(found.files) <= 1000


@given(
    st.lists(st.one_of(st.binary(max_size=12), st.sampled_from([HEAD, INVITATION[6:60], file(b"a", b"b")])), max_size=8).map(
        b"".join
    )
)
def test_any_bytes_are_read_without_an_error(content: bytes):
    assert len(read_tnef(HEAD + content).files) <= 1000
