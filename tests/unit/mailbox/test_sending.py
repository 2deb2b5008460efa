"""What may be sent, what is stored of it, what a key stands for. Names B… are the reference's behaviours."""

import asyncio
import base64
import contextlib
import hashlib
import secrets
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import Busy, Conflict, Forbidden, Invalid, NotFound, Refused, TooLarge
from postroom.limits import MAILBOX_ATTACHMENT_BYTES, MAILBOX_TEXT_BYTES
from postroom.mailbox.content import mentions_in
from postroom.mailbox.names import participant
from postroom.mailbox.transfer import exported

from .conftest import ALICE, BOB, CAROL, OWNER, WATCHER, Box

DOMAINS = ("postroom.localhost",)
ALNUM = string.ascii_letters + string.digits


def file(data: bytes = b"hello", **more: str) -> dict[str, str]:
    return {"content": base64.b64encode(data).decode(), "name": "a.txt", "mediaType": "text/plain", **more}


async def stored(box: Box) -> bytes:
    return b"".join([piece async for piece in exported(box.room)])


async def test_b7_a_message_is_stored_and_its_receipt_carries_number_and_link(box: Box):
    sent = await box.send("hello")
    (message,) = (await box.read()).messages
    assert (message.seq, message.sender, message.to, message.text, message.thread) == (1, "alice", "bob", "hello", "#1")
    assert (sent.seq, len(sent.link), sent.deduplicated) == (1, 64, False)


@pytest.mark.parametrize(
    "name", ["", " ", "a\tb", "a\x7fb", "a" * 65, "a\u0085b", "a\u202eb", "a\u200bb", "*", "a\nb", "a\x1b[31m", "#1", "a\u2028b"]
)
def test_b8_such_a_name_is_refused(name: str):
    with pytest.raises(Invalid):
        participant(name, DOMAINS)


@pytest.mark.parametrize(
    ("name", "becomes"),
    [("a" * 64, "a" * 64), ("日本", "日本"), (" bob ", "bob"), ("e\u0301va", "éva"), ("bob@postroom.localhost", "bob")],
)
def test_b8_names_have_one_form_everywhere(name: str, becomes: str):
    assert participant(name, DOMAINS) == becomes


async def test_b8_the_same_agent_by_its_address_and_an_outside_address_by_email(box: Box):
    await box.send("hi", to="bob@postroom.localhost")
    assert await box.texts() == ["hi"]
    with pytest.raises(Invalid, match="outside this house") as refused:
        await box.send("hi", to="bob@customer.example")
    assert refused.value.fix == "use agentmail_send_message to write email"


async def test_an_unknown_addressee_is_refused_with_near_names_and_an_announced_one_is_not(box: Box):
    with pytest.raises(Invalid) as refused:
        await box.send("hi", to="b0b")
    assert (refused.value.code, refused.value.fix) == ("unknown_participant", "did you mean bob?")
    await box.room.announce(OWNER, name="shell-7")
    assert (await box.send("hi", to="shell-7")).seq == 1


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
async def test_b9_blank_text_is_refused(box: Box, text: str):
    with pytest.raises(Invalid, match="blank"):
        await box.send(text)


async def test_b9_control_characters_are_marked_and_line_breaks_kept(box: Box):
    await box.send("a\x1b[31mb\x07\r\nc\td\x85\x7f")
    assert await box.texts() == ["a\ufffd[31mb\ufffd\nc\td\ufffd\ufffd"]


@pytest.mark.parametrize("field", ["thread", "priority"])
async def test_b9_control_characters_in_a_short_field_are_refused(box: Box, field: str):
    with pytest.raises(Invalid, match="control"):
        await box.send("x", **{field: "a\x1bb"})


@pytest.mark.parametrize("reply_to", [{}, "1", 10**30, -1, 0, True, 1.5])
async def test_b10_a_reply_names_the_number_of_a_message(box: Box, reply_to: object):
    with pytest.raises(Invalid):
        await box.send("x", reply_to=reply_to)


async def test_b10_a_reply_to_what_is_not_there_or_not_the_callers_is_the_same_error(box: Box):
    await box.send("secret plan")
    for by, number in ((CAROL, 1), (CAROL, 99)):
        with pytest.raises(NotFound, match="no such message"):
            await box.send("x", by=by, to="alice", reply_to=number)


async def test_b11_a_reply_to_a_reply_stays_in_the_thread_of_the_first(box: Box):
    first = await box.send("one")
    second = await box.send("two", to="alice", by=BOB, reply_to=first.seq)
    await box.send("three", reply_to=second.seq)
    await box.send("elsewhere", thread="1")
    assert await box.texts(thread="#1", since=0) == ["one", "two", "three"]
    assert await box.texts(thread="1", since=0) == ["elsewhere"]


async def test_b12_mentions_are_names_after_an_at_and_follow_an_edit(box: Box):
    await box.send("@bob and @carol, mail me@example.com @bob")
    (message,) = (await box.read()).messages
    assert message.mentions == ("bob", "carol")
    assert await box.texts(mention="carol", since=0) == [message.text]
    await box.room.edit(ALICE, 1, "only @bob now")
    assert await box.texts(mention="carol", since=0) == []


@given(st.text())
def test_b12_an_address_mentions_nobody(text: str):
    assert mentions_in(text.replace("@", "") + "x@example.com") == []


async def test_b13_the_declared_limit_is_the_limit_and_over_it_nothing_is_stored(box: Box):
    whole = "a " * (MAILBOX_TEXT_BYTES // 2)
    await box.send(whole)
    assert await box.texts() == [whole]
    with pytest.raises(TooLarge, match=str(MAILBOX_TEXT_BYTES)):
        await box.send(whole + "é")
    assert (await box.read(since=0)).cursor == 1


def secret_shapes() -> dict[str, str]:
    def random(count: int, alphabet: str = ALNUM) -> str:
        return "".join(secrets.choice(alphabet) for _ in range(count))

    return {
        "openai": f"sk-{random(48)}",
        "bearer": random(40),
        "github": f"ghp_{random(36)}",
        "aws": f"AKIA{random(16, string.ascii_uppercase + '234567')}",
        "slack": f"xoxb-{random(12, string.digits)}-{random(12, string.digits)}-{random(24)}",
        "jwt": f"eyJ{random(30)}.eyJ{random(40)}.{random(43)}",
        "password": random(20),
        "pem": f"-----BEGIN PRIVATE KEY-----\n{random(64)}\n{random(64)}\n-----END PRIVATE KEY-----",
        "token": random(24),
        "api-key": random(24),
        "google": f"AIza{random(35)}",
        "gitlab": f"glpat-{random(20)}",
    }


@pytest.mark.parametrize("shape", list(secret_shapes()))
async def test_b14_b15_no_stored_string_holds_a_secret(box: Box, shape: str):
    token = secret_shapes()[shape]
    said = {
        "bearer": f"Authorization: Bearer {token}",
        "password": f"password={token}",
        "token": f"token: {token}",
        "api-key": f"api_key={token}",
    }.get(shape, token)
    sent = await box.send(f"use {said} for it")
    await box.room.edit(ALICE, sent.seq, f"better: {said}")
    kept = (await stored(box)).decode()
    assert not [line for line in token.splitlines() if line in kept and not line.startswith("---")]
    assert sent.redacted == 1


async def test_b15_secrets_are_taken_out_of_thread_and_role_too(box: Box):
    token = secret_shapes()["github"]
    await box.send("x", thread=f"about {token}")
    peer = await box.room.announce(BOB, role=f"holds {token}"[:64])
    assert token not in (await stored(box)).decode()
    assert token not in (peer.role or "")


@pytest.mark.parametrize("field", ["name", "mediaType"])
async def test_b15_an_attachments_name_and_type_hold_no_secret(box: Box, field: str):
    token = secret_shapes()["github"]
    with contextlib.suppress(Invalid, Refused):
        await box.send("see", attachments=[file(**{field: f"text/{token}"})])
    assert token not in (await stored(box)).decode()


async def test_b16_a_key_stands_for_the_whole_content_also_after_a_restart(box: Box):
    first = await box.send("pay", key="k")
    box.room = box.again()
    again = await box.send("pay", key="k")
    assert (again.seq, again.link, again.deduplicated) == (first.seq, first.link, True)
    with pytest.raises(Conflict, match="number 1"):
        await box.send("pay twice", key="k")
    assert await box.texts() == ["pay"]


async def test_b16_a_key_belongs_to_its_author(box: Box):
    await box.send("mine", key="k", by=CAROL, to="alice")
    assert (await box.send("mine too", key="k")).deduplicated is False


@pytest.mark.parametrize("key", ["", "k" * 257, "a\nb", 7])
async def test_b16_an_odd_key_is_refused(box: Box, key: object):
    with pytest.raises(Invalid):
        await box.send("x", key=key)


async def test_b16_two_at_once_with_one_key_are_one_message(box: Box):
    sent = await asyncio.gather(*(box.send("once", key="k") for _ in range(20)))
    assert {each.seq for each in sent} == {1}
    assert sum(not each.deduplicated for each in sent) == 1


async def test_b17_attachments_are_part_of_what_a_key_stands_for(box: Box):
    await box.send("see", key="k", attachments=[file(b"one")])
    assert (await box.send("see", key="k", attachments=[file(b"one")])).deduplicated
    with pytest.raises(Conflict):
        await box.send("see", key="k", attachments=[file(b"two")])


async def test_b18_an_attachment_comes_back_by_its_hash_with_name_and_type(box: Box):
    await box.send("see", attachments=[file(b"\x00\xff" * 100_000), file()])
    (message,) = (await box.read()).messages
    assert [one.file_id for one in message.files] == [
        hashlib.sha256(b"\x00\xff" * 100_000).hexdigest(),
        hashlib.sha256(b"hello").hexdigest(),
    ]
    for number, data in enumerate((b"\x00\xff" * 100_000, b"hello")):
        listed, content = await box.room.attachment(BOB, message.files[number].file_id)
        assert (content, listed.name, listed.media_type, listed.size) == (data, "a.txt", "text/plain", len(data))


async def test_b18_four_mib_and_not_a_byte_more(box: Box):
    data = b"a " * (MAILBOX_ATTACHMENT_BYTES // 2)
    await box.send("big", attachments=[file(data)])
    with pytest.raises(TooLarge):
        await box.send("bigger", attachments=[file(data + b"a")])


@pytest.mark.parametrize(
    "attachment",
    [
        {"content": "!!!!"},
        {"content": ""},
        {},
        {"content": "aGk", "name": "x"},
        "aGk=",
        file(name="a\x1bb"),
        file(mediaType="text"),
    ],
)
async def test_b19_an_attachment_that_is_odd_is_refused_and_nothing_stored(box: Box, attachment: object):
    with pytest.raises(Invalid):
        await box.send("x", attachments=[attachment])
    assert (await box.read(since=0)).cursor == 0


async def test_b19_seventeen_attachments_are_refused_not_cut_to_sixteen(box: Box):
    await box.send("x", attachments=[file(bytes([each])) for each in range(1, 17)])
    with pytest.raises(TooLarge, match="16"):
        await box.send("x", attachments=[file(bytes([each])) for each in range(1, 18)])


async def test_an_attachment_that_holds_a_secret_is_refused(box: Box):
    with pytest.raises(Refused, match="secret"):
        await box.send("see", attachments=[file(f"key: {secret_shapes()['openai']}".encode())])


async def test_b34_only_who_may_see_the_message_gets_its_attachment(box: Box):
    await box.send("see", attachments=[file()])
    file_id = hashlib.sha256(b"hello").hexdigest()
    assert (await box.room.attachment(ALICE, file_id))[1] == b"hello"
    with pytest.raises(NotFound):
        await box.room.attachment(CAROL, file_id)
    for odd in ("../../etc/passwd", file_id.upper(), file_id[:-1], ""):
        with pytest.raises(Invalid):
            await box.room.attachment(BOB, odd)


async def test_b50_b52_a_token_speaks_for_its_own_agent_and_the_author_is_its_default(box: Box):
    with pytest.raises(Forbidden):
        await box.send("x", sender="bob")
    await box.send("x", sender="alice@postroom.localhost")
    assert [message.sender for message in (await box.read()).messages] == ["alice"]
    assert await box.texts(sender="alice", since=0) == ["x"]
    assert await box.texts(by=ALICE, sent=True, since=0) == ["x"]
    with pytest.raises(Forbidden):
        await box.read(reader="carol")


async def test_an_observer_reads_and_never_writes(box: Box):
    await box.send("to all", to="*")
    assert await box.texts(by=WATCHER) == ["to all"]
    with pytest.raises(Forbidden):
        await box.send("x", by=WATCHER)


async def test_the_owner_speaks_for_whom_it_names_but_not_for_everyone(box: Box):
    await box.send("x", by=OWNER, sender="carol")
    await box.send("y", by=OWNER)
    assert [message.sender for message in (await box.read()).messages] == ["carol", "owner"]
    with pytest.raises(Invalid, match="reserved"):
        await box.send("x", by=OWNER, sender="*")


async def test_a_name_that_looks_like_anothers_cannot_be_taken(box: Box):
    for name in ("Bob", "b\u043eb", "BOB"):
        with pytest.raises(Conflict):
            await box.room.announce(OWNER, name=name)


async def test_b61_one_sender_may_write_so_much_a_minute_and_is_told_when_to_go_on(make):
    box = make(sends_per_minute=3)
    for _ in range(3):
        await box.send("x")
    with pytest.raises(Busy) as busy:
        await box.send("x")
    assert busy.value.retry_after_s == 20
    box.clock.advance(20)
    await box.send("x")
    await box.send("others may", to="alice", by=BOB)


async def test_a_thousand_at_once_have_numbers_without_gaps(box: Box):
    await asyncio.gather(*(box.send(f"n {number}", by=OWNER, sender=f"s{number % 7}") for number in range(1000)))
    batch = await box.read(limit=500)
    rest = await box.read(limit=500, since=batch.cursor)
    assert [message.seq for message in (*batch.messages, *rest.messages)] == list(range(1, 1001))
    assert (await box.room.verify()).fault is None
