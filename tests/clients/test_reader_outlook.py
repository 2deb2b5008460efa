"""The reader against a Graph peer of ours, written from Microsoft's published behaviour and kept apart from the provider."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from graphpeer import Mailbox, load
from httppeer import Peer, peer
from pace import PATIENCE_S
from postroom.errors import PostroomError
from postroom.reader.request import ReadRequest
from readerkit import CLIENT_ID, OUTLOOK, OWNER, Kit, granted, kit

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


@dataclass
class World:
    kit: Kit
    box: Mailbox
    peer: Peer

    async def read(self, **asked):
        return await self.kit.reader.read(OWNER, ReadRequest(**asked))

    def asked(self) -> list[dict[str, str]]:
        """The queries of the lists so far."""
        return [request.query for request in self.peer.requests if request.path.endswith("/messages")]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    box = Mailbox(client_id=CLIENT_ID, refresh={"refresh-1"})
    async with peer(box.handle) as running:
        box.url = running.url
        made = kit(tmp_path, running.url, OUTLOOK, max_limit=500)
        await granted(made, OUTLOOK)
        yield World(made, box, running)
        await made.reader.close()


def mail(subject: str, body: str = "What is the price?", sender: str = "Ada <ada@customer.example>") -> bytes:
    return f"From: {sender}\r\nTo: me@example.test\r\nSubject: {subject}\r\n\r\n{body}\r\n".encode()


def on(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 9, day, hour, tzinfo=UTC)


async def code_of(awaitable) -> str:
    with pytest.raises(PostroomError) as caught:
        await awaitable
    return caught.value.code


async def test_c18_consent_in_the_browser_opens_the_account(world: World, tmp_path: Path):
    world.box.put(mail("Hi"), received=NOON)
    reader = world.kit.reader
    await reader.revoke(OWNER, OUTLOOK.id)
    assert await code_of(world.read()) == "MAIL_AUTHORIZATION_REQUIRED"
    prompt = await reader.authorize(OWNER, OUTLOOK.id, device=False)
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
        await browser.get(world.box.approve(prompt.url).replace("//localhost:", "//127.0.0.1:"))
    assert await reader.authorization(OWNER, OUTLOOK.id, PATIENCE_S) == "authorized"
    assert [message.subject for message in (await world.read()).messages] == ["Hi"]


async def test_without_a_browser_a_code_typed_elsewhere_opens_it(world: World):
    reader = world.kit.reader
    prompt = await reader.authorize(OWNER, OUTLOOK.id, device=True)
    assert (prompt.url, prompt.user_code) == ("https://microsoft.com/devicelogin", "ABCD-1234")
    assert await reader.authorization(OWNER, OUTLOOK.id) == "pending"
    world.box.devices = dict.fromkeys(world.box.devices, True)
    assert await reader.authorization(OWNER, OUTLOOK.id, PATIENCE_S) == "authorized"


async def test_c22_a_rotated_refresh_token_is_kept_for_the_next_time(world: World, tmp_path: Path):
    await world.read()
    world.kit.clock.advance(4000)
    await world.read()
    again = kit(tmp_path, world.peer.url, OUTLOOK)
    assert (await again.reader.read(OWNER, ReadRequest())).account == OUTLOOK.id
    await again.reader.close()


async def test_a_list_is_metadata_then_each_message_and_no_attachment_content(world: World):
    attached = b'From: a@b.example\r\nSubject: s\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nHello\r\n--b\r\nContent-Type: application/pdf; name="r.pdf"\r\nContent-Disposition: attachment; filename="r.pdf"\r\n\r\nSECRETBYTES\r\n--b--\r\n'
    world.box.put(attached, received=NOON)
    (message,) = (await world.read()).messages
    assert [(file.filename, file.content_type, file.size) for file in message.attachments] == [("r.pdf", "application/pdf", 11)]
    assert (message.text, message.from_, message.date) == ("Hello", "a@b.example", "2026-09-01T12:00:00.000Z")
    graph = [request for request in world.peer.requests if request.path.startswith("/v1.0")]
    assert [request.method for request in graph] == ["GET", "GET"]
    assert "body" not in graph[0].query["$select"].split(",")
    assert graph[1].query["$expand"] == "attachments($select=name,contentType,size)"
    assert 'IdType="ImmutableId"' in graph[1].headers["prefer"]


async def test_c29_dates_and_unread_filter_exactly(world: World):
    for day, read in ((1, False), (2, True), (2, False), (3, False)):
        world.box.put(mail(f"day {day} {'read' if read else 'unread'}"), received=on(day, 0), read=read)
    found = await world.read(after="2026-09-02", before="2026-09-03", unread_only=True)
    assert [message.subject for message in found.messages] == ["day 2 unread"]
    assert world.asked()[-1]["$filter"] == (
        "receivedDateTime ge 2026-09-02T00:00:00Z and receivedDateTime lt 2026-09-03T00:00:00Z and isRead eq false"
    )
    unread = await world.read(unread_only=True)
    assert len(unread.messages) == 3


async def test_c29_a_query_with_dates_and_unread_is_honoured_not_dropped(world: World):
    for day, read in ((1, False), (2, True), (2, False), (3, False)):
        world.box.put(mail(f"offer {day} {'read' if read else 'unread'}"), received=on(day, 0), read=read)
    world.box.put(mail("something else"), received=on(2, 1))
    found = await world.read(query="offer OR absent", after="2026-09-02", before="2026-09-03", unread_only=True)
    assert [message.subject for message in found.messages] == ["offer 2 unread"]
    asked = world.asked()[-1]
    assert asked["$search"] == '"(offer OR absent) AND received>=2026-09-01 AND received<=2026-09-04 AND isread:false"'
    assert "$filter" not in asked
    assert "$orderby" not in asked


async def test_c29_quotes_in_a_query_stay_inside_it(world: World):
    world.box.put(mail('the "big" offer'), received=NOON)
    found = await world.read(query='"the big"')
    assert found.messages == ()
    assert world.asked()[-1]["$search"] == '"\\"the big\\""'


async def test_every_page_is_reached_once_also_of_a_search(world: World):
    for number in range(7):
        world.box.put(mail(f"page {number}"), received=on(1, number))
    for query in ("", "page"):
        seen, request = [], ReadRequest(limit=3, query=query)
        while True:
            reading = await world.kit.reader.read(OWNER, request)
            seen += [message.subject for message in reading.messages]
            following = reading.page_token(len(reading.messages))
            if following is None:
                break
            request = ReadRequest(limit=3, query=query, page_token=following)
        assert seen == [f"page {number}" for number in reversed(range(7))]


@pytest.mark.parametrize(
    "link",
    [
        "https://graph.microsoft.com.evil.example/v1.0/me/messages?$skip=3",
        "https://graph.microsoft.com@evil.example/v1.0/me/messages?$skip=3",
        "//evil.example/v1.0/me/messages?$skip=3",
        "file:///etc/passwd",
    ],
)
async def test_c03_a_next_link_that_leads_elsewhere_is_refused(world: World, link: str):
    for number in range(5):
        world.box.put(mail(f"page {number}"), received=on(1, number))
    world.box.foreign_link = link
    assert await code_of(world.read(limit=3)) == "MAIL_ENDPOINT_FORBIDDEN"


async def test_c30_folders_by_name_and_nothing_smuggled_into_the_path(world: World):
    world.box.put(mail("old"), received=NOON, folder="archive")
    world.box.put(mail("new"), received=NOON)
    assert [message.subject for message in (await world.read(folder="archive")).messages] == ["old"]
    assert await code_of(world.read(folder="nowhere")) == "MAIL_NOT_FOUND"
    for folder in ("inbox/messages", "..", "inbox?$expand=attachments", "inbox')", "a b", "in%2Fbox"):
        assert await code_of(world.read(folder=folder)) == "MAIL_ARGUMENT_INVALID"
    for message_id in ("../settings", "x/$value", "x?y", "", "a b"):
        if message_id:
            assert await code_of(world.read(message_id=message_id)) == "MAIL_ARGUMENT_INVALID"
    assert await code_of(world.read(message_id="AAMkUnknown")) == "MAIL_NOT_FOUND"


async def test_a_short_wait_is_honoured_once_a_long_one_is_told(world: World):
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    await world.read()
    world.kit.reader._open[OUTLOOK.id].provider._exchange._sleep = note
    world.box.throttle, world.box.retry_after = 1, "3"
    await world.read()
    assert waited == [3.0]
    world.box.throttle, world.box.retry_after = 1, "120"
    with pytest.raises(PostroomError) as caught:
        await world.read()
    assert (caught.value.code, caught.value.details["retry_after_s"], waited) == ("MAIL_RATE_LIMITED", 120, [3.0])


async def test_real_mails_read_as_they_were_sent_and_none_is_marked_read(world: World, cases: Path):
    raws = [path.read_bytes() for path in sorted((cases / "mail").rglob("*.eml"))]
    taken = load(world.box, raws, NOON)
    before = [row["isRead"] for row in world.box.messages]
    found = await world.read(limit=500)
    assert len(found.messages) == taken
    assert taken > len(raws) * 0.9
    subjects = [" ".join(row["subject"].split()) for row in reversed(world.box.messages)]
    agree = sum(" ".join(message.subject.split()) == subject for message, subject in zip(found.messages, subjects, strict=True))
    assert agree == taken
    assert [row["isRead"] for row in world.box.messages] == before
    assert {request.method for request in world.peer.requests if request.path.startswith("/v1.0")} == {"GET"}
