"""Webhooks through the official SDK: a real daemon posts to a real receiver, which checks with the reference verifier."""

import contextlib
import http.server
import json
import queue
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agentmail import AgentMail, AgentMailEnvironment
from agentmail.core.api_error import ApiError
from agentmail.core.unchecked_base_model import construct_type
from agentmail.errors import NotFoundError, ValidationError
from agentmail.webhooks.types import Webhook as SdkWebhook
from agentmail.websockets.types import Subscribe
from standardwebhooks import Webhook

from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from postroom.testing.smtp import SmtpSink
from postroom.testing.threads import ThreadedSink
from served import Served, eventually, serving

pytestmark = pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")  # what the SDK imports

NORA, OMAR = "nora@postroom.localhost", "omar@postroom.localhost"


class Receiver:
    """Answers posts with `answers`, then 200, and keeps what came."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.came: queue.SimpleQueue[tuple[dict[str, str], bytes]] = queue.SimpleQueue()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    status = receiver.answers.get_nowait()
                except queue.Empty:
                    status = 200
                self.send_response(status)
                self.end_headers()
                receiver.came.put((dict(self.headers.items()), body))

            def log_message(self, *arguments: Any) -> None:
                """Not on the terminal."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def forget(self) -> None:
        """What came and was not asked for."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.came.get_nowait()

    def next(self) -> tuple[dict[str, str], bytes]:
        return self.came.get(timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def config(receiver: Receiver) -> str:
    return f'[office]\nwebhook_hosts = ["127.0.0.1:{receiver.port}"]\n'


@pytest.fixture(scope="module", params=ENGINES)
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("house")
    with url_of(request.param) as url, serving(folder, config(receiver) + settings(url)) as running:
        for name in ("nora", "omar"):
            running.ok("POST", "/v0/inboxes", {"username": name})
        running.agent("scout")
        yield running


@pytest.fixture
def served(house: Served, receiver: Receiver) -> Iterator[Served]:
    """The house without the webhooks of the test before."""
    yield house
    for hook in house.ok("GET", "/v0/webhooks")["webhooks"]:
        house.call("DELETE", f"/v0/webhooks/{hook['webhook_id']}")
    receiver.forget()


@contextlib.contextmanager
def client(served: Served, token: str | None = None) -> Iterator[AgentMail]:
    environment = AgentMailEnvironment(http=served.url, websockets=served.url.replace("http", "ws"))
    with httpx.Client(timeout=PATIENCE_S) as connection:
        yield AgentMail(environment=environment, api_key=token or served.owner, httpx_client=connection)


def send(served: Served, subject: str, text: str = "x") -> dict[str, str]:
    sent: dict[str, str] = served.ok("POST", f"/v0/inboxes/{NORA}/messages/send", {"to": OMAR, "subject": subject, "text": text})
    return sent


def test_an_event_is_posted_signed_and_complete(served: Served, receiver: Receiver) -> None:
    with client(served) as mail:
        hook = mail.webhooks.create(url=receiver.url, event_types=["message.received"], headers={"X-Team": "blue"})
    sent = send(served, "by webhook")
    headers, body = receiver.next()
    event = Webhook(hook.secret).verify(body, headers)
    assert (event["type"], event["event_type"], event["message"]["inbox_id"]) == ("event", "message.received", OMAR)
    assert (event["message"]["subject"], event["message"]["text"].strip(), event["thread"]["message_count"]) == (
        "by webhook",
        "x",
        1,
    )
    assert (event["message"]["message_id"], headers["X-Team"]) == (sent["message_id"], "blue")
    from agentmail.events.types.message_received_event import MessageReceivedEvent

    MessageReceivedEvent.model_validate(event)
    assert type(construct_type(type_=MessageReceivedEvent, object_=event)) is MessageReceivedEvent
    rows = eventually(
        lambda: [row for row in served.ok("GET", f"/api/webhooks/{hook.webhook_id}/deliveries")["deliveries"] if "status" in row]
    )
    assert [(row["state"], row["attempts"], row["status"], row["delivery_id"]) for row in rows] == [
        ("delivered", 1, 200, headers["svix-id"])
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mail_the_relay_rejects_is_told_on_socket_and_webhook(tmp_path: Path, receiver: Receiver, engine: str) -> None:
    with url_of(engine) as url, ThreadedSink(SmtpSink(data_reply="554 5.7.1 not this one")) as sink:
        relay = f'[relay]\nhost = "127.0.0.1"\nport = {sink.port}\ntls = "off"\n'
        with serving(tmp_path, config(receiver) + relay + settings(url)) as served, client(served) as mail:
            served.ok("POST", "/v0/inboxes", {"username": "nora"})
            hook = mail.webhooks.create(url=receiver.url, event_types=["message.rejected"])
            with mail.websockets.connect() as socket:
                socket.send_subscribe(Subscribe(type="subscribe", event_types=["message.rejected"]))
                assert socket.recv().type == "subscribed"
                sent = mail.inboxes.messages.send(NORA, to="bob@customer.example", subject="x", text="y")
                heard = socket.recv()
            headers, body = receiver.next()
    event = Webhook(hook.secret).verify(body, headers)
    assert type(heard).__name__ == "MessageRejectedEvent"
    assert (heard.event_id, heard.reject.message_id) == (event["event_id"], sent.message_id)
    assert heard.reject.reason == event["reject"]["reason"] == "the relay refused the mail (554)"
    assert set(event["reject"]) >= {"inbox_id", "thread_id", "message_id", "timestamp", "reason"}


def test_a_failed_delivery_survives_a_crash_and_keeps_its_id(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers.put(500)
    with serving(tmp_path, config(receiver)) as served:
        for name in ("nora", "omar"):
            served.ok("POST", "/v0/inboxes", {"username": name})
        hook = served.ok("POST", "/v0/webhooks", {"url": receiver.url, "event_types": ["message.received"]})
        send(served, "twice")
        first, body = receiver.next()
        served.stop(signal.SIGKILL)
    with serving(tmp_path, config(receiver)) as served:
        again, same = receiver.next()
        Webhook(hook["secret"]).verify(same, again)
        assert (again["svix-id"], json.loads(same)["event_id"]) == (first["svix-id"], json.loads(body)["event_id"])


def test_both_secrets_verify_after_a_rotation(served: Served, receiver: Receiver) -> None:
    hook = served.ok("POST", "/v0/webhooks", {"url": receiver.url, "event_types": ["message.sent"]})
    rotated = served.ok("POST", f"/api/webhooks/{hook['webhook_id']}/rotate")
    send(served, "rotated")
    headers, body = receiver.next()
    for secret in (hook["secret"], rotated["secret"]):
        assert Webhook(secret).verify(body, headers)["event_type"] == "message.sent"
    assert hook["secret"] != rotated["secret"]


def test_the_sdk_makes_lists_changes_and_deletes_webhooks(served: Served, receiver: Receiver) -> None:
    with client(served) as mail:
        made = mail.webhooks.create(
            url=receiver.url, event_types=["message.received", "message.bounced"], inbox_ids=[NORA], client_id="mine"
        )
        SdkWebhook.model_validate(made.model_dump())
        assert (made.webhook_id[:3], made.secret[:6], made.enabled, made.inbox_ids) == ("ep_", "whsec_", True, [NORA])
        again = mail.webhooks.create(url=f"{receiver.url}/other", event_types=["message.sent"], client_id="mine")
        assert (again.webhook_id, again.url) == (made.webhook_id, made.url)
        row = mail.webhooks.list().webhooks[0]
        assert (row.webhook_id, getattr(row, "secret", None)) == (made.webhook_id, None)
        assert mail.webhooks.get(made.webhook_id).secret == made.secret
        changed = mail.webhooks.update(
            made.webhook_id, event_types=["message.sent"], enabled=False, add_inbox_ids=[OMAR], remove_inbox_ids=[NORA]
        )
        assert (changed.event_types, changed.enabled, changed.inbox_ids) == (["message.sent"], False, [OMAR])
        assert mail.webhooks.update_headers(made.webhook_id, headers={"X-A": "1"}) is None
        assert mail.webhooks.get_headers(made.webhook_id).header_names == ["X-A"]
        assert mail.webhooks.delete(made.webhook_id) is None
        with pytest.raises(NotFoundError):
            mail.webhooks.get(made.webhook_id)


def test_an_inbox_has_webhooks_of_its_own(served: Served, receiver: Receiver) -> None:
    with client(served) as mail:
        hooks = mail.inboxes.webhooks
        made = hooks.create(OMAR, url=receiver.url, event_types=["message.received"])
        assert (made.inbox_id, hooks.list(OMAR).count, hooks.list(NORA).count) == (OMAR, 1, 0)
        assert hooks.update(OMAR, made.webhook_id, event_types=["message.received", "message.sent"]).enabled is True
        hooks.update_headers(OMAR, made.webhook_id, headers={"X-B": "2"})
        assert hooks.get_headers(OMAR, made.webhook_id).header_names == ["X-B"]
        with pytest.raises(NotFoundError):
            hooks.get(NORA, made.webhook_id)
        send(served, "for omar")
        headers, body = receiver.next()
        assert Webhook(made.secret).verify(body, headers)["message"]["inbox_id"] == OMAR
        assert hooks.delete(OMAR, made.webhook_id) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "http://127.0.0.1:9/hook"},
        {"url": "https://169.254.169.254/latest"},
        {"url": "https://localhost/hook"},
        {"event_types": []},
        {"event_types": ["nothing.known"]},
        {"headers": {"svix-signature": "v1,x"}},
    ],
)
def test_a_webhook_that_may_not_be_is_a_400(served: Served, receiver: Receiver, fields: dict[str, Any]) -> None:
    with client(served) as mail, pytest.raises(ValidationError) as caught:
        mail.webhooks.create(**({"url": receiver.url, "event_types": ["message.received"]} | fields))
    assert caught.value.body.errors


def test_an_agent_makes_no_webhook_and_sees_none(served: Served, receiver: Receiver) -> None:
    token = served.tokens["scout"]
    with client(served, token) as mail:
        for forbidden in (
            mail.webhooks.list,
            lambda: mail.webhooks.create(url=receiver.url, event_types=["message.received"]),
            lambda: mail.inboxes.webhooks.list("scout@postroom.localhost"),
        ):
            with pytest.raises(ApiError) as caught:
                forbidden()
            assert (caught.value.status_code, caught.value.body["code"]) == (403, "forbidden")
    for method, path in (("GET", "deliveries"), ("POST", "rotate")):
        assert served.call(method, f"/api/webhooks/ep_1/{path}", token=token)[0] == 403


def test_a_redirecting_receiver_is_a_failure_that_is_seen(served: Served, receiver: Receiver) -> None:
    receiver.answers.put(302)
    hook = served.ok("POST", "/v0/webhooks", {"url": receiver.url, "event_types": ["message.sent"]})
    send(served, "moved")
    receiver.next()
    rows = eventually(
        lambda: [
            row for row in served.ok("GET", f"/api/webhooks/{hook['webhook_id']}/deliveries")["deliveries"] if row["attempts"]
        ]
    )
    assert [(row["state"], row["status"], "next_at" in row) for row in rows] == [("queued", 302, True)]
