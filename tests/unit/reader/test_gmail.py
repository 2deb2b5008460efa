"""What is asked of Gmail, and how its answers are read."""

import itertools

import pytest

from httppeer import Response
from postroom.errors import PostroomError
from postroom.reader.gmail import list_params
from postroom.reader.outlook import list_params as outlook_params
from postroom.reader.remote import Search
from readerkit import coded, gmail_message

JAN, FEB = 1767225600, 1769904000


@pytest.mark.parametrize(("query", "after", "before", "unread"), list(itertools.product([False, True], repeat=4)))
def test_c27_every_combination_of_conditions_has_its_exact_query(query: bool, after: bool, before: bool, unread: bool):
    search = Search(
        limit=5,
        query="from:ada" if query else "",
        after=JAN if after else None,
        before=FEB if before else None,
        unread=unread,
    )
    words = [
        *(["from:ada"] if query else []),
        *([f"after:{JAN - 1}"] if after else []),  # Gmail does not say whether the second itself counts; ours is held on reading
        *([f"before:{FEB}"] if before else []),
        *(["is:unread"] if unread else []),
    ]
    assert list_params(search, "") == {"maxResults": "5"} | ({"q": " ".join(words)} if words else {})


def test_c27_alternatives_in_a_query_do_not_escape_its_dates():
    assert list_params(Search(limit=1, query="a OR b", unread=True), "")["q"] == "(a OR b) is:unread"

    assert list_params(Search(limit=1, query="a OR b"), "")["q"] == "a OR b"


@pytest.mark.parametrize("query", ["a) OR (b", "(a OR b", 'a OR "b', "a OR b)"])
@pytest.mark.parametrize("params", [list_params, outlook_params])
def test_a_query_that_would_get_out_of_its_conditions_is_refused(query: str, params):
    with pytest.raises(PostroomError) as caught:
        params(Search(limit=1, query=query, unread=True), "")
    assert caught.value.code == "MAIL_ARGUMENT_INVALID"


@pytest.mark.parametrize(
    ("folder", "params"),
    [
        ("inbox", {"labelIds": "INBOX"}),
        ("SentItems", {"labelIds": "SENT"}),
        ("junk", {"labelIds": "SPAM", "includeSpamTrash": "true"}),
        ("Work", {"q": "label:Work"}),
        ("Work/2026", {"q": "label:Work/2026"}),
        ("Big customers", {"q": 'label:"Big customers"'}),
        ("a) OR (b", {"q": 'label:"a) OR (b"'}),
    ],
)
def test_c30_a_label_is_quoted_as_it_needs(folder: str, params: dict):
    assert list_params(Search(limit=1, folder=folder), "") == {"maxResults": "1", **params}


def test_c30_a_label_that_would_break_out_of_its_quotes_is_refused():
    with pytest.raises(PostroomError) as caught:
        list_params(Search(limit=1, folder='x" OR in:anywhere "'), "")
    assert caught.value.code == "MAIL_ARGUMENT_INVALID"


async def test_c11_a_list_asks_for_ids_then_for_each_message_and_changes_nothing(world):
    world.google.put(1, 2)
    await world.read(limit=2)
    asked = [line for line in world.paths() if "token" not in line]
    assert asked[0] == "GET /gmail/v1/users/me/messages?maxResults=2"
    assert sorted(asked[1:]) == [f"GET /gmail/v1/users/me/messages/m{number}?format=full" for number in (1, 2)]


@pytest.mark.parametrize("message_id", ["../settings", "a/b", "a?format=raw", "a b", "..", "é", "a%2Fb", "x" * 300])
async def test_c28_an_id_that_is_none_is_refused_before_anything_is_asked(world, message_id: str):
    assert await world.code(message_id=message_id) == "MAIL_ARGUMENT_INVALID"
    assert world.peer.requests == []


def part(kind: str, text: str, *, name: str = "", **headers: str) -> dict:
    named = [{"name": key.replace("_", "-"), "value": value} for key, value in headers.items()]
    return {"mimeType": kind, "filename": name, "headers": named, "body": {"size": len(text), "data": coded(text)}}


async def one(world, **payload):
    message = gmail_message(1)
    message["payload"] |= payload
    world.google.messages["m1"] = message
    return (await world.read(message_id="m1")).messages[0]


async def test_c28_plain_text_is_preferred_and_parts_are_walked_in_order(world):
    inner = {"mimeType": "multipart/alternative", "parts": [part("text/plain", "plain"), part("text/html", "<b>html</b>")]}
    message = await one(world, mimeType="multipart/mixed", parts=[inner, part("text/plain", "footer")])
    assert message.text == "plain\nfooter"


async def test_c28_an_empty_plain_part_gives_way_to_the_html(world):
    message = await one(
        world, mimeType="multipart/alternative", parts=[part("text/plain", " \n"), part("text/html", "<b>html</b>")]
    )
    assert message.text == "html"


async def test_c28_charsets_flowed_text_and_encoded_words_are_decoded(world):
    latin = part("text/plain", "", Content_Type="text/plain; charset=iso-8859-1; format=flowed")
    latin["body"]["data"] = "Q2Fm6SAKYXUgbGFpdA"  # b"Caf\xe9 \nau lait"
    message = gmail_message(1, Subject="=?utf-8?q?Caf=C3=A9?=", From="=?iso-8859-1?q?Andr=E9?= <a@b.example>")
    message["payload"] |= {"mimeType": "multipart/mixed", "parts": [latin]}
    world.google.messages["m1"] = message
    read = (await world.read(message_id="m1")).messages[0]
    assert (read.text, read.subject, read.from_) == ("Café au lait", "Café", "André <a@b.example>")


async def test_c12_attachments_are_named_and_never_fetched(world):
    attached = {
        "mimeType": "application/pdf",
        "filename": "../../etc/report.pdf",
        "headers": [],
        "body": {"attachmentId": "ATT1", "size": 123456},
    }
    enclosed = {
        "mimeType": "message/rfc822",
        "filename": "",
        "headers": [],
        "body": {"size": 9},
        "parts": [part("text/plain", "inner")],
    }
    message = await one(world, mimeType="multipart/mixed", parts=[part("text/plain", "Hi"), attached, enclosed])
    assert message.text == "Hi"
    assert [(each.filename, each.content_type, each.size) for each in message.attachments] == [
        ("report.pdf", "application/pdf", 123456),
        ("", "message/rfc822", 9),
    ]
    assert [line for line in world.paths() if "attachments" in line or "raw" in line] == []


async def test_a_text_the_api_keeps_as_an_attachment_is_omitted_not_fetched(world):
    big = {"mimeType": "text/plain", "filename": "", "headers": [], "body": {"attachmentId": "ATT1", "size": 9_000_000}}
    message = await one(world, mimeType="multipart/mixed", parts=[big])
    assert (message.text, message.text_omitted) == ("", True)


async def test_c17_a_message_over_25_mb_is_refused_alone_and_listed_without_its_text(world):
    world.google.put(1, 2)
    world.google.messages["m1"]["sizeEstimate"] = 25 * 1024 * 1024 + 1
    assert await world.code(message_id="m1") == "MAIL_MESSAGE_TOO_LARGE"
    messages = (await world.read()).messages
    assert [(message.id, message.text_omitted) for message in messages] == [("m1", True), ("m2", False)]


async def test_a_message_that_goes_away_during_a_list_is_left_out(world):
    world.google.put(1)
    world.google.messages["gone"] = {}
    assert [message.id for message in (await world.read()).messages] == ["m1"]


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"messages": [{}]},
        {"messages": [], "nextPageToken": "x" * 3000},
        {"messages": 3},
        b"not json",
        b'{"messages": ' + b"[" * 100_000,
        {"messages": ["x"]},
    ],
)
async def test_an_answer_that_is_not_gmails_is_told_not_guessed_at(world, body):
    world.google.broken = [Response(200, body)]
    assert await world.code() == "MAIL_RESPONSE_INVALID"


@pytest.mark.parametrize("change", [{"id": "a/b"}, {"threadId": ""}, {"internalDate": "x"}, {"payload": None}])
async def test_a_message_with_odd_ids_or_without_content_is_told(world, change: dict):
    world.google.messages["m1"] = gmail_message(1) | change
    assert await world.code(message_id="m1") == "MAIL_RESPONSE_INVALID"
