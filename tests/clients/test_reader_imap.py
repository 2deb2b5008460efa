"""The reader against dovecot: real mails over verified TLS, listed, searched and read, and nothing about them changed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovecot import Dovecot, running
from postroom.errors import PostroomError
from postroom.mime.parse import parse
from postroom.reader.request import ReadRequest
from readerkit import OWNER, Kit, kit


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with running() as one:
        yield one


@pytest.fixture
def made(dovecot: Dovecot, tmp_path: Path) -> Kit:
    ready = kit(tmp_path, "http://127.0.0.1:1", dovecot.account, max_limit=500)
    ready.reader._tls = dovecot.tls
    return ready


async def everything(made: Kit) -> list:
    """All messages of the mailbox, page by page."""
    found, request = [], ReadRequest(limit=100)
    while True:
        reading = await made.reader.read(OWNER, request)
        found += reading.messages
        following = reading.page_token(len(reading.messages))
        if following is None:
            return found
        request = ReadRequest(limit=100, page_token=following)


async def test_every_mail_is_listed_once_and_reads_as_it_was_sent_with_its_flags_unchanged(made: Kit, dovecot: Dovecot):
    before = dovecot.flags()
    found = await everything(made)
    assert dovecot.flags() == before
    assert len(found) == len({message.id for message in found}) == len(dovecot.raws)
    agree = 0
    for message, raw in zip(reversed(found), dovecot.raws.values(), strict=True):
        wanted = parse(raw)
        agree += message.subject == (wanted.subject or "")
    assert agree >= len(found) * 0.97


async def test_newest_first_and_one_message_reads_like_in_the_list(made: Kit):
    listed = await made.reader.read(OWNER, ReadRequest(limit=3))
    assert [message.subject for message in listed.messages] == ["long", "attached", "html"]
    one = await made.reader.read(OWNER, ReadRequest(message_id=listed.messages[1].id))
    assert one.messages == listed.messages[1:2]


async def test_c13_html_becomes_what_a_person_sees(made: Kit):
    message = (await made.reader.read(OWNER, ReadRequest(limit=3))).messages[2]
    assert message.text == "Shown"
    assert [finding.code for finding in message.findings] == ["hidden_text"]


async def test_c12_an_attachment_is_a_name_a_type_and_a_size(made: Kit):
    message = (await made.reader.read(OWNER, ReadRequest(limit=2))).messages[1]
    assert message.text == "Café"
    assert message.from_ == "Adä <ada@customer.example>"
    assert [(file.filename, file.content_type, file.size) for file in message.attachments] == [
        ("résumé.pdf", "application/pdf", 6)
    ]


async def test_c15_a_body_over_the_bound_is_omitted_not_fetched(made: Kit):
    message = (await made.reader.read(OWNER, ReadRequest(limit=1))).messages[0]
    assert (message.text, message.text_omitted) == ("", True)


async def test_search_unread_and_dates_hold_together(made: Kit, dovecot: Dovecot):
    found = await made.reader.read(OWNER, ReadRequest(query="Shown", limit=10))
    assert [message.subject for message in found.messages] == ["html"]
    accented = await made.reader.read(OWNER, ReadRequest(query="Café", limit=10))
    assert "attached" in [message.subject for message in accented.messages]
    unread = await made.reader.read(OWNER, ReadRequest(unread_only=True, limit=500))
    assert len(unread.messages) == len([name for name in dovecot.flags() if not name.endswith("S")])
    empty = await made.reader.read(OWNER, ReadRequest(after="2026-01-02", limit=10))
    day = await made.reader.read(OWNER, ReadRequest(after="2026-01-01", before="2026-01-02", limit=2))
    assert (len(empty.messages), len(day.messages)) == (0, 2)


async def test_c30_a_folder_that_is_not_there_and_an_id_of_another_are_not_found(made: Kit):
    with pytest.raises(PostroomError) as caught:
        await made.reader.read(OWNER, ReadRequest(folder='x" (BODY[])'))
    assert caught.value.code == "MAIL_NOT_FOUND"
    listed = await made.reader.read(OWNER, ReadRequest(limit=1))
    validity, uid, folder = listed.messages[0].id.split("-", 2)
    for wrong in (f"{int(validity) + 1}-{uid}-{folder}", f"{validity}-4294967290-{folder}"):
        with pytest.raises(PostroomError) as caught:
            await made.reader.read(OWNER, ReadRequest(message_id=wrong))
        assert caught.value.code == "MAIL_NOT_FOUND"


async def test_a_wrong_password_and_an_unknown_certificate_are_told_without_the_password(
    made: Kit, dovecot: Dovecot, tmp_path: Path
):
    stranger = kit(tmp_path / "s", "http://127.0.0.1:1", dovecot.account)  # trusts public authorities only
    with pytest.raises(PostroomError) as caught:
        await stranger.reader.read(OWNER, ReadRequest())
    assert caught.value.code == "MAIL_CONNECTION_FAILED"
    made.secrets["env:PASSWORD"] = "not-the-password"
    with pytest.raises(PostroomError) as caught:
        await made.reader.read(OWNER, ReadRequest())
    assert caught.value.code == "MAIL_LOGIN_FAILED"
    assert "not-the-password" not in f"{caught.value.message} {caught.value.fix}"
    del made.secrets["env:PASSWORD"]
    with pytest.raises(PostroomError) as caught:
        await made.reader.read(OWNER, ReadRequest())
    assert caught.value.code == "MAIL_CREDENTIAL_MISSING"


async def test_a_server_that_sends_too_much_is_left(dovecot: Dovecot, tmp_path: Path):
    small = kit(tmp_path, "http://127.0.0.1:1", dovecot.account, max_provider_response_bytes=20_000)
    small.reader._tls = dovecot.tls
    with pytest.raises(PostroomError) as caught:
        await small.reader.read(OWNER, ReadRequest(limit=50))
    assert caught.value.code == "MAIL_RESPONSE_TOO_LARGE"


async def test_three_reads_at_once_are_three_answers(made: Kit):
    readings = await asyncio.gather(*(made.reader.read(OWNER, ReadRequest(limit=2)) for _ in range(3)))
    assert [len(reading.messages) for reading in readings] == [2, 2, 2]
