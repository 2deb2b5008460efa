"""The official AgentMail Python SDK against `postroom serve`, changed in nothing but its base URL.

The SDK does not check what it receives. Here every answer is validated against the SDK's own model
of it, required fields and all, and against what the contract says of its wire form.
"""

import base64
import re
import smtplib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import Any

import httpx
import pydantic
import pytest
from agentmail import AgentMail, AgentMailEnvironment
from agentmail.core.api_error import ApiError
from agentmail.errors import ConflictError, NotFoundError, ValidationError
from agentmail.inboxes.types import CreateInboxRequest
from agentmail.messages.errors import MessageRejectedError

from engines import ENGINES, settings, url_of
from pace import PATIENCE_S
from served import Served, eventually, serving

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
POD = "00000000-0000-4000-8000-000000000001"


class Strict:
    """An SDK client, and a check of what it was answered last."""

    def __init__(self, served: Served, token: str) -> None:
        self.last: httpx.Response | None = None
        self.http = httpx.Client(event_hooks={"response": [self._keep]}, timeout=PATIENCE_S)
        environment = AgentMailEnvironment(http=served.url, websockets=served.url.replace("http", "ws"))
        self.mail = AgentMail(environment=environment, api_key=token, httpx_client=self.http)

    def _keep(self, response: httpx.Response) -> None:
        response.read()
        self.last = response

    def __call__(self, answer: Any) -> Any:
        """The answer, if the raw JSON it was made of is complete and well-formed."""
        assert self.last is not None
        raw = self.last.json()
        assert isinstance(answer, pydantic.BaseModel), answer
        type(answer).model_validate(raw)
        well_formed(raw)
        return answer


def well_formed(raw: Any, name: str = "") -> None:
    """No nulls, no empty optional fields, moments in UTC with milliseconds."""
    if isinstance(raw, dict):
        for key, value in raw.items():
            assert value is not None, key
            assert value != [] or key in REQUIRED_LISTS, key
            well_formed(value, key)
    elif isinstance(raw, list):
        for value in raw:
            well_formed(value, name)
    elif name == "timestamp" or name.endswith(("_at", "_timestamp")):
        assert MOMENT.fullmatch(raw), (name, raw)


REQUIRED_LISTS = {"labels", "to", "senders", "recipients", "messages", "inboxes", "threads", "drafts", "entries"}
REQUIRED_LISTS |= {"api_keys", "events", "pods", "errors", "domains", "records"}


@pytest.fixture(scope="module", params=ENGINES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with url_of(request.param) as url, serving(tmp_path_factory.mktemp("house"), settings(url)) as running:
        yield running


@pytest.fixture(scope="module")
def connect(served: Served) -> Iterator[Callable[[str], Strict]]:
    """Makes an SDK client for a token; all are closed at the end."""
    made: list[Strict] = []

    def new(token: str) -> Strict:
        made.append(Strict(served, token))
        return made[-1]

    yield new
    for strict in made:
        strict.http.close()


@pytest.fixture(scope="module")
def owner(served: Served, connect: Callable[[str], Strict]) -> Strict:
    return connect(served.owner)


@pytest.fixture(scope="module")
def agent(served: Served, connect: Callable[[str], Strict]) -> Strict:
    return connect(served.agent("scout"))


@pytest.fixture(scope="module")
def nora(owner: Strict) -> str:
    return inbox(owner, "nora")


@pytest.fixture(scope="module")
def omar(owner: Strict) -> str:
    return inbox(owner, "omar")


def inbox(owner: Strict, username: str) -> str:
    made = owner(owner.mail.inboxes.create(request=CreateInboxRequest(username=username)))
    return str(made.inbox_id)


def arrived(client: Strict, inbox_id: str, subject: str) -> Any:
    """The message with that subject, once it has come."""

    def look() -> Any:
        found = client(client.mail.inboxes.messages.list(inbox_id, subject=[subject], labels=["received"]))
        return found.messages[0] if found.messages else None

    return eventually(look)


def post(served: Served, to: str, subject: str, message_id: str, **headers: str) -> None:
    """A mail from outside, by SMTP."""
    mail = EmailMessage()
    mail["From"] = "Ada <ada@customer.example>"
    mail["To"] = to
    mail["Subject"] = subject
    mail["Message-ID"] = message_id
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content("Is Tuesday possible?\n")
    mail.add_attachment(b"agenda: one\n", maintype="text", subtype="plain", filename="agenda.txt")
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as smtp:
        smtp.send_message(mail, "ada@customer.example", [to])


def test_inboxes_are_made_once_per_client_id_listed_and_changed(owner: Strict) -> None:
    inboxes = owner.mail.inboxes
    wish = CreateInboxRequest(
        username="ines", display_name="Ines", client_id="ines-1", metadata={"team": "ops", "rank": 2, "on": True}
    )
    made = owner(inboxes.create(request=wish))
    assert (made.email, made.pod_id, made.status, made.metadata) == (
        "ines@postroom.localhost",
        POD,
        "active",
        {"team": "ops", "rank": 2, "on": True},
    )
    assert owner(inboxes.create(request=wish)).inbox_id == made.inbox_id
    assert owner(inboxes.get(made.inbox_id)) == made
    changed = owner(inboxes.update(made.inbox_id, display_name="Ines B", metadata={"rank": None, "floor": 3}))
    assert (changed.display_name, changed.metadata) == ("Ines B", {"team": "ops", "on": True, "floor": 3})
    found = owner(inboxes.search(q="ines"))
    assert [row.inbox_id for row in found.inboxes] == [made.inbox_id]


def test_an_inbox_may_be_made_without_a_body(owner: Strict) -> None:
    made = owner(owner.mail.inboxes.create())
    assert owner.last.request.content == b""
    assert made.inbox_id.endswith("@postroom.localhost")


def test_inboxes_come_in_pages_that_follow_each_other(owner: Strict) -> None:
    for number in range(3):
        inbox(owner, f"page{number}")
    first = owner(owner.mail.inboxes.list(limit=2))
    assert (first.count, first.limit) == (2, 2)
    second = owner(owner.mail.inboxes.list(limit=2, page_token=first.next_page_token))
    names = [row.inbox_id for row in (*first.inboxes, *second.inboxes)]
    assert len(set(names)) == 4
    assert owner(owner.mail.inboxes.list()).limit is None
    with pytest.raises(ApiError) as caught:
        owner.mail.inboxes.list(page_token="junk")
    assert (caught.value.status_code, caught.value.body["code"]) == (400, "validation_error")


def test_a_name_that_is_taken_is_refused_with_suggestions(owner: Strict, nora: str) -> None:
    with pytest.raises(ApiError) as caught:
        owner.mail.inboxes.create(request=CreateInboxRequest(username="nora"))
    assert (caught.value.status_code, caught.value.body["code"]) == (403, "already_exists")
    assert len(caught.value.body["suggestions"]) == 3


def test_what_is_not_there_is_a_not_found_error(owner: Strict) -> None:
    with pytest.raises(NotFoundError) as caught:
        owner.mail.inboxes.get("nobody@postroom.localhost")
    assert (caught.value.body.name, caught.value.body.code) == ("NotFoundError", "not_found")


def test_a_wrong_field_is_a_validation_error_with_its_path(owner: Strict) -> None:
    with pytest.raises(ValidationError) as caught:
        owner.mail.inboxes.create(request=CreateInboxRequest(client_id="not@allowed"))
    assert caught.value.body.errors[0]["path"] == ["client_id"]


def test_without_a_good_key_nothing_is_answered(served: Served, connect: Callable[[str], Strict]) -> None:
    assert httpx.get(f"{served.url}/v0/inboxes", timeout=PATIENCE_S).json()["code"] == "missing_authorization"
    for token, code in (("am_nope", "unknown_api_key"), ("nope", "invalid_token_type")):
        with pytest.raises(ApiError) as caught:
            connect(token).mail.inboxes.list()
        assert (caught.value.status_code, caught.value.body["code"]) == (401, code)


def test_a_conversation_between_two_inboxes(owner: Strict, nora: str, omar: str) -> None:
    messages = owner.mail.inboxes.messages
    sent = owner(messages.send(nora, to=omar, subject="Lunch", text="At noon?", html="<p>At <b>noon</b>?</p>", labels=["Social"]))
    mine = owner(messages.get(nora, sent.message_id))
    assert (mine.thread_id, mine.from_, mine.to, mine.subject) == (sent.thread_id, mine.from_, [omar], "Lunch")
    assert set(mine.labels) >= {"sent", "social"}
    theirs = arrived(owner, omar, "Lunch")
    assert theirs.thread_id != sent.thread_id
    assert set(theirs.labels) == {"received", "unread"}
    whole = owner(messages.get(omar, theirs.message_id))
    assert (whole.text.strip(), whole.extracted_text.strip()) == ("At noon?", "At noon?")
    answer = owner(messages.reply(omar, theirs.message_id, text="Yes."))
    assert answer.thread_id == theirs.thread_id
    back = arrived(owner, nora, "Re: Lunch")
    assert back.thread_id == sent.thread_id
    whole = owner(messages.get(nora, back.message_id))
    assert (whole.extracted_text.strip(), whole.in_reply_to) == ("Yes.", theirs.message_id)
    thread = owner(owner.mail.inboxes.threads.get(nora, sent.thread_id))
    assert [row.message_id for row in thread.messages] == [sent.message_id, back.message_id]
    assert (thread.count, thread.message_count, thread.last_message_id) == (2, 2, back.message_id)


def test_mail_from_outside_with_its_attachment_and_its_bytes(owner: Strict, served: Served, nora: str) -> None:
    messages = owner.mail.inboxes.messages
    post(served, nora, "Tuesday", "<t1@customer.example>", Cc="Bob <bob@customer.example>")
    row = arrived(owner, nora, "Tuesday")
    assert (row.message_id, row.from_, row.cc) == (
        "<t1@customer.example>",
        "Ada <ada@customer.example>",
        ["Bob <bob@customer.example>"],
    )
    assert (row.preview.strip(), len(row.attachments)) == ("Is Tuesday possible?", 1)
    attachment = owner(messages.get_attachment(nora, row.message_id, row.attachments[0].attachment_id))
    assert (attachment.filename, attachment.size) == ("agenda.txt", 12)
    assert httpx.get(attachment.download_url, timeout=PATIENCE_S).content == b"agenda: one\n"
    again = owner(owner.mail.inboxes.threads.get_attachment(nora, row.thread_id, attachment.attachment_id))
    assert httpx.get(again.download_url, timeout=PATIENCE_S).content == b"agenda: one\n"
    raw = owner(messages.get_raw(nora, row.message_id))
    content = httpx.get(raw.download_url, timeout=PATIENCE_S).content
    assert (len(content), b"Message-ID: <t1@customer.example>\r\n" in content) == (raw.size, True)
    assert raw.expires_at > datetime.now(UTC)
    assert httpx.get(raw.download_url[:-4] + "AAAA", timeout=PATIENCE_S).status_code == 404


@pytest.mark.parametrize("message_id", ["<a/b/c@customer.example>", "<p+q@customer.example>", "<raw@customer.example/raw>"])
def test_an_id_with_odd_characters_reaches_its_message(owner: Strict, served: Served, nora: str, message_id: str) -> None:
    post(served, nora, f"odd {message_id[1:4]}", message_id)
    row = arrived(owner, nora, f"odd {message_id[1:4]}")
    assert owner(owner.mail.inboxes.messages.get(nora, row.message_id)).message_id == row.message_id
    labels = owner(owner.mail.inboxes.messages.update(nora, row.message_id, add_labels="seen", remove_labels=["unread"]))
    assert (labels.message_id, set(labels.labels)) == (row.message_id, {"received", "seen"})
    assert owner(owner.mail.inboxes.messages.get_raw(nora, row.message_id)).message_id == row.message_id


@pytest.mark.parametrize("message_id", ["<q?x=1@customer.example>", "<h#1@customer.example>", "<p%41@customer.example>"])
def test_an_id_that_no_url_carries_is_read_under_another_name(owner: Strict, served: Served, nora: str, message_id: str) -> None:
    post(served, nora, f"unsafe {message_id[1:3]}", message_id)
    row = arrived(owner, nora, f"unsafe {message_id[1:3]}")
    assert owner(owner.mail.inboxes.messages.get(nora, row.message_id)).subject == f"unsafe {message_id[1:3]}"


def test_filters_by_list_word_and_time(owner: Strict, served: Served, nora: str) -> None:
    messages = owner.mail.inboxes.messages
    post(served, nora, "metrics of May", "<f1@customer.example>")
    row = arrived(owner, nora, "metrics of May")
    whole = owner(messages.get(nora, row.message_id))

    def ids(**filters: Any) -> set[str]:
        return {found.message_id for found in owner(messages.list(nora, **filters)).messages}

    assert row.message_id in ids(labels=["unread", "received"])
    assert row.message_id in ids(from_=["ada@customer"])
    assert row.message_id in ids(to=["NORA@"])
    assert row.message_id in ids(subject=["etrics"])
    assert ids(subject=["metrics", "june"]) == set()
    assert row.message_id in ids(after=whole.timestamp - timedelta(milliseconds=1))
    assert row.message_id not in ids(before=whole.timestamp)
    with pytest.raises(ApiError) as caught:
        messages.list(nora, subject=["x"], limit=101)
    assert caught.value.status_code == 400


def test_messages_in_batches(owner: Strict, served: Served, nora: str) -> None:
    messages = owner.mail.inboxes.messages
    for number in range(2):
        post(served, nora, f"batch {number}", f"<batch{number}@customer.example>")
    ids = [arrived(owner, nora, f"batch {number}").message_id for number in range(2)]
    found = owner(messages.batch_get(nora, message_ids=[ids[1], "<none@x>", ids[0]]))
    assert (found.limit, found.count, [row.message_id for row in found.messages]) == (3, 2, [ids[1], ids[0]])
    changed = owner(messages.batch_update(nora, message_ids=ids, add_labels=["done"], remove_labels="unread"))
    assert [(row.message_id, set(row.labels)) for row in changed.updates] == [(name, {"received", "done"}) for name in ids]
    with pytest.raises(ValidationError):
        messages.batch_get(nora, message_ids=[ids[0], ids[0]])


def test_system_labels_are_the_servers(owner: Strict, nora: str, omar: str) -> None:
    messages = owner.mail.inboxes.messages
    sent = owner(messages.send(nora, to=[omar], subject="labels", text="x"))
    with pytest.raises(ValidationError) as caught:
        messages.update(nora, sent.message_id, add_labels=["received"])
    assert caught.value.body.message == "Cannot use system label: received"
    with pytest.raises(ValidationError):
        messages.send(nora, to=[omar], subject="labels", text="x", labels=["sent"])


def test_threads_of_an_inbox_and_of_all(owner: Strict, served: Served, nora: str) -> None:
    post(served, nora, "thread one", "<th1@customer.example>")
    row = arrived(owner, nora, "thread one")
    listed = owner(owner.mail.inboxes.threads.list(nora, senders=["ada"], subject=["thread one"]))
    assert [thread.thread_id for thread in listed.threads] == [row.thread_id]
    assert row.thread_id in [thread.thread_id for thread in owner(owner.mail.threads.list(limit=100)).threads]
    assert row.thread_id in [thread.thread_id for thread in owner(owner.mail.pods.threads.list(POD, limit=100)).threads]
    assert owner(owner.mail.threads.get(row.thread_id)).messages[0].message_id == row.message_id
    labels = owner(owner.mail.inboxes.threads.update(nora, row.thread_id, add_labels=["urgent"], remove_labels=["unread"]))
    assert set(labels.labels) == {"received", "urgent"}
    found = owner(owner.mail.inboxes.threads.search(nora, q="possible"))
    assert row.thread_id in [thread.thread_id for thread in found.threads]
    with pytest.raises(ApiError) as caught:
        owner.mail.threads.get("not-a-uuid")
    assert caught.value.status_code == 400


def test_a_thread_only_we_wrote_in_is_found_by_its_label(owner: Strict, nora: str, omar: str) -> None:
    sent = owner(owner.mail.inboxes.messages.send(nora, to=omar, subject="unanswered", text="?"))

    def threads(**filters: Any) -> list[str]:
        return [row.thread_id for row in owner(owner.mail.inboxes.threads.list(nora, subject=["unanswered"], **filters)).threads]

    assert (threads(), threads(labels=["sent"])) == ([], [sent.thread_id])


def test_search_finds_words_and_shows_where(owner: Strict, served: Served, nora: str) -> None:
    messages = owner.mail.inboxes.messages
    post(served, nora, "the heliotrope report", "<s1@customer.example>")
    row = arrived(owner, nora, "heliotrope")
    found = owner(messages.search(nora, q="heliotrope"))
    assert [hit.message_id for hit in found.messages] == [row.message_id]
    assert "**heliotrope**" in found.messages[0].highlights.subject[0]


def test_a_deleted_message_is_gone_from_search_too(owner: Strict, served: Served, nora: str) -> None:
    messages = owner.mail.inboxes.messages
    post(served, nora, "the amaranth report", "<s2@customer.example>")
    row = arrived(owner, nora, "amaranth")
    assert messages.delete(nora, row.message_id) is None
    assert (owner.last.status_code, owner.last.content) == (204, b"")
    assert owner(messages.search(nora, q="amaranth")).count == 0
    with pytest.raises(NotFoundError):
        messages.get(nora, row.message_id)


def test_a_thread_is_deleted_with_all_its_messages(owner: Strict, served: Served, nora: str) -> None:
    post(served, nora, "to be gone", "<gone@customer.example>")
    row = arrived(owner, nora, "to be gone")
    assert owner.mail.inboxes.threads.delete(nora, row.thread_id) is None
    with pytest.raises(NotFoundError):
        owner.mail.inboxes.threads.get(nora, row.thread_id)
    with pytest.raises(NotFoundError):
        owner.mail.inboxes.messages.get(nora, row.message_id)


def test_a_draft_from_first_words_to_sent(owner: Strict, nora: str, omar: str) -> None:
    drafts = owner.mail.inboxes.drafts
    file = {"filename": "a.txt", "content": base64.b64encode(b"abc").decode()}
    made = owner(drafts.create(nora, to=[omar], subject="draft one", text="v1", client_id="d-1", attachments=[file]))
    assert owner(drafts.create(nora, to=[omar], subject="other", client_id="d-1")).draft_id == made.draft_id
    assert (made.client_id, made.subject, made.text, "draft" in made.labels) == ("d-1", "draft one", "v1", True)
    changed = owner(drafts.update(nora, made.draft_id, text="v2", cc=[nora]))
    assert (changed.subject, changed.text, changed.cc) == ("draft one", "v2", [nora])
    cleared = owner.http.patch(
        f"{owner.last.request.url}", json={"cc": None}, headers={"Authorization": owner.last.request.headers["Authorization"]}
    ).json()
    assert "cc" not in cleared
    part = owner(drafts.get_attachment(nora, made.draft_id, made.attachments[0].attachment_id))
    assert httpx.get(part.download_url, timeout=PATIENCE_S).content == b"abc"
    assert made.draft_id in [row.draft_id for row in owner(drafts.list(nora)).drafts]
    assert made.draft_id in [row.draft_id for row in owner(owner.mail.drafts.list()).drafts]
    assert owner(owner.mail.drafts.get(made.draft_id)).text == "v2"
    sent = owner(drafts.send(nora, made.draft_id))
    assert arrived(owner, omar, "draft one").preview.strip() == "v2"
    assert owner(owner.mail.inboxes.messages.get(nora, sent.message_id)).text.strip() == "v2"
    with pytest.raises(NotFoundError):
        drafts.get(nora, made.draft_id)


def test_a_draft_can_be_scheduled_unscheduled_and_thrown_away(owner: Strict, nora: str, omar: str) -> None:
    drafts = owner.mail.inboxes.drafts
    later = datetime.now(UTC) + timedelta(days=1)
    made = owner(drafts.create(nora, to=[omar], subject="later", text="x", send_at=later))
    assert (made.send_status, "scheduled" in made.labels) == ("scheduled", True)
    assert abs((made.send_at - later).total_seconds()) < 0.01
    assert made.draft_id in [row.draft_id for row in owner(drafts.list(nora, labels=["scheduled"])).drafts]
    assert drafts.delete(nora, made.draft_id) is None
    with pytest.raises(NotFoundError):
        drafts.get(nora, made.draft_id)


def test_a_key_sends_once(owner: Strict, nora: str, omar: str) -> None:
    messages = owner.mail.inboxes.messages
    first = owner(messages.send(nora, to=omar, subject="once", text="x", idempotency_key="k-1"))
    again = owner(messages.send(nora, to=omar, subject="once", text="x", idempotency_key="k-1"))
    assert (again.message_id, again.thread_id) == (first.message_id, first.thread_id)
    with pytest.raises(ConflictError):
        messages.send(nora, to=omar, subject="twice", text="x", idempotency_key="k-1", request_options={"max_retries": 0})
    with pytest.raises(ValidationError):
        messages.send(nora, to=omar, subject="once", text="x", idempotency_key="")
    arrived(owner, omar, "once")
    assert owner(messages.list(omar, subject=["once"])).count == 1


def test_a_send_to_nobody_is_refused(owner: Strict, nora: str) -> None:
    with pytest.raises(ValidationError):
        owner.mail.inboxes.messages.send(nora, subject="to nobody", text="x")


def test_reply_all_and_forward(owner: Strict, served: Served, nora: str, omar: str) -> None:
    messages = owner.mail.inboxes.messages
    sent = owner(messages.send(nora, to=[omar], subject="all of us", text="hi"))
    theirs = arrived(owner, omar, "all of us")
    answer = owner(messages.reply_all(omar, theirs.message_id, text="hello all"))
    assert owner(messages.get(omar, answer.message_id)).to == [owner(messages.get(omar, theirs.message_id)).from_]
    third = inbox(owner, "tess")
    forwarded = owner(messages.forward(omar, theirs.message_id, to=third, text="see below"))
    assert forwarded.thread_id == theirs.thread_id
    copy = arrived(owner, third, "Fwd: all of us")
    assert "see below" in owner(messages.get(third, copy.message_id)).text
    assert sent.message_id != forwarded.message_id


def test_an_agents_send_is_held_and_says_how_to_approve_it(agent: Strict, owner: Strict, served: Served, nora: str) -> None:
    with pytest.raises(MessageRejectedError) as caught:
        agent.mail.inboxes.messages.send("scout@postroom.localhost", to=nora, subject="may I", text="x", idempotency_key="may-i")
    body = caught.value.body
    assert (body.name, body.code) == ("MessageRejectedError", "held_for_approval")
    assert f"postroom held approve {body.approval_id}" in body.fix
    held = [row for row in served.held() if row["outgoing_id"] == body.approval_id]
    assert [row["digest"] for row in held] == [body.digest]
    served.ok("POST", f"/api/outgoing/{body.approval_id}/approve", {"digest": body.digest})
    sent = agent(
        agent.mail.inboxes.messages.send("scout@postroom.localhost", to=nora, subject="may I", text="x", idempotency_key="may-i")
    )
    assert arrived(owner, nora, "may I").message_id == sent.message_id


def test_an_agent_sees_its_own_inbox_and_no_other(agent: Strict, owner: Strict, nora: str) -> None:
    assert [row.inbox_id for row in agent(agent.mail.inboxes.list()).inboxes] == ["scout@postroom.localhost"]
    with pytest.raises(NotFoundError):
        agent.mail.inboxes.get(nora)
    mine = "scout@postroom.localhost"
    for forbidden in (
        agent.mail.inboxes.create,
        agent.mail.api_keys.list,
        lambda: agent.mail.inboxes.lists.create(mine, "send", "allow", entry="a@b.example"),
    ):
        with pytest.raises(ApiError) as caught:
            forbidden()
        assert (caught.value.status_code, caught.value.body["code"]) == (403, "forbidden")


def test_lists_allow_and_block(owner: Strict, nora: str) -> None:
    lists = owner.mail.inboxes.lists
    made = owner(lists.create(nora, "receive", "block", entry="spam.example", reason="noise"))
    assert (made.entry, made.entry_type, made.list_type, made.direction, made.inbox_id) == (
        "spam.example",
        "domain",
        "block",
        "receive",
        nora,
    )
    assert owner(lists.get(nora, "receive", "block", "spam.example")).reason == "noise"
    assert [row.entry for row in owner(lists.list(nora, "receive", "block")).entries] == ["spam.example"]
    with pytest.raises(ApiError) as caught:
        lists.create(nora, "receive", "allow", entry="spam.example", request_options={"max_retries": 0})
    assert (caught.value.status_code, caught.value.body["code"]) == (409, "conflict")
    assert lists.delete(nora, "receive", "block", "spam.example") is None
    with pytest.raises(NotFoundError):
        lists.get(nora, "receive", "block", "spam.example")
    org = owner(owner.mail.lists.create("send", "block", entry="never@x.example"))
    assert (org.entry, org.entry_type) == ("never@x.example", "email")
    assert owner(owner.mail.lists.list("send", "block")).count == 1
    assert owner.mail.lists.delete("send", "block", "never@x.example") is None


def test_a_refused_recipient_is_named(owner: Strict, nora: str, omar: str) -> None:
    lists = owner.mail.inboxes.lists
    owner(lists.create(nora, "send", "block", entry="enemy@x.example"))
    with pytest.raises(MessageRejectedError) as caught:
        owner.mail.inboxes.messages.send(nora, to=[omar, "enemy@x.example"], subject="no", text="x")
    assert (caught.value.body.code, "enemy@x.example" in caught.value.body.message) == ("message_rejected", True)
    assert owner(owner.mail.inboxes.messages.list(omar, subject=["no"])).count == 0
    lists.delete(nora, "send", "block", "enemy@x.example")


def test_label_changes_are_events(owner: Strict, nora: str, omar: str) -> None:
    sent = owner(owner.mail.inboxes.messages.send(nora, to=omar, subject="events", text="x"))
    owner(owner.mail.inboxes.messages.update(nora, sent.message_id, add_labels=["followed"]))
    newest = owner(owner.mail.inboxes.events.list(nora, limit=1)).events[0]
    assert (newest.event_type, newest.label, newest.message_id) == ("label.added", "followed", sent.message_id)


def test_keys_of_the_house_and_of_an_agents_inbox(owner: Strict, agent: Strict, connect: Callable[[str], Strict]) -> None:
    keys = owner.mail.api_keys
    made = owner(keys.create(request={"name": "ci"}))
    assert (made.api_key.startswith("am_"), made.name) == (True, "ci")
    other = connect(made.api_key)
    assert other(other.mail.auth.me()).api_key_id == made.api_key_id
    assert owner(keys.get(made.api_key_id)).type == "bearer"
    assert owner(keys.update(made.api_key_id, name="ci-2")).name == "ci-2"
    assert made.api_key_id in [row.api_key_id for row in owner(keys.list()).api_keys]
    assert keys.delete(made.api_key_id) is None
    with pytest.raises(ApiError) as caught:
        other.mail.inboxes.list()
    assert caught.value.status_code == 401
    scoped = owner(owner.mail.inboxes.api_keys.create("scout@postroom.localhost", request={"name": "scoped"}))
    identity = connect(scoped.api_key)
    assert identity(identity.mail.auth.me()).scope_type == "inbox"
    assert [row.inbox_id for row in identity(identity.mail.inboxes.list()).inboxes] == ["scout@postroom.localhost"]


def test_the_house_as_an_organisation_with_one_pod(owner: Strict, agent: Strict) -> None:
    identity = owner(owner.mail.auth.me())
    assert (identity.scope_type, identity.scope_id) == ("organization", POD)
    assert agent(agent.mail.auth.me()).scope_type == "pod"
    organization = owner(owner.mail.organizations.get())
    assert (organization.organization_id, organization.domain_count, organization.inbox_count > 0) == (POD, 1, True)
    assert [row.pod_id for row in owner(owner.mail.pods.list()).pods] == [POD]
    assert owner(owner.mail.pods.get(POD)).pod_id == POD
    with pytest.raises(ApiError) as caught:
        owner.mail.pods.create(name="second")
    assert (caught.value.status_code, caught.value.body["code"]) == (403, "limit_exceeded")
    made = owner(owner.mail.pods.inboxes.create(POD, username="podded"))
    assert owner(owner.mail.pods.inboxes.get(POD, made.inbox_id)) == made


def test_an_inbox_is_deleted_with_its_mail(owner: Strict, omar: str) -> None:
    gone = inbox(owner, "gone")
    owner(owner.mail.inboxes.messages.send(omar, to=gone, subject="bye", text="x"))
    assert owner.mail.inboxes.delete(gone) is None
    with pytest.raises(NotFoundError):
        owner.mail.inboxes.get(gone)


def test_a_domain_is_added_used_and_verified(owner: Strict, agent: Strict, served: Served) -> None:
    domains = owner.mail.domains
    assert [row.domain for row in owner(domains.list()).domains] == ["postroom.localhost"]
    made = owner(domains.create(domain="agents.test", feedback_enabled=True, inbound_enabled=True, subdomains_enabled=False))
    assert (made.domain_id, made.status, made.records) == ("agents.test", "NOT_STARTED", [])
    here = owner(owner.mail.inboxes.create(request=CreateInboxRequest(username="vera", domain="agents.test")))
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "ada@customer.example", here.inbox_id, "to a new domain"
    mail.set_content("x")
    with smtplib.SMTP(*served.smtp, timeout=PATIENCE_S) as smtp:
        smtp.send_message(mail)
    assert arrived(owner, here.inbox_id, "to a new domain").labels == ["received", "unread"]
    assert domains.verify("agents.test") is None
    assert owner(domains.get("agents.test")).status == "VERIFIED"
    real = owner(domains.create(domain="mail.customer.org"))
    assert [(row.type, row.name, row.status) for row in real.records] == [
        ("MX", "mail.customer.org", "MISSING"),
        ("TXT", "mail.customer.org", "MISSING"),
        ("TXT", "postroom._domainkey.mail.customer.org", "MISSING"),
        ("TXT", "_dmarc.mail.customer.org", "MISSING"),
    ]
    assert b"mail.customer.org. IN MX 10 mx.mail.customer.org." in b"".join(domains.get_zone_file("mail.customer.org"))
    assert owner(domains.get_setup_link("mail.customer.org")).supported is False
    assert owner(domains.update("mail.customer.org", subdomains_enabled=True)).records[1].name == "*.mail.customer.org"
    assert domains.delete("mail.customer.org") is None
    with pytest.raises(NotFoundError):
        domains.get("mail.customer.org")
    with pytest.raises(ApiError) as caught:
        domains.delete("agents.test", request_options={"max_retries": 0})
    assert (caught.value.status_code, caught.value.body["code"]) == (409, "cannot_delete")
    with pytest.raises(ApiError) as caught:
        agent.mail.domains.create(domain="mine.test")
    assert caught.value.status_code == 403


def test_figures_count_what_happened(owner: Strict, agent: Strict, nora: str, omar: str) -> None:
    owner(owner.mail.inboxes.messages.send(nora, to=omar, subject="counted", text="x"))
    arrived(owner, omar, "counted")
    events = owner.mail.metrics.query_events(event_types=["message.sent", "message.received"], period=3600)
    assert {name: sum(point.count for point in points) > 0 for name, points in events.items()} == {
        "message.sent": True,
        "message.received": True,
    }
    each = owner.mail.inboxes.metrics.query_events(nora, event_types=["message.sent"], limit=1, descending=True)
    assert [point.count for point in each["message.sent"]] == [1]
    rates = owner.mail.metrics.query_rates(rate_types=["bounce"])
    assert {(point.rate, point.sent) for point in rates["bounce"]} >= {(None, 0)}
    usage = owner.mail.inboxes.metrics.query_usage(omar, usage_types=["message_count", "inbox_count"])
    assert (len(usage["message_count"]) >= 24, usage["inbox_count"][0].value) == (True, 0)
    assert agent.mail.metrics.query_events(event_types=["message.bounced"]) == {"message.bounced": []}
    with pytest.raises(ValidationError):
        owner.mail.metrics.query_events(event_types=["message.opened"])


def test_what_the_hosted_service_alone_has_is_named(owner: Strict, nora: str) -> None:
    with pytest.raises(ApiError) as caught:
        owner.mail.apps.list()
    assert (caught.value.status_code, caught.value.body["message"]) == (404, "apps: not offered by this server")
