"""The order of the bounds: answer, raw body, conversion, cut body, whole result. None but the first fails a read."""

from pathlib import Path

import pytest

from httppeer import Response, peer
from postroom.config import Reader as Settings
from postroom.reader import body as bodies
from postroom.reader.body import bounded
from postroom.reader.remote import RemoteMessage
from postroom.safety.redact import Redactor
from postroom.safety.visible import Visible
from postroom.tools.reader import ReaderTools, rendered
from readerkit import OWNER, granted, kit

MOST_RAW, MOST_TEXT = 100_000, 20_000


class Converter:
    """Counts what it is given to convert."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, html: str) -> Visible:
        self.calls += 1
        return Visible(text=html)


def message(text: str, **more: object) -> RemoteMessage:
    return RemoteMessage(id="m1", thread_id="t1", received=0, text=text, is_html=True, **more)


@pytest.mark.parametrize(
    ("size", "shown", "omitted", "truncated", "calls"),
    [
        (0, 0, False, False, 1),
        (MOST_TEXT, MOST_TEXT, False, False, 1),
        (MOST_TEXT + 1, MOST_TEXT + len("\n[body truncated]"), False, True, 1),
        (MOST_RAW, MOST_TEXT + len("\n[body truncated]"), False, True, 1),
        (MOST_RAW + 1, 0, True, False, 0),
    ],
)
def test_c15_a_body_is_whole_cut_or_omitted_before_conversion(size: int, shown: int, omitted: bool, truncated: bool, calls: int):
    converter = Converter()
    read = bounded(message("x" * size), Settings(), None, to_text=converter)
    assert (len(read.text), read.text_omitted, read.text_truncated, converter.calls) == (shown, omitted, truncated, calls)
    assert read.text.endswith(bodies.TRUNCATED) is truncated


def test_c15_half_a_secret_is_not_left_at_the_cut():
    secret = "sk-ant-api03-" + "A1b2C3d4E5f6" * 8
    read = bounded(message("x" * (MOST_TEXT - 20) + " " + secret), Settings(), Redactor())
    assert "sk-ant" not in read.text


def test_c13_html_is_shown_as_a_person_sees_it_and_nothing_is_loaded():
    html = "<style>p{color:red}</style><script>alert(1)</script><p>Hello<img src='https://t.example/pixel.png'></p><p hidden>obey</p>"
    read = bounded(message(html), Settings(), None)
    assert read.text == "Hello"
    assert "hidden_text" in [finding.code for finding in read.findings]


async def test_c17_an_endless_answer_is_left_early_and_never_parsed(tmp_path: Path):
    block = b" " * 65536

    def endless(request):
        if request.path == "/oauth2/token":
            return Response(200, {"access_token": "access-token-1", "expires_in": 3600})
        return Response(200, block, chunks=100_000)

    async with peer(endless) as running:
        made = kit(tmp_path, running.url, max_provider_response_bytes=1_000_000)
        await granted(made)
        tools = ReaderTools(made.reader, redactor=made.redactor)
        single = await tools.call(OWNER, "email_read", {"messageId": "m1"})
        listed = await tools.call(OWNER, "email_read", {})
        await made.reader.close()
    assert single.structured["error"] == "MAIL_MESSAGE_TOO_LARGE"
    assert listed.structured["error"] == "MAIL_RESPONSE_TOO_LARGE"
    assert running.sent < 100_000 * len(block) / 10


async def test_c16_the_whole_result_keeps_whole_messages_says_how_many_it_dropped_and_where_to_go_on(world):
    world.google.put(*range(50), text="long " * 3000)
    reading = await world.read(limit=50)
    result = rendered(reading, None, max_chars=60_000, canonical=False)
    shown = len(result.structured["messages"])
    assert 0 < shown < 50
    assert len(result.text) <= 60_000
    assert result.structured["truncated"] is True
    assert result.structured["dropped"] == 50 - shown
    assert f"truncated: {50 - shown} more messages did not fit" in result.text
    assert result.text.count("</untrusted_email") == shown
    following = await world.read(limit=50, page_token=result.structured["nextPageToken"])
    assert following.messages[0].id == f"m{shown}"


async def test_a_page_token_is_tied_to_its_list(world):
    world.google.put(1)
    world.google.next_page = "page-2"
    reading = await world.read(query="a", limit=1)
    token = reading.page_token(1)
    assert await world.code(query="b", limit=1, page_token=token) == "MAIL_ARGUMENT_INVALID"
    await world.read(query="a", limit=1, page_token=token)
    assert world.paths()[-2].endswith("q=a&pageToken=page-2")
