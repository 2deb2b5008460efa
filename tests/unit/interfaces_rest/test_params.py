"""Query values as the clients write them: lists as JSON, repeated or bare; moments; booleans; keys."""

import httpx
import pytest

from postroom.model.paging import MailFilter, PageRequest

MESSAGES = "inboxes/nora%40postroom.localhost/messages"


@pytest.mark.parametrize(
    "query",
    ["labels=%5B%22unread%22%2C%22Todo%22%5D", "labels=unread&labels=todo", 'labels=unread&labels=["todo"]'],
)
async def test_a_list_is_json_or_repeated_or_bare(client: httpx.AsyncClient, shelf, query: str) -> None:
    await client.get(f"{MESSAGES}?{query}")
    assert shelf.seen["list_messages"][1] == MailFilter(labels=("unread", "todo"))


async def test_every_message_filter_reaches_the_office(client: httpx.AsyncClient, shelf) -> None:
    query = {
        "from": '["ada"]',
        "to": "nora",
        "subject": '["[draft] plan"]',
        "before": "2026-12-01T17:58:44.796224Z",
        "after": "2026-01-01T01:00:00+01:00",
        "include_spam": "true",
        "include_trash": "true",
        "include_blocked": "false",
        "ascending": "true",
        "limit": "7",
        "page_token": "t",
    }
    await client.get(MESSAGES, params=query)
    assert shelf.seen["list_messages"][1:] == (
        MailFilter(
            senders=("ada",),
            recipients=("nora",),
            subject=("[draft] plan",),
            before=1796147924796224,
            after=1767225600000000,
            include=frozenset({"spam", "trash"}),
        ),
        PageRequest(limit=7, page_token="t", ascending=True),
    )


async def test_a_bare_value_in_brackets_is_a_word(client: httpx.AsyncClient, shelf) -> None:
    await client.get(MESSAGES, params={"subject": "[draft] plan"})
    assert shelf.seen["list_messages"][1].subject == ("[draft] plan",)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=many", ["limit"]),
        ("before=yesterday", ["before"]),
        ("after=2026-01-01T00:00:00", ["after"]),
        ("labels=%5B1%5D", ["labels"]),
        ("ascending=perhaps", ["ascending"]),
        ("&".join(f"subject=a{number}" for number in range(21)), ["subject"]),
        (f"labels={[str(number) for number in range(21)]}".replace("'", '"'), ["labels"]),
    ],
)
async def test_a_wrong_value_is_named(client: httpx.AsyncClient, query: str, path: list[str]) -> None:
    answer = await client.get(f"{MESSAGES}?{query}")
    body = answer.json()
    assert (answer.status_code, body["name"], body["code"]) == (400, "ValidationError", "validation_error")
    assert [row["path"] for row in body["errors"]] == [path]


async def test_a_page_size_out_of_range_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.get("inboxes?limit=0")
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, ["limit"])


async def test_the_limit_is_echoed_only_when_given(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"{MESSAGES}?limit=3")).json()["limit"] == 3
    plain = (await client.get(MESSAGES)).json()
    assert "limit" not in plain
    assert (plain["count"], plain["next_page_token"]) == (1, "more")


async def test_threads_are_filtered_by_senders_and_recipients(client: httpx.AsyncClient, shelf) -> None:
    await client.get("threads", params={"senders": '["ada","bob"]', "recipients": "nora"})
    assert shelf.seen["list_threads"][:2] == (None, MailFilter(senders=("ada", "bob"), recipients=("nora",)))


async def test_a_thread_id_that_is_no_uuid_is_invalid(client: httpx.AsyncClient) -> None:
    answer = await client.get("threads/7")
    assert (answer.status_code, answer.json()["errors"][0]["message"]) == (400, "Invalid UUID")


async def test_half_a_character_in_a_list_never_reaches_the_office(client: httpx.AsyncClient, shelf) -> None:
    await client.get(MESSAGES, params={"subject": '["\\ud800"]'})
    assert shelf.seen["list_messages"][1].subject == ('["\\ud800"]',)
