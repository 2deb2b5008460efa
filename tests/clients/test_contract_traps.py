"""The twelve things most likely to break an otherwise good server of this API, each as a client's bytes meet it.

Numbers are those of the list this project keeps of what the official clients do on the wire.
"""

import contextlib
import http.client
import json
import smtplib
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from websockets.sync.client import connect

from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from served import Served, eventually, serving

NORA, OMAR = "nora@postroom.localhost", "omar@postroom.localhost"
HERE = f"/v0/inboxes/{NORA}"


@pytest.fixture(scope="module", params=ENGINES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with url_of(request.param) as url, serving(tmp_path_factory.mktemp("house"), settings(url)) as running:
        for name in ("nora", "omar"):
            running.ok("POST", "/v0/inboxes", {"username": name})
        yield running


def raw(served: Served, method: str, target: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """A request whose target goes out as it is written."""
    sent = {"Authorization": f"Bearer {served.owner}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    with contextlib.closing(http.client.HTTPConnection(served.host, served.port, timeout=PATIENCE_S)) as connection:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in (sent | ({"Content-Length": str(len(body))} if body is not None else {})).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def send(served: Served, **more: Any) -> dict[str, str]:
    sent: dict[str, str] = served.ok("POST", f"{HERE}/messages/send", {"to": [OMAR], "subject": "hi", "text": "yes"} | more)
    return sent


def arrive(served: Served, message_id: str) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Message-ID"] = "Ada <ada@customer.example>", NORA, "odd id", message_id
    mail.set_content("hello")
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as smtp:
        smtp.sendmail("ada@customer.example", [NORA], mail.as_bytes())


def socket(served: Served, query: str = "", **headers: str) -> Any:
    return connect(f"ws://{served.host}:{served.port}/v0{query}", additional_headers=headers, open_timeout=PATIENCE_S)


@pytest.mark.parametrize("query", ["labels=%5B%22blue%22%2C%22red%22%5D", "labels=blue&labels=red", "labels=blue"])
def test_trap_1_a_list_in_a_query_is_json_or_repeated_or_bare(served: Served, query: str) -> None:
    sent = send(served, labels=["blue", "red"])
    found = served.ok("GET", f"{HERE}/messages?{query}")["messages"]
    assert sent["message_id"] in [row["message_id"] for row in found]
    assert served.ok("GET", f"{HERE}/messages?labels=%5B%22green%22%5D")["messages"] == []


@pytest.mark.parametrize(
    ("message_id", "target"),
    [
        ("<a/b@customer.example>", "%3Ca/b@customer.example%3E"),
        ("<c/d@customer.example>", "%3Cc%2Fd%40customer.example%3E"),
        ("<e%2Ff@customer.example>", "%3Ce%252Ff%40customer.example%3E"),
        ("<g+h@customer.example>", "%3Cg+h@customer.example%3E"),
    ],
)
def test_trap_2_a_message_id_in_a_path_is_decoded_after_splitting(served: Served, message_id: str, target: str) -> None:
    arrive(served, message_id)
    there = f"{HERE}/messages/{target}"
    eventually(lambda: raw(served, "GET", there)[0] == 200)
    assert json.loads(raw(served, "GET", there)[1])["subject"] == "odd id"
    for suffix, method, body in (("/raw", "GET", None), ("/reply", "POST", json.dumps({"to": [OMAR], "text": "x"}).encode())):
        status, answer = raw(served, method, there + suffix, body, Content_Type="application/json")
        assert (status, "message_id" in json.loads(answer)) == (200, True)


@pytest.mark.parametrize("message_id", ["<i?j#k@customer.example>", "<l/m@customer.example>", "<n%o@customer.example>"])
def test_trap_2_an_id_the_python_client_would_not_carry_is_listed_under_a_safe_one(served: Served, message_id: str) -> None:
    known = {row["message_id"] for row in served.messages(NORA)}
    arrive(served, message_id)
    (listed,) = eventually(lambda: [row["message_id"] for row in served.messages(NORA) if row["message_id"] not in known])
    assert not set("?#/%") & set(listed)
    as_the_python_client_writes_it = listed.replace("<", "%3C").replace(">", "%3E")
    assert raw(served, "GET", f"{HERE}/messages/{as_the_python_client_writes_it}")[0] == 200


def test_trap_3_nulls_are_absent_on_sends_and_clear_on_a_drafts_patch(served: Served) -> None:
    file = {"filename": "x", "content_id": None, "content": "YWJj", "url": None}
    assert send(served, labels=None, cc=None, html=None, attachments=[file])["message_id"]
    draft = served.ok("POST", f"{HERE}/drafts", {"to": [OMAR], "subject": "s", "text": "t", "cc": None})
    changed = served.ok("PATCH", f"{HERE}/drafts/{draft['draft_id']}", {"subject": None})
    assert ("subject" in changed, changed["text"], changed["to"]) == (False, "t", [OMAR])


def test_trap_4_an_inbox_is_made_without_a_body_and_a_draft_sent_with_an_empty_one(served: Served) -> None:
    status, body = raw(served, "POST", "/v0/inboxes", b"")
    assert (status, json.loads(body)["inbox_id"].rpartition("@")[2]) == (200, "postroom.localhost")
    assert raw(served, "POST", "/v0/inboxes")[0] == 200
    draft = served.ok("POST", f"{HERE}/drafts", {"to": [OMAR], "text": "t"})
    assert raw(served, "POST", f"{HERE}/drafts/{draft['draft_id']}/send", b"{}", Content_Type="application/json")[0] == 200


def test_trap_5_what_the_contract_requires_is_there(served: Served) -> None:
    sent = send(served)
    row = served.ok("GET", f"{HERE}/messages?limit=1")["messages"][0]
    assert row.keys() >= {
        "inbox_id",
        "thread_id",
        "message_id",
        "labels",
        "timestamp",
        "from",
        "to",
        "size",
        "updated_at",
        "created_at",
    }
    thread = served.ok("GET", f"{HERE}/threads/{sent['thread_id']}")
    needed = {"inbox_id", "thread_id", "labels", "timestamp", "senders", "recipients", "last_message_id", "message_count"}
    assert thread.keys() >= needed | {"size", "updated_at", "created_at", "count", "messages"}
    inbox = served.ok("GET", HERE)
    assert inbox.keys() >= {"pod_id", "inbox_id", "email", "updated_at", "created_at"}


def test_trap_6_every_frame_is_complete_and_of_a_known_type(served: Served) -> None:
    with socket(served, Authorization=f"Bearer {served.owner}") as client:
        client.send(json.dumps({"type": "subscribe"}))
        assert json.loads(client.recv(timeout=PATIENCE_S))["type"] == "subscribed"
        send(served)
        frames = [json.loads(client.recv(timeout=PATIENCE_S)) for _ in range(3)]
    payloads = {"message.sent": "send", "message.delivered": "delivery", "message.received": "message"}
    assert [frame["event_type"] for frame in frames] == list(payloads)
    for frame in frames:
        assert (frame["type"], frame["event_id"] != "") == ("event", True)
        assert frame[payloads[frame["event_type"]]].keys() >= {"inbox_id", "thread_id", "message_id", "timestamp"}
    assert frames[0]["send"]["recipients"] == frames[1]["delivery"]["recipients"] == [OMAR]
    assert frames[2]["thread"].keys() >= {"thread_id", "last_message_id", "message_count"}


def test_trap_7_a_409_asked_three_times_does_nothing_three_times(served: Served) -> None:
    key = {"Idempotency_Key": "trap-7"}
    first = served.ok("POST", f"{HERE}/messages/send", {"to": [OMAR], "text": "one"}, **key)
    for _ in range(3):
        status, answer = served.call("POST", f"{HERE}/messages/send", {"to": [OMAR], "text": "another"}, **key)
        assert (status, answer["code"]) == (409, "conflict")
    assert served.ok("POST", f"{HERE}/messages/send", {"to": [OMAR], "text": "one"}, **key) == first


@pytest.mark.parametrize("way", ["header", "api_key", "auth_token", "both"])
def test_traps_8_and_9_the_socket_is_at_the_same_origin_and_takes_the_key_in_every_way(served: Served, way: str) -> None:
    header = {"Authorization": f"Bearer {served.owner}"} if way in ("header", "both") else {}
    query = "" if way == "header" else f"?{'auth_token' if way == 'auth_token' else 'api_key'}={served.owner}"
    with socket(served, query, **header) as client:
        client.send(json.dumps({"type": "subscribe", "inbox_ids": [NORA]}))
        assert json.loads(client.recv(timeout=PATIENCE_S))["inbox_ids"] == [NORA]


def test_trap_10_a_download_url_needs_no_header_and_does_not_redirect(served: Served) -> None:
    sent = send(served, attachments=[{"filename": "a.txt", "content": "YWJj"}])
    there = f"{HERE}/messages/{quote(sent['message_id'], safe='')}"
    (file,) = served.ok("GET", there)["attachments"]
    link = urlsplit(served.ok("GET", f"{there}/attachments/{file['attachment_id']}")["download_url"])
    with contextlib.closing(http.client.HTTPConnection(link.hostname or "", link.port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", link.path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"abc")
        connection.request("GET", f"{link.path[:-4]}AAAA")
        assert connection.getresponse().status in (401, 403, 404)


def test_trap_11_deletes_and_header_updates_answer_204_and_nothing(served: Served) -> None:
    hook = served.ok("POST", "/v0/webhooks", {"url": "https://hooks.example/x", "event_types": ["message.received"]})
    at = f"/v0/webhooks/{hook['webhook_id']}"
    update = b'{"headers":{"X-A":"b"}}'
    assert raw(served, "PATCH", f"{at}/headers", update, Content_Type="application/json") == (204, b"")
    assert raw(served, "DELETE", at) == (204, b"")
    sent = send(served)
    assert raw(served, "DELETE", f"{HERE}/messages/{quote(sent['message_id'], safe='')}") == (204, b"")
    assert raw(served, "DELETE", f"{HERE}/threads/{sent['thread_id']}")[0] in (204, 404)


def test_trap_12_mcp_is_served_here_since_the_vendors_bridge_cannot_be_redirected(served: Served) -> None:
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    status, body = raw(served, "POST", "/mcp/email?inbox=" + NORA, json.dumps(ask).encode(), **headers)
    assert (status, b"agentmail" in body) == (200, True)
