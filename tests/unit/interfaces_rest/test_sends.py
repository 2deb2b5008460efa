"""Sends: nulls are absent, the gate decides, held and refused are told as the contract tells them."""

from typing import Any

import httpx
import pytest

from postroom.model.mail import AttachmentData
from postroom.model.outgoing import State, Submission
from postroom.model.request import SendKind, SendRequest

INBOX = "nora@postroom.localhost"
MESSAGES = "inboxes/nora%40postroom.localhost/messages"
REPLY = f"{MESSAGES}/%3Ca1@example.org%3E/reply"


async def test_a_send_that_leaves_answers_its_ids(client: httpx.AsyncClient, gate) -> None:
    answer = await client.post(f"{MESSAGES}/send", json={"to": "ada@example.org", "subject": "hi", "text": "yes"})
    assert (answer.status_code, set(answer.json())) == (200, {"message_id", "thread_id"})
    asked = SendRequest(kind=SendKind.SEND, inbox_id=INBOX, to=("ada@example.org",), subject="hi", text="yes")
    assert gate.asked == [(asked, None)]


async def test_nulls_in_a_send_mean_absent(client: httpx.AsyncClient, gate) -> None:
    body = {
        "labels": None,
        "to": ["ada@example.org"],
        "cc": None,
        "html": None,
        "text": "see the file",
        "attachments": [{"filename": "x", "content_id": None, "content": "YWJj", "url": None}],
        "headers": None,
        "track_opens": None,
        "body": "no such field",
    }
    assert (await client.post(f"{MESSAGES}/send", json=body)).status_code == 200
    asked = SendRequest(
        kind=SendKind.SEND,
        inbox_id=INBOX,
        to=("ada@example.org",),
        text="see the file",
        attachments=(AttachmentData(content=b"abc", filename="x"),),
    )
    assert gate.asked == [(asked, None)]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"text": "to nobody"}, ["to"]),
        ({"to": ["a@b.example"], "attachments": [{"content": "*"}]}, ["attachments"]),
        ({"to": ["a@b.example"], "attachments": [{"filename": "neither"}]}, ["attachments"]),
        ({"to": ["a@b.example"], "attachments": [{"content": "YQ==", "url": "https://x.example"}]}, ["attachments"]),
        ({"to": 7}, ["to", "str"]),
        ({"to": "a@b.example", "subject": ["x"]}, ["subject"]),
        ({"to": "a@b.example", "labels": "x"}, ["labels"]),
    ],
)
async def test_a_wrong_send_is_refused_and_not_submitted(client: httpx.AsyncClient, gate, body: Any, path: list[str]) -> None:
    answer = await client.post(f"{MESSAGES}/send", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["path"], gate.asked) == (400, path, [])


async def test_a_body_that_is_not_json_is_invalid(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{MESSAGES}/send", content=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["name"]) == (400, "ValidationError")


async def test_a_held_send_says_how_to_approve_it(client: httpx.AsyncClient, gate) -> None:
    gate.outcome = Submission(
        outgoing_id="out_7", state=State.HELD, digest="d1", reasons=("approval is asked for",), expires_at=1_767_225_600_123_000
    )
    answer = await client.post(f"{MESSAGES}/send", json={"to": "ada@example.org"})
    body = answer.json()
    assert answer.status_code == 403
    assert {key: body[key] for key in ("name", "code", "approval_id", "digest", "expires_at")} == {
        "name": "MessageRejectedError",
        "code": "held_for_approval",
        "approval_id": "out_7",
        "digest": "d1",
        "expires_at": "2026-01-01T00:00:00.123Z",
    }
    assert "postroom held approve out_7" in body["fix"]


async def test_a_refused_send_names_each_address(client: httpx.AsyncClient, gate) -> None:
    gate.outcome = Submission(
        outgoing_id="out_8", state=State.REFUSED, reasons=("not on the send list",), refused=("bob@x.example", "eve@x.example")
    )
    answer = await client.post(f"{MESSAGES}/send", json={"to": ["bob@x.example", "eve@x.example"]})
    body = answer.json()
    assert (answer.status_code, body["name"], body["code"]) == (403, "MessageRejectedError", "message_rejected")
    assert body["message"] == "the message was not sent to bob@x.example, eve@x.example: not on the send list"
    assert body["addresses"] == ["bob@x.example", "eve@x.example"]


@pytest.mark.parametrize("state", [State.APPROVED, State.SENDING, State.SENT, State.FAILED, State.UNCERTAIN])
async def test_a_repeated_key_answers_with_the_ids_whatever_became_of_the_mail(
    client: httpx.AsyncClient, gate, state: State
) -> None:
    gate.outcome = Submission(outgoing_id="out_1", state=state, message_id="<s@x>", thread_id="t", repeated=True)
    answer = await client.post(f"{MESSAGES}/send", json={"to": "a@b.example"}, headers={"Idempotency-Key": "k-1"})
    assert (answer.status_code, answer.json()) == (200, {"message_id": "<s@x>", "thread_id": "t"})
    assert gate.asked[0][1] == "k-1"


@pytest.mark.parametrize("key", ["", "a b", "k@x", "x" * 257])
async def test_a_key_outside_its_grammar_is_refused(client: httpx.AsyncClient, gate, key: str) -> None:
    answer = await client.post(f"{MESSAGES}/send", json={"to": "a@b.example"}, headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["errors"][0]["path"], gate.asked) == (400, ["Idempotency-Key"], [])


async def test_a_reply_may_replace_the_recipients(client: httpx.AsyncClient, gate) -> None:
    await client.post(REPLY, json={"text": "ok", "cc": "bob@x.example"})
    expected = SendRequest(kind=SendKind.REPLY, inbox_id=INBOX, message_id="<a1@example.org>", cc=("bob@x.example",), text="ok")
    assert gate.asked == [(expected, None)]


async def test_reply_all_as_a_flag_and_as_a_route_are_the_same(client: httpx.AsyncClient, gate) -> None:
    await client.post(REPLY, json={"text": "ok", "reply_all": True})
    await client.post(f"{REPLY}-all", json={"text": "ok", "to": ["ignored@x.example"]})
    expected = SendRequest(kind=SendKind.REPLY_ALL, inbox_id=INBOX, message_id="<a1@example.org>", text="ok")
    assert gate.asked == [(expected, None), (expected, None)]


async def test_reply_all_with_recipients_is_refused(client: httpx.AsyncClient, gate) -> None:
    answer = await client.post(REPLY, json={"text": "ok", "reply_all": True, "to": "a@b.example"})
    assert (answer.status_code, gate.asked) == (400, [])


async def test_a_forward_needs_a_recipient(client: httpx.AsyncClient, gate) -> None:
    path = f"{MESSAGES}/%3Ca1@example.org%3E/forward"
    assert (await client.post(path, json={"text": "fyi"})).status_code == 400
    assert (await client.post(path, json={"to": "a@b.example"})).status_code == 200
    assert [(asked.kind, asked.to) for asked, _ in gate.asked] == [(SendKind.FORWARD, ("a@b.example",))]


async def test_a_draft_is_sent_with_an_empty_object(client: httpx.AsyncClient, gate) -> None:
    answer = await client.post("inboxes/nora%40postroom.localhost/drafts/d1/send", json={})
    assert answer.status_code == 200
    assert gate.asked == [(SendRequest(kind=SendKind.DRAFT, inbox_id=INBOX, draft_id="d1"), None)]


async def test_an_attachment_by_url_is_the_gates_to_fetch(client: httpx.AsyncClient, gate) -> None:
    body = {"to": "a@b.example", "attachments": [{"url": "https://x.example/a.pdf", "filename": "offer.pdf", "content": None}]}
    assert (await client.post(f"{MESSAGES}/send", json=body)).status_code == 200
    ((asked, _),) = gate.asked
    assert asked.attachments == (AttachmentData(content=b"", url="https://x.example/a.pdf", filename="offer.pdf"),)


@pytest.mark.parametrize(
    "body",
    [
        rb'{"to": "ada@example.org", "text": "\ud800"}',
        rb'{"to": "ada@example.org", "text": "\udc00 alone"}',
        b'{"to": "ada@example.org", "text": "\xed\xa0\x80"}',
        rb'{"to": "ada@example.org", "headers": {"X-\ud83d": "x"}}',
        b'{"to": "ada@example.org", "text": "\xff"}',
        b'{"to": "ada@example.org", "labels": NaN}',
        b"[" * 100_000,
        b"{",
    ],
)
async def test_a_body_that_is_not_json_in_unicode_is_the_callers_fault(client: httpx.AsyncClient, gate, body: bytes) -> None:
    answer = await client.post(f"{MESSAGES}/send", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, "json_invalid")
    assert gate.asked == []


async def test_an_escaped_pair_of_surrogates_is_one_character(client: httpx.AsyncClient, gate) -> None:
    body = rb'{"to": "ada@example.org", "text": "\ud83d\ude00"}'
    answer = await client.post(f"{MESSAGES}/send", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, gate.asked[0][0].text) == (200, "\N{GRINNING FACE}")
