"""A composed mail is plain RFC 5322, the same for the same input, and reads back as what went in."""

import email
import email.policy
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.errors import Invalid
from postroom.mime.addresses import parse_address
from postroom.mime.compose import compose
from postroom.mime.filename import safe_filename
from postroom.mime.parse import Parsed, parse
from postroom.model.mail import AttachmentData
from postroom.model.request import Outbound, SendKind

AT = 1_780_300_800_000_000
ID = "<0192f3@postroom.localhost>"


def outbound(**changes: object) -> Outbound:
    fields = {"inbox_id": "ann@example.org", "kind": SendKind.SEND, "from_": "ann@example.org", "to": ("bob@example.net",)}
    return Outbound(**(fields | {"text": "Hello"} | changes))  # type: ignore[arg-type]  # the test's own keywords


def written(**changes: object) -> bytes:
    return compose(outbound(**changes), message_id=ID, at_us=AT, boundary_seed="seed")


def read(**changes: object) -> Parsed:
    return parse(written(**changes))


def test_a_plain_mail_is_written_plainly() -> None:
    assert written(subject="Lunch?", cc=("Carl <carl@example.net>",), bcc=("secret@example.net",)) == (
        b"From: ann@example.org\r\nTo: bob@example.net\r\nCc: Carl <carl@example.net>\r\nSubject: Lunch?\r\n"
        b"Date: Mon, 01 Jun 2026 08:00:00 +0000\r\nMessage-ID: <0192f3@postroom.localhost>\r\nMIME-Version: 1.0\r\n"
        b"Content-Type: text/plain; charset=us-ascii\r\nContent-Transfer-Encoding: 7bit\r\n\r\nHello\r\n"
    )


def test_equal_input_gives_equal_bytes_and_another_seed_other_boundaries() -> None:
    mail = outbound(html="<p>Hello</p>", attachments=(AttachmentData(content=b"x", filename="x.bin"),))
    first, again, other = (compose(mail, message_id=ID, at_us=AT, boundary_seed=seed) for seed in ("a", "a", "b"))
    assert first == again
    assert first != other


def test_a_mail_to_hidden_recipients_only_names_nobody() -> None:
    raw = written(to=(), bcc=("secret@example.net",))
    assert b"To: undisclosed-recipients:;\r\n" in raw
    assert b"secret" not in raw
    assert parse(raw).to == ()


def test_text_html_inline_and_attachments_are_nested_as_mail_programs_expect() -> None:
    logo = AttachmentData(content=b"png", filename="logo.png", content_type="image/png", content_id="logo@x")
    plan = AttachmentData(content=b"%PDF", filename="plan.pdf", content_type="application/pdf")
    raw = written(html='<img src="cid:logo@x">', attachments=(logo, plan))
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/mixed", "multipart/alternative", "text/plain", "multipart/related", "text/html", "image/png", "application/pdf",
    ]  # fmt: skip
    parsed = parse(raw)
    assert [(part.filename, part.content_id, part.content_disposition) for part in parsed.attachments] == [
        ("logo.png", "logo@x", "inline"),
        ("plan.pdf", None, "attachment"),
    ]


@pytest.mark.parametrize(
    ("content", "content_type", "sent_as"),
    [
        (b"From: a@b.cc\r\nSubject: x\r\n\r\nHi\r\n", "message/rfc822", "message/rfc822"),
        (b"From: a@b.cc\nSubject: x\n\nHi\n", "message/rfc822", "application/octet-stream"),
        ("From: ä@b.cc\r\n\r\nHi\r\n".encode(), "message/rfc822", "application/octet-stream"),
        (b"--x--", "multipart/mixed; boundary=x", "application/octet-stream"),
        (b"BEGIN:VCALENDAR", "text/calendar; method=REPLY; charset=utf-8", "text/calendar; method=REPLY"),
        (b"", None, "application/octet-stream"),
    ],
)
def test_attachments_arrive_byte_for_byte(content: bytes, content_type: str | None, sent_as: str) -> None:
    parsed = read(attachments=(AttachmentData(content=content, content_type=content_type),))
    assert [(part.content, part.content_type) for part in parsed.attachments] == [(content, sent_as)]


def test_long_ids_are_folded_and_never_encoded() -> None:
    long = "<" + "a" * 500 + "@mail.example.org>"
    chain = tuple(f"<{number:060d}@example.org>" for number in range(40))
    raw = written(in_reply_to=long, references=(*chain, long))
    assert b"=?" not in raw
    assert (parse(raw).in_reply_to, parse(raw).references) == ((long,), (*chain, long))
    assert max(map(len, raw.split(b"\r\n"))) <= 998


def test_an_id_no_mail_can_carry_does_not_make_a_mail_unanswerable() -> None:
    parsed = read(in_reply_to="<ü@x>", references=("<1@x>", "<" + "a" * 990 + "@x>"))
    assert (parsed.in_reply_to, parsed.references) == ((), ("<1@x>",))


def test_content_cannot_forge_a_boundary() -> None:
    first = written(html="<p>x</p>")
    boundary = first.split(b'boundary="')[1].split(b'"')[0].decode()
    parsed = read(text=f"--{boundary}\n\nforged\n--{boundary}--", html="<p>x</p>")
    assert (parsed.text, parsed.html, len(parsed.attachments)) == (f"--{boundary}\n\nforged\n--{boundary}--", "<p>x</p>", 0)


def test_headers_of_our_own_are_carried_and_long_values_stay_whole() -> None:
    url = "https://example.org/" + "x" * 300
    parsed = read(headers={"Auto-Submitted": "auto-replied", "List-Unsubscribe": f"<{url}>", "X-Note": "über alles"})
    assert parsed.headers["List-Unsubscribe"] == f"<{url}>"
    assert (parsed.headers["X-Note"], parsed.marks) == ("über alles", ("auto_submitted", "list"))


@pytest.mark.parametrize("name", ["From", "bcc", "Content-Type", "Resent-To", "ARC-Seal", "X-Postroom-Id", "a b", "a:b", "", "ü"])
def test_headers_that_are_not_the_callers_to_write_are_refused(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        written(headers={name: "x"})
    assert refused.value.code == "invalid_header"


@pytest.mark.parametrize("message_id", ["", "x", "<x", "<a b@x>", "<ü@x>", "<" + "a" * 981 + ">"])
def test_an_odd_message_id_is_refused(message_id: str) -> None:
    with pytest.raises(Invalid):
        compose(outbound(), message_id=message_id, at_us=AT, boundary_seed="s")


# What a caller may write in a value of one line: no controls, no lone surrogates, no line separators.
LINE = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\x85"), max_size=90)
BODY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), max_size=200)
ATOM = st.text(st.sampled_from("abz09!#$%&'*+/=?^_`{|}~-"), min_size=1, max_size=20).map(lambda text: f"{text}.x")
DOMAIN = st.sampled_from(["example.org", "EXAMPLE.net", "bücher.example", "[192.0.2.1]", "xn--bcher-kva.example", "a-b.c"])
QUOTED = st.text(st.sampled_from('ab "\\<>@,;:.()'), min_size=1, max_size=12).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
)
ADDRESS = st.builds(lambda local, domain: f"{local}@{domain}", st.one_of(ATOM, QUOTED), DOMAIN)
NAMED = st.builds(lambda name, address: '"' + name.replace("\\", "\\\\").replace('"', '\\"') + f'" <{address}>', LINE, ADDRESS)
ADDRESSES = st.lists(st.one_of(ADDRESS, NAMED), max_size=4).map(tuple)
ATTACHMENT = st.builds(
    AttachmentData,
    content=st.binary(max_size=200),
    filename=st.one_of(st.none(), LINE),
    content_type=st.sampled_from([None, "text/plain", "image/png", "application/pdf"]),
    content_disposition=st.sampled_from([None, "inline", "attachment"]),
    content_id=st.one_of(st.none(), st.sampled_from(["a@b", "logo.1@example.org"])),
)
MESSAGE_ID = st.text(st.sampled_from("abz09!#$%&'*+/=?^_`{|}~-.:;,()[]\"\\"), min_size=1, max_size=60).map(
    lambda text: f"<{text}@x.y>"
)


def shown(texts: tuple[str, ...]) -> list[tuple[str | None, str]]:
    parsed = [parse_address(text) for text in texts]
    return [(" ".join(address.display.split()) if address.display else None, address.addr) for address in parsed]


def found(parsed: Parsed, field: str) -> list[tuple[str | None, str]]:
    addresses = getattr(parsed, field)
    return [(" ".join(address.display.split()) if address.display else None, address.addr) for address in addresses]


@settings(max_examples=120, deadline=None)
@given(
    from_=st.one_of(ADDRESS, NAMED), to=ADDRESSES, cc=ADDRESSES, bcc=ADDRESSES, reply_to=ADDRESSES, subject=LINE,
    text=st.one_of(st.none(), BODY), html=st.one_of(st.none(), BODY), attachments=st.lists(ATTACHMENT, max_size=3).map(tuple),
    in_reply_to=st.one_of(st.none(), MESSAGE_ID), references=st.lists(MESSAGE_ID, max_size=5, unique=True).map(tuple),
)  # fmt: skip
def test_every_mail_reads_back_as_it_was_written(**fields: object) -> None:
    mail = outbound(**fields)
    raw = compose(mail, message_id=ID, at_us=AT, boundary_seed="seed")
    assert raw.isascii()
    assert raw.endswith(b"\r\n")
    assert raw.replace(b"\r\n", b"").count(b"\n") == raw.replace(b"\r\n", b"").count(b"\r") == 0
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    parsed = parse(raw)
    for name, texts in (("from_", (mail.from_,)), ("to", mail.to), ("cc", mail.cc), ("reply_to", mail.reply_to)):
        assert found(parsed, name) == shown(texts)
    assert parsed.bcc == ()
    assert parsed.subject == mail.subject.strip(" \t").strip()
    assert (parsed.message_id, parsed.date) == (ID, AT)
    assert parsed.in_reply_to == ((mail.in_reply_to,) if mail.in_reply_to else ())
    assert parsed.references == mail.references
    assert parsed.text == (mail.text if mail.text is not None or mail.html is not None else "")
    assert parsed.html == mail.html
    sent = [(safe_filename(item.filename), item.content, item.content_id) for item in mail.attachments]
    assert sorted(sent, key=repr) == sorted(
        ((part.filename, part.content, part.content_id) for part in parsed.attachments), key=repr
    )
    assert parsed.defects == ()


@settings(max_examples=100, deadline=None)
@given(to=ADDRESSES.filter(bool), subject=LINE)
def test_the_standard_library_reads_the_same_recipients_and_subject(to: tuple[str, ...], subject: str) -> None:
    raw = compose(outbound(to=to, subject=subject), message_id=ID, at_us=AT, boundary_seed="seed")
    message = email.message_from_bytes(raw, policy=email.policy.compat32)
    decoded = str(email.header.make_header(email.header.decode_header(message["Subject"])))
    assert decoded.strip() == subject.strip(" \t").strip()
    assert datetime.strptime(message["Date"], "%a, %d %b %Y %H:%M:%S %z") == datetime.fromtimestamp(AT // 1_000_000, UTC)


@settings(max_examples=60, deadline=None)
@given(name=LINE.filter(safe_filename), text=BODY, html=BODY)
def test_the_standard_library_reads_the_same_bodies_and_attachments(name: str, text: str, html: str) -> None:
    attachment = AttachmentData(content=b"\0\1x", filename=name, content_type="image/png")
    raw = compose(outbound(text=text, html=html, attachments=(attachment,)), message_id=ID, at_us=AT, boundary_seed="seed")
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert [(part.get_filename(), part.get_content()) for part in message.iter_attachments()] == [(safe_filename(name), b"\0\1x")]
    bodies = {kind: message.get_body((kind,)).get_content().replace("\r\n", "\n") for kind in ("plain", "html")}
    assert bodies == {"plain": f"{text}\n", "html": f"{html}\n"}
