"""Message ids in the path: raw or percent-encoded, with slashes, decoded after splitting (trap 2)."""

import httpx
import pytest

from postroom.interfaces.rest.paths import fold


@pytest.mark.parametrize(
    ("method", "path", "folded"),
    [
        ("GET", "/inboxes/a%40b/messages/%3Cx/y@c%3E", "/inboxes/a%40b/messages/%3Cx%2Fy@c%3E"),
        ("GET", "/inboxes/a/messages/%3Cx/y@c%3E/raw", "/inboxes/a/messages/%3Cx%2Fy@c%3E/raw"),
        ("GET", "/inboxes/a/messages/x/y/attachments/z", "/inboxes/a/messages/x%2Fy/attachments/z"),
        ("POST", "/inboxes/a/messages/x/y/reply-all", "/inboxes/a/messages/x%2Fy/reply-all"),
        ("POST", "/inboxes/a/messages/x/reply/forward", "/inboxes/a/messages/x%2Freply/forward"),
        ("PATCH", "/inboxes/a/messages/x/reply", "/inboxes/a/messages/x%2Freply"),
        ("DELETE", "/inboxes/a/messages/x/raw", "/inboxes/a/messages/x%2Fraw"),
        ("GET", "/inboxes/a/messages/raw", "/inboxes/a/messages/raw"),
        ("POST", "/inboxes/a/messages/send", "/inboxes/a/messages/send"),
        ("GET", "/inboxes/a/threads/x/y", "/inboxes/a/threads/x/y"),
        ("GET", "/inboxes/a/messages", "/inboxes/a/messages"),
    ],
)
def test_an_id_spans_the_segments_up_to_a_known_suffix(method: str, path: str, folded: str) -> None:
    assert fold(method, path) == folded


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("%3Ca1%40example.org%3E", "<a1@example.org>"),
        ("%3Ca1@example.org%3E", "<a1@example.org>"),
        ("%3Ca/b%40c%3E", "<a/b@c>"),
        ("%3Ca%2Fb%40c%3E", "<a/b@c>"),
        ("%3Ca%252Fb%3E", "<a%2Fb>"),
        ("%3Ca+b@c%3E", "<a+b@c>"),
    ],
)
async def test_both_clients_spellings_of_an_id_reach_the_office_alike(client: httpx.AsyncClient, shelf, written, meant) -> None:
    await client.get(f"inboxes/nora%40postroom.localhost/messages/{written}/raw")
    assert shelf.seen["get_raw"] == ("nora@postroom.localhost", meant)


async def test_an_encoded_slash_in_an_inbox_is_not_a_separator(client: httpx.AsyncClient, shelf) -> None:
    await client.get("inboxes/a%2Fmessages%2Fb")
    assert shelf.seen == {"get_inbox": ("a/messages/b",)}


async def test_an_id_with_nul_is_not_found(client: httpx.AsyncClient) -> None:
    answer = await client.get("inboxes/a/messages/%00")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_trailing_slash_is_never_redirected(client: httpx.AsyncClient) -> None:
    answer = await client.post("inboxes/")
    assert (answer.status_code, answer.json()["message"]) == (404, "Route not found")
