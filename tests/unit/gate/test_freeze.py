"""From a wish to the very mail: who gets it, what it is called, what stands in it."""

import dataclasses

import pytest

from postroom.errors import Conflict, Invalid, NotFound
from postroom.mime.parse import parse
from postroom.model.mail import Attachment, AttachmentData
from postroom.model.outgoing import Outgoing, State
from postroom.model.principal import Kind, Principal
from postroom.model.request import SendKind
from postroom.policy.digest import digest_request

SCOUT, OTHER = "scout@postroom.localhost", "other@postroom.localhost"
ADA, BOB, CLEO = "ada@customer.example", "bob@customer.example", "cleo@customer.example"
HI = "<hi@customer.example>"
OWNER = Principal(kind=Kind.OWNER)


async def frozen(house, kind: SendKind = SendKind.SEND, **fields) -> tuple[Outgoing, bytes]:
    """What was put before the owner, and the bytes."""
    base = {} if kind is SendKind.SEND else {"to": (), "subject": None}
    submission = await house.submit(kind=kind, **(base | fields))
    row = await house.open.show(OWNER, submission.outgoing_id)
    assert row.state is State.HELD, row.reasons
    return row, await house.open.raw(OWNER, submission.outgoing_id)


async def test_a_mail_is_from_the_inbox_under_its_name_and_bcc_stays_in_the_envelope(house):
    house.open = house.gate(bcc=True)
    house.mail.inboxes[SCOUT] = dataclasses.replace(house.mail.inboxes[SCOUT], display_name="Scout from Süd")
    row, raw = await frozen(
        house, to=(f"Ada <{ADA}>",), cc=(BOB,), bcc=(CLEO,), headers={"X-Ticket": "7"}, html="<p>hi</p>", reply_to=(BOB,)
    )
    parsed = parse(raw)
    assert [address.formatted for address in parsed.from_] == [f"Scout from Süd <{SCOUT}>"]
    assert (row.to, row.cc, row.bcc) == ((f"Ada <{ADA}>",), (BOB,), (CLEO,))
    assert (row.html, row.reply_to, row.headers) == ("<p>hi</p>", (BOB,), {"X-Ticket": "7"})
    assert parsed.message_id == row.message_id
    assert parsed.headers["X-Ticket"] == "7"
    assert CLEO.encode() not in raw
    assert raw.isascii()


async def test_each_recipient_is_written_to_once_in_canonical_form(house):
    submission = await house.submit(OWNER, to=(ADA, f"Ada <{ADA}>"), cc=("ada@Customer.Example", "x@bücher.example"))
    taken = house.sender.taken[submission.outgoing_id]
    assert taken.rcpt_to == (ADA, "x@xn--bcher-kva.example")


@pytest.mark.parametrize(
    "address",
    [
        "attacker@evil.example, ok@customer.example",
        "<ok@customer.example>, attacker@evil.example",
        "ok@customer.example\r\nBcc: attacker@evil.example",
        "friends: a@customer.example, b@customer.example;",
        "nobody",
        "",
    ],
)
async def test_what_is_not_one_address_is_refused(house, address):
    for field in ("to", "cc", "bcc", "reply_to"):
        with pytest.raises(Invalid):
            await house.submit(**{field: (address,)})


async def test_a_display_name_cannot_stand_in_for_the_address(house):
    house.open = house.gate(limit=("customer.example",))
    submission = await house.submit(to=('"<ok@customer.example>" <attacker@evil.example>',))
    assert submission.refused == ("attacker@evil.example",)


@pytest.mark.parametrize("name", ["From", "bcc", "Content-Type", "X Bad", "Received", "Resent-To"])
async def test_headers_that_are_ours_cannot_be_set(house, name):
    with pytest.raises(Invalid):
        await house.submit(headers={name: "x"})


@pytest.mark.parametrize("label", ["sent", "Received", "spam", ""])
async def test_system_labels_cannot_be_given(house, label):
    with pytest.raises(Invalid):
        await house.submit(labels=(label,))


async def test_a_paused_inbox_sends_nothing(house):
    house.mail.inboxes[SCOUT] = dataclasses.replace(house.mail.inboxes[SCOUT], status="paused")
    with pytest.raises(Conflict):
        await house.submit()


async def test_another_agents_inbox_does_not_exist(house):
    with pytest.raises(NotFound):
        await house.submit(inbox_id=OTHER)


async def test_a_reply_goes_to_reply_to_else_from_and_carries_the_chain(house):
    house.mail.receives(references=("<a@x.example>", "<b@x.example>"))
    row, raw = await frozen(house, SendKind.REPLY, message_id=HI, text="Ten euros.")
    parsed = parse(raw)
    assert (row.to, row.cc, row.subject) == ((f"Ada <{ADA}>",), (), "Re: Offer")
    assert (parsed.in_reply_to, parsed.references) == ((HI,), ("<a@x.example>", "<b@x.example>", HI))
    assert row.thread_id == "11111111-1111-4111-8111-111111111111"
    assert row.text.splitlines() == [
        "Ten euros.",
        "",
        f"On Thu, 01 Jan 2026 at 00:00 UTC Ada <{ADA}> wrote:",
        "",
        "> What is the price?",
    ]
    house.mail.receives(reply_to=(BOB,), subject="RE: Offer")
    row, _ = await frozen(house, SendKind.REPLY, message_id=HI, text="x")
    assert (row.to, row.subject) == ((BOB,), "RE: Offer")


async def test_given_recipients_and_subject_replace_the_derived_ones(house):
    house.mail.receives()
    row, _ = await frozen(house, SendKind.REPLY, message_id=HI, text="x", cc=(CLEO,), to=(BOB,), subject="Other")
    assert (row.to, row.cc, row.subject) == ((BOB,), (CLEO,), "Other")


async def test_an_answer_to_an_own_mail_goes_to_whom_it_was_for(house):
    house.mail.receives(from_=f"Scout <{SCOUT}>", to=(ADA,), cc=(BOB, SCOUT))
    row, _ = await frozen(house, SendKind.REPLY, message_id=HI, text="One more thing.")
    assert row.to == (ADA,)
    row, _ = await frozen(house, SendKind.REPLY_ALL, message_id=HI, text="One more thing.")
    assert (row.to, row.cc) == ((ADA,), (BOB,))


async def test_reply_all_reaches_everybody_once_but_not_itself(house):
    house.mail.receives(to=(SCOUT, BOB, f"Ada again <{ADA}>"), cc=(BOB, CLEO, SCOUT.upper().replace("SCOUT", "scout")))
    row, _ = await frozen(house, SendKind.REPLY_ALL, message_id=HI, text="x")
    assert (row.to, row.cc) == ((f"Ada <{ADA}>", BOB), (CLEO,))
    with pytest.raises(Invalid):
        await house.submit(kind=SendKind.REPLY_ALL, message_id=HI, to=(BOB,))


async def test_a_reply_in_html_quotes_escaped(house):
    house.mail.receives(text="<script>1</script>")
    _, raw = await frozen(house, SendKind.REPLY, message_id=HI, text="x", html="<p>x</p>")
    html = parse(raw).html
    assert html.startswith("<p>x</p>")
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    _, raw = await frozen(house, SendKind.REPLY, message_id=HI, text=None, html="<p>only</p>")
    assert parse(raw).text is None


async def test_a_secret_the_other_side_wrote_does_not_forbid_the_answer_and_does_not_leave(house):
    house.mail.receives(text=f"your key: {house.own_secret}")
    row, _ = await frozen(house, SendKind.REPLY, message_id=HI, text="Thank you.")
    assert house.own_secret not in row.text
    assert "[redacted:" in row.text
    refused = await house.submit(kind=SendKind.FORWARD, message_id=HI, to=(BOB,), subject=None, text="look")
    assert refused.state is State.REFUSED


async def test_odd_characters_in_the_original_do_not_forbid_the_answer(house):
    house.mail.receives(text="a\x00b\ud800c")
    row, _ = await frozen(house, SendKind.REPLY, message_id=HI, text="x")
    assert "> a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c" in row.text


async def test_what_no_header_can_hold_does_not_forbid_answer_or_forward(house):
    house.mail.files["a1"] = b"GIF"
    entry = Attachment(attachment_id="a1", size=3, filename="a.gif", content_type="image/gif", content_id="no id\x1b")
    house.mail.receives(subject="Of\x1bfer\x85now", attachments=(entry,), references=("<a\x01@x>",))
    row, _ = await frozen(house, SendKind.REPLY, message_id=HI, text="x")
    assert row.subject == "Re: Of fer now"
    row, raw = await frozen(house, SendKind.FORWARD, message_id=HI, to=(BOB,))
    assert (row.subject, [part.content_id for part in parse(raw).attachments]) == ("Fwd: Of fer now", [None])


async def test_a_forward_carries_text_and_attachments_and_stays_in_the_thread(house):
    house.mail.files["a1"] = b"%PDF"
    entry = Attachment(attachment_id="a1", size=4, filename="offer.pdf", content_type="application/pdf")
    source = house.mail.receives(attachments=(entry,))
    extra = AttachmentData(content=b"n", filename="note.txt")
    row, raw = await frozen(house, SendKind.FORWARD, message_id=HI, to=(BOB,), text="See below.", attachments=(extra,))
    assert (row.subject, row.thread_id, row.in_reply_to) == ("Fwd: Offer", source.thread_id, None)
    assert row.attachments == (("offer.pdf", 4), ("note.txt", 1))
    assert row.text.startswith("See below.\n\n---------- Forwarded message ----------\nFrom: Ada ")
    assert row.text.endswith("What is the price?")
    assert [part.content for part in parse(raw).attachments] == [b"%PDF", b"n"]
    with pytest.raises(Invalid):
        await house.submit(kind=SendKind.FORWARD, message_id=HI, to=(), subject=None)


async def test_drafts_are_frozen_as_they_are_now(house):
    house.mail.receives()
    plain = house.mail.drafts_one(to=(ADA,), subject="s", text="t", labels=("lead", "scheduled", "old"))
    row, _ = await frozen(house, SendKind.DRAFT, draft_id=plain.draft_id, add_labels=("New",), remove_labels=("old",))
    assert (row.to, row.subject, row.text) == ((ADA,), "s", "t")
    reply = house.mail.drafts_one(text="Ten.", in_reply_to=HI)
    row, _ = await frozen(house, SendKind.DRAFT, draft_id=reply.draft_id)
    assert (row.to, row.subject, row.in_reply_to) == ((f"Ada <{ADA}>",), "Re: Offer", HI)
    everyone = house.mail.drafts_one(text="Ten.", in_reply_to=HI, reply_all=True, to=(BOB,))
    row, _ = await frozen(house, SendKind.DRAFT, draft_id=everyone.draft_id)
    assert row.to == (BOB,)
    forward = house.mail.drafts_one(text="Look.", forward_of=HI, to=(BOB,))
    row, _ = await frozen(house, SendKind.DRAFT, draft_id=forward.draft_id)
    assert row.subject == "Fwd: Offer"
    with pytest.raises(NotFound):
        await house.submit(kind=SendKind.DRAFT, draft_id="gone")


async def test_the_draft_and_its_labels_are_told_to_the_sender(house):
    draft = house.mail.drafts_one(author="owner", to=(ADA,), labels=("lead", "scheduled"))
    submission = await house.submit(OWNER, kind=SendKind.DRAFT, draft_id=draft.draft_id, to=(), add_labels=("New",))
    outbound = house.sender.taken[submission.outgoing_id].outbound
    assert (outbound.draft_id, outbound.labels) == (draft.draft_id, ("lead", "new"))


async def test_where_bytes_are_made_elsewhere_the_digest_is_of_the_request(house):
    house.sender.binds = "request"
    row, _ = await frozen(house, attachments=(AttachmentData(content=b"abc"),))
    await house.open.approve(OWNER, row.outgoing_id, row.digest)
    (taken,) = house.sender.taken.values()
    assert digest_request(taken.outbound) == row.digest


RAW = (
    b"From: Scout <scout@postroom.localhost>\nTo: Ada <ada@customer.example>, left@out.example\nBcc: cleo@customer.example\n"
    b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
    b"Content-Transfer-Encoding: 8bit\nIn-Reply-To: <hi@customer.example>\n\nSch\xc3\xb6n\n.\nFrom here\n"
)


async def test_a_submitted_mail_keeps_its_words_and_goes_to_its_envelope(house):
    house.open = house.gate(bcc=True)
    source = house.mail.receives()
    row, raw = await frozen(house, SendKind.SUBMISSION, raw=RAW, envelope_to=(ADA, CLEO), text=None)
    parsed = parse(raw)
    assert (row.to, row.cc, row.bcc) == ((f"Ada <{ADA}>",), (), (CLEO,))
    assert (row.subject, row.text, row.thread_id) == ("Grüße", "Schön\n.\nFrom here", source.thread_id)
    assert parsed.message_id == row.message_id
    assert parsed.text == "Schön\n.\nFrom here"
    assert b"Bcc" not in raw
    assert raw.isascii()
    assert b"\n" not in raw.replace(b"\r\n", b"")
    again, _ = await frozen(house, SendKind.SUBMISSION, raw=RAW, envelope_to=(CLEO,), text=None)
    assert (again.to, again.bcc) == ((), (CLEO,))


@pytest.mark.parametrize(
    "old_from",
    [
        b"From: ada@customer.example",
        b"From: scout@postroom.localhost\nFrom: ada@customer.example",
        b"Sender: scout@postroom.localhost",
    ],
)
async def test_a_submitted_mail_speaks_for_its_inbox_only(house, old_from):
    raw = RAW.replace(b"From: Scout <scout@postroom.localhost>", old_from)
    with pytest.raises(Invalid) as problem:
        await house.submit(kind=SendKind.SUBMISSION, raw=raw, envelope_to=(ADA,))
    assert problem.value.code == "invalid_from"


async def test_raw_bytes_count_for_a_submission_only(house):
    _, raw = await frozen(house, raw=RAW)
    assert b"Good day" in raw


async def test_every_other_header_of_a_submitted_mail_is_shown_to_whoever_is_asked(house):
    more = b"X-Note: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nx-list: a\nx-list: b\n c\nFrom: Scout <"
    row, raw = await frozen(house, SendKind.SUBMISSION, raw=RAW.replace(b"From: Scout <", more), envelope_to=(ADA,), text=None)
    assert row.headers == {"X-Note": "Grüße", "x-list": "a | b c"}
    assert raw.count(b"x-list:") == 2


@pytest.mark.parametrize(
    "changed",
    [
        RAW.replace(b"Subject:", b"X-Note: own-secret-of-the-house\nSubject:"),
        RAW.replace(b"<hi@customer.example>", b"<own-secret-of-the-house@customer.example>"),
        RAW.replace(b"text/plain; charset=utf-8", b"multipart/mixed; boundary=b")
        .replace(b"8bit", b"7bit")
        .replace("Schön".encode(), b"own-secret-of-the-house\n--b\n\nhi\n--b--"),
        RAW.replace(b"text/plain; charset=utf-8", b"text/plain; charset=utf-8; x=own-secret-of-the-house"),
    ],
)
async def test_a_secret_anywhere_in_a_submitted_mail_refuses_it(house, changed):
    done = await house.submit(kind=SendKind.SUBMISSION, raw=changed, envelope_to=(ADA,))
    assert (done.state, "secret" in done.reasons[0]) == (State.REFUSED, True)
    assert (await house.submit(kind=SendKind.SUBMISSION, raw=RAW, envelope_to=(ADA,))).state is State.HELD
