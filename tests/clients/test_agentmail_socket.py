"""The official SDK's WebSocket clients against `postroom serve`: every event as its own class, complete, once, in order."""

import contextlib
import json
import signal
import smtplib
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from agentmail import AgentMail, AgentMailEnvironment, AsyncAgentMail
from agentmail.core.api_error import ApiError
from agentmail.websockets.types import Subscribe
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from served import Served, eventually, serving

pytestmark = pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")  # what the SDK imports
NORA, OMAR, SCOUT = "nora@postroom.localhost", "omar@postroom.localhost", "scout@postroom.localhost"
LOST = "lost@postroom.localhost"  # where a mail came back from, it is not written to again
POD = "00000000-0000-4000-8000-000000000001"


class Listening:
    """One connection of the SDK. `next` is the next frame, checked against the SDK's own model of it."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    def next(self) -> Any:
        raw = json.loads(self.socket._websocket.recv(timeout=PATIENCE_S))
        self.socket._websocket, real = _Said(raw), self.socket._websocket
        parsed = self.socket.recv()
        self.socket._websocket = real
        type(parsed).model_validate(raw)  # the SDK itself does not check
        return parsed

    def subscribe(self, **scope: Any) -> Any:
        self.socket.send_subscribe(Subscribe(**scope))
        return self.next()

    def say(self, frame: Any) -> Any:
        """The answer to a frame that the SDK has no method for."""
        self.socket._websocket.send(frame if isinstance(frame, str) else json.dumps(frame))
        return self.socket.recv()


class _Said:
    """Hands the SDK's parser one frame."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def recv(self) -> str:
        return json.dumps(self.raw)


@pytest.fixture(scope="module", params=ENGINES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with url_of(request.param) as url, serving(tmp_path_factory.mktemp("house"), settings(url)) as running:
        for name in ("nora", "omar", "lost"):
            running.ok("POST", "/v0/inboxes", {"username": name})
        yield running


def sdk(served: Served, token: str | None = None) -> AgentMail:
    environment = AgentMailEnvironment(http=served.url, websockets=served.url.replace("http", "ws"))
    return AgentMail(environment=environment, api_key=token or served.owner)


@contextlib.contextmanager
def listening(served: Served, token: str | None = None) -> Iterator[Listening]:
    with sdk(served, token).websockets.connect() as socket:
        yield Listening(socket)


def send(served: Served, text: str, subject: str, to: str = OMAR) -> dict[str, str]:
    """A mail from nora."""
    sent: dict[str, str] = served.ok("POST", f"/v0/inboxes/{NORA}/messages/send", {"to": to, "subject": subject, "text": text})
    return sent


def post(served: Served, to: str, subject: str, **headers: str) -> None:
    """A mail from outside."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ada <ada@customer.example>", to, subject
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(f"About {subject}.")
    deliver(served, to, mail.as_bytes())


def deliver(served: Served, to: str, raw: bytes) -> None:
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as smtp:
        smtp.sendmail("ada@customer.example", [to], raw)


def test_mail_from_outside_is_an_event_with_message_and_thread(served: Served) -> None:
    with listening(served) as client:
        said = client.subscribe()
        assert (said.type, said.organization_id, said.inbox_ids) == ("subscribed", POD, None)
        post(served, NORA, "greetings")
        event = client.next()
    assert (type(event).__name__, event.event_type) == ("MessageReceivedEvent", "message.received")
    assert (event.message.subject, event.message.text, event.message.from_) == (
        "greetings",
        "About greetings.\n",
        "Ada <ada@customer.example>",
    )
    assert (event.thread.thread_id, event.thread.message_count) == (event.message.thread_id, 1)


def test_a_send_is_sent_delivered_and_received_in_order(served: Served) -> None:
    with listening(served) as client:
        client.subscribe()
        sent = send(served, "x", "inside")
        events = [client.next() for _ in range(3)]
    assert [type(event).__name__ for event in events] == ["MessageSentEvent", "MessageDeliveredEvent", "MessageReceivedEvent"]
    assert (events[0].send.message_id, events[0].send.recipients) == (sent["message_id"], [OMAR])
    assert (events[1].delivery.thread_id, events[1].delivery.recipients) == (sent["thread_id"], [OMAR])
    assert events[2].message.inbox_id == OMAR


def test_a_bounce_and_a_complaint_name_their_recipients(served: Served) -> None:
    with listening(served) as client:
        client.subscribe(event_types=["message.bounced", "message.complained"])
        sent = send(served, "x", "returns", LOST)
        deliver(served, NORA, report(sent["message_id"]))
        deliver(served, NORA, complaint(sent["message_id"]))
        bounced, complained = client.next(), client.next()
    assert (type(bounced).__name__, type(complained).__name__) == ("MessageBouncedEvent", "MessageComplainedEvent")
    assert [(entry.address, entry.status) for entry in bounced.bounce.recipients] == [(LOST, "5.1.1")]
    assert (complained.complaint.recipients, complained.complaint.message_id) == ([LOST], sent["message_id"])


def test_a_blocked_sender_is_an_event_only_for_who_names_it(served: Served) -> None:
    served.ok("POST", f"/v0/inboxes/{NORA}/lists/receive/block", {"entry": "customer.example"})
    with listening(served) as everything, listening(served) as blocked:
        everything.subscribe()
        blocked.subscribe(event_types=["message.received.blocked"])
        post(served, NORA, "unwanted")
        post(served, OMAR, "wanted")
        assert (everything.next().message.subject, everything.socket._websocket.protocol.state.name) == ("wanted", "OPEN")
        event = blocked.next()
    served.call("DELETE", f"/v0/inboxes/{NORA}/lists/receive/block/customer.example")
    assert (type(event).__name__, event.event_type) == ("MessageReceivedEvent", "message.received.blocked")
    assert event.message.subject == "unwanted"


def test_filters_by_inbox_and_type_add_up_and_can_be_taken_back(served: Served) -> None:
    with listening(served) as client:
        said = client.subscribe(inbox_ids=[NORA], event_types=["message.received"])
        assert (said.inbox_ids, said.event_types) == ([NORA], ["message.received"])
        post(served, OMAR, "not asked for")
        post(served, NORA, "one")
        assert client.next().message.subject == "one"
        client.subscribe(inbox_ids=[OMAR, NORA])
        post(served, OMAR, "two")
        post(served, NORA, "three")
        assert [client.next().message.subject for _ in range(2)] == ["two", "three"]
        client.say({"type": "unsubscribe", "inbox_ids": [OMAR]})  # which the SDK takes for a Subscribed
        post(served, OMAR, "no longer")
        post(served, NORA, "four")
        assert client.next().message.subject == "four"


def test_what_is_wrong_with_a_frame_is_said_and_the_connection_lives(served: Served) -> None:
    with listening(served) as client:
        answers = [
            client.say({"type": "subscribe", "inbox_ids": ["nobody@postroom.localhost"]}),
            client.say({"type": "subscribe", "event_types": ["thread.created"]}),
            client.say({"type": "subscribe", "pod_ids": ["6f0c9a4e-0000-4000-8000-00000000000a"]}),
            client.say({"type": "subscribe", "inbox_ids": []}),
            client.say({"type": "subscribe", "cursor": "evt_unknown"}),
            client.say({"type": "publish"}),
            client.say("{"),
            client.say("[" * 40_000),
        ]
        assert {type(answer).__name__ for answer in answers} == {"Error"}
        assert [answer.code for answer in answers] == [
            "not_found",
            "validation_error",
            "not_found",
            "validation_error",
            "not_found",
            *["validation_error"] * 3,
        ]
        for _ in range(100):
            client.subscribe(inbox_ids=[NORA])
        full = client.say({"type": "subscribe"})
        assert (full.name, full.code) == ("LimitExceededError", "limit_exceeded")
        post(served, NORA, "once")
        post(served, NORA, "twice")
        assert [client.next().message.subject for _ in range(2)] == ["once", "twice"]


def test_an_agent_hears_of_its_own_inboxes_only(served: Served) -> None:
    token = served.agent("scout")
    with listening(served, token) as client:
        client.subscribe()
        assert client.say({"type": "subscribe", "inbox_ids": [NORA]}).code == "not_found"
        post(served, NORA, "for nora")
        post(served, SCOUT, "for scout")
        assert client.next().message.subject == "for scout"


@pytest.mark.parametrize("query", ["api_key", "auth_token"])
def test_a_key_may_stand_in_the_query(served: Served, query: str) -> None:
    with connect(f"{served.url.replace('http', 'ws')}/v0?{query}={served.owner}", open_timeout=PATIENCE_S) as socket:
        socket.send('{"type": "subscribe"}')
        assert json.loads(socket.recv(timeout=PATIENCE_S))["type"] == "subscribed"


def test_the_handshake_keeps_the_origins_rules(served: Served) -> None:
    base, key = served.url.replace("http", "ws"), {"Authorization": f"Bearer {served.owner}"}
    table = {
        (f"{base}/v0", "none"): ({}, 403),
        (f"{base}/v0", "wrong"): ({"Authorization": "Bearer am_wrong"}, 403),
        (f"{base}/v0?api_key=am_wrong", "query"): ({}, 403),
        (f"{base}/v0", "origin"): (key | {"Origin": "http://evil.example"}, 403),
        (f"{base}/v0/inboxes", "path"): (key, 404),
        (f"{base}/", "root"): (key, 404),
    }
    got = {}
    for (url, name), (headers, _) in table.items():
        with pytest.raises(InvalidStatus) as caught, connect(url, additional_headers=headers, open_timeout=PATIENCE_S):
            pass
        got[url, name] = caught.value.response.status_code
    assert got == {case: status for case, (_, status) in table.items()}


def test_the_sdk_is_refused_a_bad_key(served: Served) -> None:
    with pytest.raises((InvalidStatus, ApiError)) as caught, listening(served, "am_wrong"):
        pass
    assert "403" in str(caught.value) or getattr(caught.value, "status_code", 0) == 403


def test_a_client_that_comes_back_with_its_cursor_misses_nothing_and_hears_nothing_twice(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.ok("POST", "/v0/inboxes", {"username": "nora"})
        with listening(served) as client:
            client.subscribe()
            post(served, NORA, "seen")
            cursor = client.next().event_id
        for number in range(3):
            post(served, NORA, f"missed {number}")
        eventually(lambda: len(served.messages(NORA)) == 4)  # a mail cut short while it is read would come after the others
        served.stop(signal.SIGKILL)
    with serving(tmp_path) as served, listening(served) as client:
        said = client.subscribe(cursor=cursor)
        assert said.type == "subscribed"
        assert [client.next().message.subject for _ in range(3)] == ["missed 0", "missed 1", "missed 2"]
        client.subscribe(inbox_ids=[NORA], cursor=cursor)
        post(served, NORA, "live")
        assert client.next().message.subject == "live"


def test_a_key_that_is_revoked_ends_its_connection(served: Served) -> None:
    made = served.ok("POST", "/v0/api-keys", {"name": "short"})
    with listening(served, made["api_key"]) as client:
        client.subscribe()
        served.call("DELETE", f"/v0/api-keys/{made['api_key_id']}")
        post(served, NORA, "not for you")
        with pytest.raises(ConnectionClosed) as caught:
            client.next()
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "the key is no longer valid")


def test_a_service_that_stops_says_so(tmp_path: Path) -> None:
    with serving(tmp_path) as served, listening(served) as client:
        client.subscribe()
        assert served.stop() == 0
        with pytest.raises(ConnectionClosed) as caught:
            client.next()
    assert caught.value.rcvd.code == 1001


def test_a_mail_larger_than_clients_take_comes_without_its_bodies(served: Served) -> None:
    with listening(served) as client:
        client.subscribe(event_types=["message.received"])
        send(served, "word " * 400_000, "large")
        event = client.next()
    assert (event.message.subject, event.message.text, event.message.size > 2_000_000) == ("large", None, True)


def test_a_ping_is_answered(served: Served) -> None:
    with listening(served) as client:
        assert client.socket._websocket.ping(b"there?").wait(PATIENCE_S)


async def test_the_asynchronous_client_hears_the_same(served: Served) -> None:
    environment = AgentMailEnvironment(http=served.url, websockets=served.url.replace("http", "ws"))
    async with AsyncAgentMail(environment=environment, api_key=served.owner).websockets.connect() as socket:
        await socket.send_subscribe(Subscribe(inbox_ids=[NORA]))
        assert type(await socket.recv()).__name__ == "Subscribed"
        post(served, NORA, "async")
        event = await socket.recv()
    assert (type(event).__name__, event.message.subject) == ("MessageReceivedEvent", "async")


def report(message_id: str) -> bytes:
    return _report(
        "delivery-status",
        f"Reporting-MTA: dns; mx.example\r\n\r\nFinal-Recipient: rfc822; {LOST}\r\nAction: failed\r\nStatus: 5.1.1\r\n",
        message_id,
        "delivery-status",
    )


def complaint(message_id: str) -> bytes:
    fields = f"Feedback-Type: abuse\r\nUser-Agent: x/1\r\nVersion: 1\r\nOriginal-Rcpt-To: {LOST}\r\n"
    return _report("feedback-report", fields, message_id, "feedback-report")


def _report(kind: str, fields: str, message_id: str, report_type: str) -> bytes:
    lines = [
        "From: Postmaster <ada@customer.example>",
        f"To: {NORA}",
        "Subject: Report",
        f"Message-ID: <{kind}@mx.example>",
        "MIME-Version: 1.0",
        f'Content-Type: multipart/report; report-type={report_type}; boundary="b"',
        "",
        "--b",
        "Content-Type: text/plain",
        "",
        "A report.",
        "--b",
        f"Content-Type: message/{kind}",
        "",
        fields,
        "--b",
        "Content-Type: message/rfc822",
        "",
        f"From: {NORA}",
        f"To: {LOST}",
        f"Message-ID: {message_id}",
        "Subject: returns",
        "",
        "x",
        "--b--",
        "",
    ]
    return "\r\n".join(lines).encode()
