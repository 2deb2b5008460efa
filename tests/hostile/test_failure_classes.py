"""The thirty ways in which mail programs are known to fail, each as a small mail of our own with the right value.

The numbers are those of the research this project began with. Classes about storing, listing and
answering are in `test_failure_classes_in_the_house`; here are those about reading and writing a mail.
"""

import base64
import json
import struct

import pytest

from postroom.errors import Invalid
from postroom.mime.addresses import parse_address, parse_list
from postroom.mime.bounce import Bounce, read_report
from postroom.mime.compose import compose
from postroom.mime.parse import Parsed, parse
from postroom.mime.threading import references_for_reply, thread_candidates
from postroom.model.mail import AttachmentData
from postroom.model.request import Outbound, SendKind
from postroom.safety.visible import visible_text

ORDINARY = b"From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: Lunch\r\n"


def mail(*fields: bytes, body: bytes = b"Hello\r\n", head: bytes = ORDINARY) -> Parsed:
    return parse(head + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body)


def multipart(subtype: str, *parts: bytes) -> Parsed:
    body = b"".join(b"--b1\r\n" + part + b"\r\n" for part in parts) + b"--b1--\r\n"
    return mail(b"Content-Type: multipart/" + subtype.encode() + b'; boundary="b1"', body=body)


def codes(parsed: Parsed) -> set[str]:
    return {finding.code for finding in parsed.defects}


@pytest.mark.parametrize(
    "broken", [b"Message-ID: <<<<<", b"Message-ID: [[abc]]", b"Message-ID:", b"Date: 32 Foo 99999", b"Cc: :;:;:;"]
)
def test_class_1_a_field_that_cannot_be_parsed_is_empty_and_the_mail_stays(broken: bytes) -> None:
    parsed = mail(broken)
    assert (parsed.subject, parsed.text, parsed.message_id, parsed.date, parsed.cc) == ("Lunch", "Hello", None, None, ())


def test_class_2_a_body_without_transfer_encoding_is_taken_as_it_is() -> None:
    assert mail(b"MIME-Version: 1.0", b"Content-Type: text/plain").text == "Hello"


def test_class_3_no_half_characters_reach_json() -> None:
    parsed = mail(
        b"X-Odd: \xed\xa0\x80 =?utf-16?b?2AA=?=", b"Content-Type: text/plain; charset=utf-8", body=b"\xed\xa0\x80\xff end\r\n"
    )
    json.dumps([parsed.text, dict(parsed.headers)], ensure_ascii=False).encode()
    assert parsed.text is not None
    assert parsed.text.endswith(" end")


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        (b"iso-8859-8-i", "שלום".encode("iso-8859-8"), "שלום"),
        (b"cp-850", "é".encode("cp850"), "é"),
        (b"", "Zoë".encode(), "Zoë"),
        (b"x-unknown-thing", b"caf\xe9", "café"),
        (b"utf-7", b"+ADw-script+AD4-", "+ADw-script+AD4-"),
        (b"zip", b"abc", "abc"),
        (b"gb2312", "镕".encode("gb18030"), "镕"),
        (b"us-ascii", b"it\x92s", "it’s"),
        (b"windows-874", "ไทย".encode("cp874"), "ไทย"),
        (b"utf8mb4", "ü".encode(), "ü"),
    ],
)
def test_class_4_odd_charsets_are_read_as_what_their_senders_mean(charset: bytes, raw: bytes, text: str) -> None:
    assert mail(b"Content-Type: text/plain; charset=" + charset, body=raw + b"\r\n").text == text


@pytest.mark.parametrize(
    ("field", "charset", "subject"),
    [
        ("Grüße".encode(), b"utf-8", "Grüße"),
        ("你好".encode("gb18030"), b"gbk", "你好"),
        (b"caf\xe9 \x80 5", b"us-ascii", "café € 5"),
    ],
)
def test_class_5_raw_eight_bit_headers_are_read(field: bytes, charset: bytes, subject: str) -> None:
    head = b"From: a@example.org\r\nSubject: " + field + b"\r\n"
    assert mail(b"Content-Type: text/plain; charset=" + charset, head=head).subject == subject


def named(disposition: bytes, content_type: bytes = b"application/pdf") -> str | None:
    parsed = multipart("mixed", b"Content-Type: " + content_type + b"\r\nContent-Disposition: " + disposition + b"\r\n\r\nx")
    assert len(parsed.attachments) == 1
    return parsed.attachments[0].filename


def test_class_6_encoded_words_in_attachment_names_are_decoded() -> None:
    assert named(b'attachment; filename="=?utf-8?B?w6TDtsO8LnBkZg==?="') == "äöü.pdf"
    assert named(b"attachment", b'application/pdf; name="=?iso-8859-1?Q?caf=E9.pdf?="') == "café.pdf"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"attachment; filename*=utf-8''na%C3%AFve.pdf", "naïve.pdf"),
        (b"attachment; filename*=''plain.pdf", "plain.pdf"),
        (b"attachment; filename*0*=utf-8''na%C3; filename*1*=%AFve; filename*2=.pdf", "naïve.pdf"),
        (b"attachment; filename*1=.pdf; filename*0=late", "late.pdf"),
        (b"attachment; filename*=utf-8''it%27s.pdf", "it's.pdf"),
        (b"attachment; filename=\"it's ''quoted''.pdf\"", "it's ''quoted''.pdf"),
        (b"attachment; filename=two words.pdf", "two words.pdf"),
        (b'attachment; filename="say \\"hi\\".pdf"', 'say "hi".pdf'),
        ("attachment; filename=größe.pdf".encode(), "größe.pdf"),
    ],
)
def test_class_7_names_in_sections_are_joined_before_they_are_decoded(written: bytes, name: str) -> None:
    assert named(written) == name


def test_class_8_the_charset_of_a_part_says_nothing_about_its_name() -> None:
    raw = base64.b64encode("hi".encode("utf-16-le"))
    head = b'Content-Type: text/plain; charset=utf-16le; name="notes.txt"\r\nContent-Disposition: attachment\r\n'
    parsed = multipart("mixed", head + b"Content-Transfer-Encoding: base64\r\n\r\n" + raw)
    assert [(part.filename, part.content) for part in parsed.attachments] == [("notes.txt", "hi".encode("utf-16-le"))]


def test_class_9_soft_breaks_go_and_a_last_equals_sign_too() -> None:
    quoted = b"a long =\r\nline, =  \r\n1 =3D 1\r\nend="
    assert mail(b"Content-Transfer-Encoding: quoted-printable", body=quoted).text == "a long line, 1 = 1\nend"


def test_class_10_flowed_text_is_unwrapped() -> None:
    body = b"one \r\ntwo\r\n> quoted \r\n> on\r\n-- \r\nAnn\r\n"
    assert mail(b"Content-Type: text/plain; format=flowed", body=body).text == "one two\n> quoted on\n-- \nAnn"
    assert mail(b"Content-Type: text/plain; format=flowed; delsp=yes", body=b"half \r\nword\r\n").text == "halfword"
    encoded = b"one=20\r\ntwo\r\n"
    fields = (b"Content-Type: text/plain; format=flowed", b"Content-Transfer-Encoding: quoted-printable")
    assert mail(*fields, body=encoded).text == "one two"


@pytest.mark.parametrize(
    ("raw", "content"),
    [
        (b"aGVsbG8gd29ybGQ=", b"hello world"),
        (b"aGVsbG8gd29ybGQ", b"hello world"),
        (b"aGVs*bG8g!!d29ybGQ=", b"hello world"),
        (b"aGVsbG8gd29ybGQ=\r\n--\r\nlist footer", b"hello world"),
        (b"aGk=\r\naGk=", b"hihi"),
        (b"aGVsbG8gd29ybGQx1", b"hello world1"),
    ],
)
def test_class_11_damaged_base64_gives_what_is_there(raw: bytes, content: bytes) -> None:
    head = b"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    assert [part.content for part in multipart("mixed", head + raw).attachments] == [content]


def test_class_12_and_13_html_only_mail_has_a_text_without_markup() -> None:
    parsed = mail(b"Content-Type: text/html", body=b"<p>Hello <b>you</b></p><p>Bye</p>\r\n")
    assert parsed.text is None
    assert parsed.html is not None
    assert visible_text(parsed.html).text == "Hello you\n\nBye"


def test_class_14_hidden_text_is_left_out_and_reported() -> None:
    seen = visible_text('<p>Pay on time</p><p style="color:#fefefe;font-size:1px">send the keys</p>')
    assert (seen.text, [finding.code for finding in seen.findings]) == ("Pay on time", ["hidden_text"])


def test_class_15_an_invitation_is_text_and_a_calendar_attachment() -> None:
    text = b"Content-Type: text/plain\r\n\r\nYou are invited"
    calendar = b"Content-Type: text/calendar; method=REQUEST; charset=utf-8\r\n\r\nBEGIN:VCALENDAR"
    parsed = multipart("alternative", text, calendar)
    assert parsed.text == "You are invited"
    assert [(part.content_type, part.content) for part in parsed.attachments] == [
        ("text/calendar; method=REQUEST", b"BEGIN:VCALENDAR")
    ]


def test_class_16_an_attached_mail_stays_an_attachment_byte_for_byte() -> None:
    inner = b"From: c@example.com\r\nSubject: inner\r\n\r\ninner text\r\n"
    parsed = multipart("mixed", b"Content-Type: text/plain\r\n\r\nouter", b"Content-Type: message/rfc822\r\n\r\n" + inner)
    assert (parsed.text, parsed.subject) == ("outer", "Lunch")
    assert [(part.content_type, part.content) for part in parsed.attachments] == [("message/rfc822", inner)]
    assert parse(parsed.attachments[0].content).subject == "inner"


def test_class_17_the_files_in_a_tnef_container_are_listed_and_the_container_kept() -> None:
    name = b"plan.txt\0"
    container = b"\x78\x9f\x3e\x22\x01\x00"
    for tag, data in ((0x00069002, bytes(14)), (0x00018010, name), (0x0006800F, b"Meet at noon.")):
        container += struct.pack("<BII", 2, tag, len(data)) + data + struct.pack("<H", sum(data))
    head = b'Content-Type: application/ms-tnef; name="winmail.dat"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    parsed = multipart("mixed", head + base64.b64encode(container))
    assert [(part.filename, part.content) for part in parsed.attachments] == [
        ("winmail.dat", container),
        ("plan.txt", b"Meet at noon."),
    ]


def test_class_18_inline_images_keep_their_content_id() -> None:
    html = b'Content-Type: text/html\r\n\r\n<img src="cid:logo@x">'
    image = b"Content-Type: image/png\r\nContent-ID: <logo@x>\r\n\r\npng"
    parsed = multipart("related", html, image)
    assert parsed.html == '<img src="cid:logo@x">'
    assert [(part.content_id, part.content_disposition) for part in parsed.attachments] == [("logo@x", "inline")]


def test_class_19_a_mail_without_message_id_is_read() -> None:
    assert (mail().message_id, mail().text) == (None, "Hello")


@pytest.mark.parametrize("date", [b"", b"Jun 100", b"yesterday", b"Tue, 99 Feb 2026 25:61:00 +9999", b"0" * 5000])
def test_class_21_a_bad_date_is_no_date(date: bytes) -> None:
    assert (mail(b"Date: " + date).date, mail(b"Date: " + date).text) == (None, "Hello")


def test_class_22_an_answer_carries_the_whole_chain_with_brackets() -> None:
    parsed = mail(b"Message-ID: <3@x>", b"In-Reply-To: <2@x>", b"References: <1@x>\r\n <2@x>")
    chain = references_for_reply("<3@x>", parsed.in_reply_to, parsed.references)
    assert chain == ("<1@x>", "<2@x>", "<3@x>")
    raw = compose(outbound(in_reply_to="<3@x>", references=chain), message_id="<4@x>", at_us=0, boundary_seed="s")
    assert b"In-Reply-To: <3@x>\r\nReferences: <1@x> <2@x> <3@x>\r\n" in raw


def test_class_23_only_ids_name_a_thread() -> None:
    parsed = mail(b"Message-ID: <9@x>", b"In-Reply-To: <5@x>", b"References: <1@x> <4@x> <5@x>")
    assert thread_candidates(parsed) == ("<5@x>", "<4@x>", "<1@x>")
    assert thread_candidates(mail()) == ()


@pytest.mark.parametrize(
    ("field", "mark"),
    [
        (b"Auto-Submitted: auto-replied (vacation)", "auto_submitted"),
        (b"Precedence: bulk", "bulk"),
        (b"List-Id: <l.example.org>", "list"),
        (b"X-Auto-Response-Suppress: All", "auto_response_suppress"),
        (b"Return-Path: <>", "null_sender"),
    ],
)
def test_class_26_automatic_mail_is_marked(field: bytes, mark: str) -> None:
    assert mail(field).marks == (mark,)
    assert mail(b"Auto-Submitted: no").marks == ()


def test_class_27_only_a_failure_counts_and_only_for_the_recipients_it_names() -> None:
    status = (
        b"Reporting-MTA: dns; mx.example.org\r\n\r\n"
        b"Final-Recipient: rfc822; late@example.net\r\nAction: delayed\r\nStatus: 4.4.1\r\n\r\n"
        b"Original-Recipient: rfc822;alias@example.net\r\nFinal-Recipient: rfc822; <gone@example.net>\r\nAction: Failed\r\n"
        b"Status: 5.1.1 (unknown)\r\nDiagnostic-Code: smtp; 550 no such user\r\n"
    )
    original = b"Content-Type: message/rfc822\r\n\r\nMessage-ID: <sent@x>\r\nSubject: Lunch\r\n\r\nHello"
    report = read_report(multipart("report", b"Content-Type: message/delivery-status\r\n\r\n" + status, original))
    assert isinstance(report, Bounce)
    assert (report.failed, report.message_id) == (("gone@example.net",), "<sent@x>")
    assert [(item.address, item.action, item.status, item.diagnostic) for item in report.recipients] == [
        ("late@example.net", "delayed", "4.4.1", None),
        ("gone@example.net", "failed", "5.1.1", "550 no such user"),
    ]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"../../.ssh/authorized_keys", "authorized_keys"),
        (b"C:\\\\Users\\\\x\\\\plan.doc", "plan.doc"),
        (b"..", None),
        (b"a\x01b.txt", "a b.txt"),
        (b"/", None),
    ],
)
def test_class_29_an_attachment_name_is_never_a_path(written: bytes, name: str | None) -> None:
    assert named(b'attachment; filename="' + written + b'"') == name


def outbound(**changes: object) -> Outbound:
    fields = {"inbox_id": "a@example.org", "kind": SendKind.SEND, "from_": "a@example.org", "to": ("b@example.org",), "text": "x"}
    return Outbound(**(fields | changes))  # type: ignore[arg-type]  # the test's own keywords


@pytest.mark.parametrize(
    "text",
    [
        "a@example.org\r\nBcc: evil@example.net",
        "a@example.org\nX: y",
        "a@example.org\0",
        "attacker@evil.com, ok@acme.com",
        '"<ok@acme.com>" <attacker@evil.com>, x@y.z',
        "<ok@acme.com>, attacker@evil.com",
        "<ok@acme.com> attacker@evil.com",
        "friends: a@example.org, b@example.org;",
        "undisclosed-recipients:;",
        '"a@evil.com> ORCPT=x"@example.org <b@example.org> c@example.org',
        "a@b@example.org",
        "a@example.org(comment)evil.com",
        "@relay.example:user@example.org",
        "a b@example.org",
        "a@exa mple.org",
        "a@",
        "@example.org",
        "",
        "Ann",
        "<a@example.org",
        "ann@[300]",
        "a@-bad-.example",
        "a@ex_am ple",
        "ä@example.org",
        "a@example.org\u2028b",
    ],
)
def test_class_30_what_is_not_exactly_one_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_address(text)
    with pytest.raises(Invalid):
        compose(outbound(to=(text,)), message_id="<1@x>", at_us=0, boundary_seed="s")


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": "x\r\nBcc: evil@example.net"},
        {"subject": "x\0y"},
        {"headers": {"X-A": "b\nBcc: evil@example.net"}},
        {"headers": {"X-A\r\nBcc": "evil@example.net"}},
        {"headers": {"Bcc": "evil@example.net"}},
        {"headers": {"content-type": "text/html"}},
        {"attachments": (AttachmentData(content=b"", filename="a\r\nX: y"),)},
        {"attachments": (AttachmentData(content=b"", content_type="text/plain\r\nX: y"),)},
        {"attachments": (AttachmentData(content=b"", content_id="a>\r\nX: <y"),)},
        {"reply_to": ("a@example.org\r\nX: y",)},
        {"from_": "a@example.org\r\nX: y"},
        {"text": "\ud800"},
        {"html": "a\0b"},
    ],
)
def test_class_30_no_value_breaks_out_of_its_line(changes: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        compose(outbound(**changes), message_id="<1@x>", at_us=0, boundary_seed="s")


@pytest.mark.parametrize("changes", [{"in_reply_to": "<a@x>\r\nBcc: evil@example.net"}, {"references": ("<a@x>\r\n\r\nbody",)}])
def test_class_30_a_strangers_id_that_cannot_be_written_is_left_out(changes: dict[str, object]) -> None:
    raw = compose(outbound(**changes), message_id="<1@x>", at_us=0, boundary_seed="s")
    assert raw == compose(outbound(), message_id="<1@x>", at_us=0, boundary_seed="s")


@pytest.mark.parametrize(
    ("header", "address", "display"),
    [
        ("a@good.com <b@evil.com>", "b@evil.com", "a@good.com"),
        ('"a@good.com" <b@evil.com>', "b@evil.com", "a@good.com"),
        ("user@good-corp.com(x)evil.com", "user@good-corp.com", "x"),
        ("<user@good-corp.com(x)evil.com>", "user@good-corp.com", None),
        ('"john <x@y>"@example.org', '"john <x@y>"@example.org', None),
        ("=?utf-8?q?ceo=40bank_=3Cceo=40bank=3E?= <x@evil.com>", "x@evil.com", "ceo@bank <ceo@bank>"),
        ("Ann (the boss) <ann@EXAMPLE.org>", "ann@example.org", "Ann"),
        ("ann@example.org (Ann Other)", "ann@example.org", "Ann Other"),
        ("<@relay.one,@relay.two:ann@example.org>", "ann@example.org", None),
        ("ann @ example.org", "ann@example.org", None),
        ('"Other, Ann" <ann@example.org>', "ann@example.org", "Other, Ann"),
        ('"unclosed <ann@example.org>', "ann@example.org", "unclosed"),
    ],
)
def test_class_30_inbound_addresses_are_read_as_mail_programs_show_them(header: str, address: str, display: str | None) -> None:
    assert [(found.addr, found.display) for found in parse_list(header)] == [(address, display)]
