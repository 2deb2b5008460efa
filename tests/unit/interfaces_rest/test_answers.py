"""What comes back: fields exact, empty ones left out, errors in one shape."""

import httpx
import pytest

from postroom.errors import Busy, Conflict, Forbidden, NotFound, StorageFailure, TooLarge, Unauthorized
from postroom.model.mail import NewInbox
from postroom.model.paging import MailFilter
from unit.interfaces_rest.routes import OPERATIONS

SAMPLES = {
    "inbox_id": "nora%40postroom.localhost",
    "thread_id": "6f0c9a4e-0000-4000-8000-00000000000a",
    "message_id": "%3Ca%3E",
    "attachment_id": "a",
    "draft_id": "d",
    "direction": "send",
    "type": "allow",
    "entry": "x.example",
    "api_key_id": "k",
    "pod_id": "00000000-0000-4000-8000-000000000001",
    "webhook_id": "ep_1",
    "domain_id": "mail.example",
}
INBOX = "inboxes/nora%40postroom.localhost"
AT = "2026-01-01T00:00:00.123Z"
POD = "00000000-0000-4000-8000-000000000001"


async def test_an_inbox_may_be_made_with_no_body_at_all(client: httpx.AsyncClient, shelf) -> None:
    answer = await client.post("inboxes")
    assert answer.json() == {
        "organization_id": POD,
        "pod_id": POD,
        "inbox_id": "random@postroom.localhost",
        "email": "random@postroom.localhost",
        "status": "active",
        "created_at": AT,
        "updated_at": AT,
    }
    assert shelf.seen["create_inbox"] == (NewInbox(),)


async def test_nulls_in_a_new_inbox_mean_absent(client: httpx.AsyncClient, shelf) -> None:
    body = {"username": "nora", "domain": None, "display_name": None, "client_id": None, "metadata": None}
    assert (await client.post("inboxes", json=body)).status_code == 200
    assert shelf.seen["create_inbox"] == (NewInbox(username="nora"),)


@pytest.mark.parametrize("body", [{"client_id": "a@b"}, {"client_id": ""}, {"display_name": "a<b"}, {"metadata": {"a": []}}])
async def test_a_new_inbox_is_checked_before_anything_is_made(client: httpx.AsyncClient, shelf, body) -> None:
    assert (await client.post("inboxes", json=body)).status_code == 400
    assert shelf.seen == {}


async def test_a_message_has_its_required_fields_and_no_empty_ones(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"{INBOX}/messages/%3Ca1@example.org%3E")
    assert answer.json() == {
        "organization_id": POD,
        "pod_id": POD,
        "inbox_id": "nora@postroom.localhost",
        "thread_id": "6f0c9a4e-0000-4000-8000-00000000000a",
        "message_id": "<a1@example.org>",
        "labels": ["received", "unread"],
        "timestamp": AT,
        "from": "Ada <ada@example.org>",
        "to": ["nora@postroom.localhost"],
        "size": 42,
        "created_at": AT,
        "updated_at": AT,
    }


async def test_raw_mail_and_attachments_are_links_without_a_credential(client: httpx.AsyncClient) -> None:
    raw = (await client.get(f"{INBOX}/messages/%3Ca1@example.org%3E/raw")).json()
    assert (raw["size"], raw["expires_at"]) == (12, AT)
    assert raw["download_url"].startswith("http://house/dl/")
    found = (await client.get(f"{INBOX}/messages/%3Ca1@example.org%3E/attachments/z")).json()
    assert found["attachment_id"] == "z"
    assert found["download_url"].startswith("http://house/dl/")


async def test_a_threads_attachment_is_found_in_its_message(client: httpx.AsyncClient, shelf) -> None:
    thread = "threads/6f0c9a4e-0000-4000-8000-00000000000a"
    found = await client.get(f"{thread}/attachments/6f0c9a4e-0000-4000-8000-0000000000aa")
    assert found.status_code == 200
    assert shelf.seen["get_attachment"][1] == "<a1@example.org>"
    assert (await client.get(f"{thread}/attachments/none")).json()["message"] == "Attachment not found"


async def test_labels_are_changed_by_text_or_list(client: httpx.AsyncClient, shelf) -> None:
    answer = await client.patch(f"{INBOX}/messages/%3Ca%3E", json={"add_labels": "Done", "remove_labels": ["unread"]})
    assert answer.json() == {"message_id": "<a>", "labels": ["received", "Done"]}
    assert shelf.seen["update_message"][2:] == (("Done",), ("unread",))
    assert (await client.patch(f"{INBOX}/messages/%3Ca%3E", json={})).status_code == 400


async def test_a_draft_keeps_what_is_absent_and_clears_what_is_null(client: httpx.AsyncClient, shelf) -> None:
    body = {"subject": None, "text": "new", "cc": None, "send_at": None, "add_labels": None, "add_attachments": None}
    assert (await client.patch(f"{INBOX}/drafts/d1", json=body)).status_code == 200
    assert shelf.seen["update_draft"][2] == {"subject": None, "text": "new", "cc": (), "send_at": None}


async def test_a_draft_is_a_reply_or_a_forward(client: httpx.AsyncClient, shelf) -> None:
    answer = await client.post(f"{INBOX}/drafts", json={"in_reply_to": "<a>", "forward_of": "<b>"})
    assert (answer.status_code, shelf.seen) == (400, {})


async def test_drafts_and_threads_are_listed_across_inboxes(client: httpx.AsyncClient, shelf) -> None:
    drafts = (await client.get("drafts", params={"labels": '["scheduled"]'})).json()
    assert (drafts["count"], drafts["drafts"][0]["draft_id"]) == (1, "6f0c9a4e-0000-4000-8000-00000000000a")
    assert shelf.seen["list_drafts"][:2] == (None, MailFilter(labels=("scheduled",)))
    found = (await client.get("threads/search", params={"q": "hi"})).json()
    assert found["threads"][0]["highlights"] == {"subject": ["**hi**"]}


@pytest.mark.parametrize(
    ("failure", "status", "name"),
    [
        (NotFound("Inbox not found"), 404, "NotFoundError"),
        (Forbidden("no"), 403, "ForbiddenError"),
        (Conflict("taken", code="already_exists"), 403, "AlreadyExistsError"),
        (Conflict("again"), 409, "ConflictError"),
        (Conflict("too many", code="unprocessable"), 422, "UnprocessableError"),
        (TooLarge("26 MiB"), 400, "ValidationError"),
        (StorageFailure("disk full"), 503, "ServiceUnavailableError"),
        (Unauthorized("no"), 401, "UnauthorizedError"),
    ],
)
async def test_an_error_has_its_status_and_name(client: httpx.AsyncClient, shelf, failure, status: int, name: str) -> None:
    shelf.failure = failure
    answer = await client.get(INBOX)
    assert (answer.status_code, answer.json()["name"], answer.json()["message"]) == (status, name, failure.message)


async def test_a_busy_house_says_when_to_come_back(client: httpx.AsyncClient, shelf) -> None:
    shelf.failure = Busy("later", retry_after_s=2.5)
    answer = await client.get(INBOX)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "3")


async def test_a_fault_of_ours_tells_nothing_of_the_inside(client: httpx.AsyncClient, shelf) -> None:
    shelf.failure = RuntimeError("secret detail")
    answer = await client.get(INBOX)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing", "Route not found"),
        (f"{INBOX}/calendar/agenda", "calendars: not offered by this server"),
        (f"{INBOX}/messages/%3Ca%3E/agent-armor/feedback", "Agent Armor: not offered by this server"),
        ("apps/search", "apps: not offered by this server"),
    ],
)
async def test_an_unknown_route_names_what_is_missing(client: httpx.AsyncClient, path: str, message: str) -> None:
    answer = await client.post(path)
    assert (answer.status_code, answer.json()["name"], answer.json()["message"]) == (404, "NotFoundError", message)


async def test_a_wrong_method_is_told_with_the_right_ones(client: httpx.AsyncClient) -> None:
    answer = await client.put(INBOX)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, PATCH, DELETE"


async def test_a_verb_the_backend_lacks_is_not_found(client: httpx.AsyncClient) -> None:
    answer = await client.delete(f"{INBOX}/messages/%3Ca%3E")
    assert (answer.status_code, answer.json()["message"]) == (404, "deleting a message: not offered by this server")


async def test_another_pod_is_not_found(client: httpx.AsyncClient) -> None:
    assert (await client.get(f"pods/{POD}/threads")).status_code == 200
    assert (await client.get("pods/other/threads")).status_code == 404


async def test_without_a_principal_no_operation_is_answered(unauthenticated: httpx.AsyncClient, shelf) -> None:
    for operation in OPERATIONS:
        answer = await unauthenticated.request(operation.method, operation.path.format_map(SAMPLES)[1:], json={})
        assert (answer.status_code, answer.json()["code"]) == (401, "missing_authorization"), operation
    assert shelf.seen == {}
