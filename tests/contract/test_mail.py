"""What every backend of `Mail` promises, whatever stands behind it. A backend is added to `BACKENDS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engines import url_of
from hostedkit import Trouble, hosted_over, remote_office
from postroom.config import Config
from postroom.errors import Forbidden, Invalid, NotFound
from postroom.model.event import RECEIVED, Event
from postroom.model.mail import AttachmentData, DraftFields, NewInbox
from postroom.model.paging import MailFilter, Page, PageRequest
from postroom.model.ports import Mail
from postroom.model.principal import Kind, Principal
from postroom.office.intake import Envelope
from postroom.office.office import Office
from postroom.store.engine import Store

OWNER = Principal(kind=Kind.OWNER)
AGENT = Principal(kind=Kind.AGENT, agent_id="agt_ada", name="ada")
OTHER = Principal(kind=Kind.AGENT, agent_id="agt_eve", name="eve")
ALL, FIRST = MailFilter(), PageRequest()


@dataclass
class Backend:
    """A `Mail`, a way for mail from outside to arrive in it, and what its house is told of that."""

    mail: Mail
    arrive: Callable[[str, bytes], Awaitable[None]]
    told: Callable[[int], Awaitable[Sequence[Event]]]


@asynccontextmanager
async def _office(where: Any, engine: str = "sqlite") -> AsyncIterator[Backend]:
    with url_of(engine) as url:
        async with _office_at(where, url) as backend:
            yield backend


@asynccontextmanager
async def _office_at(where: Any, url: str) -> AsyncIterator[Backend]:
    store = await Store.open(where, url=url)
    office = await Office.open(store, Config())

    async def arrive(to: str, raw: bytes) -> None:
        await office.intake.accept(Envelope(mail_from="bob@example.com", rcpt_to=(to,)), raw)
        while await office.ingest.step():
            pass

    async def told(count: int) -> Sequence[Event]:
        return await store.events.after(0, kinds=[RECEIVED])

    yield Backend(office.mail, arrive, told)
    await store.close()


@asynccontextmanager
async def _hosted(folder: Path, trouble: Trouble | None = None, engine: str = "sqlite") -> AsyncIterator[Backend]:
    """Another postroom by real HTTP and WebSocket; with `trouble`, a peer in between that gets everything wrong once."""
    with url_of(engine) as url:
        async with (
            remote_office(folder / "there", trouble) as remote,
            hosted_over(folder / "here", remote, database=url) as here,
            here.running(),
        ):

            async def told(count: int) -> Sequence[Event]:
                here.tick.set()
                return await here.told(RECEIVED, count=count)

            yield Backend(here.office.mail, remote.arrive, told)


BACKENDS: dict[str, Callable[[Path], Any]] = {
    "hosted over our own office": _hosted,
    "hosted over our own office, on postgresql": lambda folder: _hosted(folder, engine="postgresql"),
    "hosted over a misbehaving one": lambda folder: _hosted(folder, Trouble()),
    "office on sqlite": _office,
    "office on postgresql": lambda folder: _office(folder, "postgresql"),
    "office in memory": lambda folder: _office(":memory:"),
}


@pytest.fixture(params=BACKENDS)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    async with BACKENDS[request.param](tmp_path) as made:
        yield made


@pytest.fixture
async def inbox(backend: Backend) -> str:
    new = NewInbox(username="ada", display_name="Ada", owner_agent="agt_ada", client_id="ada-1", metadata={"team": "blue"})
    return (await backend.mail.create_inbox(OWNER, new)).inbox_id


def mail(number: int, to: str, *extra: str, text: str = "Good morning.") -> bytes:
    head = [
        "From: Bob <bob@example.com>",
        f"To: {to}",
        f"Subject: Note {number}",
        f"Message-ID: <n{number}@example.com>",
        *extra,
    ]
    return "\r\n".join([*head, "", text, ""]).encode()


async def walk(page_of: Callable[[PageRequest], Awaitable[Page[Any]]], limit: int) -> list[Any]:
    token, rows = None, []
    while True:
        page = await page_of(PageRequest(limit=limit, page_token=token))
        assert len(page.items) <= limit
        rows += page.items
        if (token := page.next_page_token) is None:
            return rows


async def test_an_inbox_is_its_address_and_found_again(backend: Backend, inbox: str) -> None:
    assert inbox == f"ada@{backend.mail.domains[0]}"
    made = await backend.mail.get_inbox(AGENT, inbox)
    assert (made.display_name, made.client_id, dict(made.metadata), made.status) == ("Ada", "ada-1", {"team": "blue"}, "active")
    assert await backend.mail.create_inbox(OWNER, NewInbox(username="else", client_id="ada-1")) == made
    assert [row.inbox_id for row in (await backend.mail.list_inboxes(AGENT, FIRST)).items] == [inbox]


async def test_a_taken_address_answers_already_exists(backend: Backend, inbox: str) -> None:
    with pytest.raises(Forbidden) as taken:
        await backend.mail.create_inbox(OWNER, NewInbox(username="ada"))
    assert taken.value.code == "already_exists"


async def test_arrived_mail_is_listed_without_bodies_and_read_with_them(backend: Backend, inbox: str) -> None:
    raw = mail(1, inbox)
    await backend.arrive(inbox, raw)
    (row,) = (await backend.mail.list_messages(AGENT, inbox, ALL, FIRST)).items
    assert (row.message_id, row.subject, row.from_, row.to) == ("<n1@example.com>", "Note 1", "Bob <bob@example.com>", (inbox,))
    assert set(row.labels) == {"received", "unread"}
    assert (row.text, row.html, row.extracted_text) == (None, None, None)
    full = await backend.mail.get_message(AGENT, inbox, row.message_id)
    assert ((full.text or "").strip(), (full.extracted_text or "").strip()) == ("Good morning.", "Good morning.")
    assert (await backend.mail.get_raw(AGENT, inbox, row.message_id)).content == raw


async def test_arrived_mail_is_an_event_of_its_thread_and_agent_once(backend: Backend, inbox: str) -> None:
    await backend.arrive(inbox, mail(1, inbox))
    await backend.arrive(inbox, mail(2, inbox, "In-Reply-To: <n1@example.com>"))
    told = await backend.told(2)
    thread_id = (await backend.mail.get_message(AGENT, inbox, "<n1@example.com>")).thread_id
    assert [(event.ref, event.inbox_id, event.thread_id, event.agent_id) for event in told] == [
        ("<n1@example.com>", inbox, thread_id, "agt_ada"),
        ("<n2@example.com>", inbox, thread_id, "agt_ada"),
    ]


async def test_conversations_are_threads_oldest_message_first(backend: Backend, inbox: str) -> None:
    await backend.arrive(inbox, mail(1, inbox))
    await backend.arrive(inbox, mail(2, inbox, "In-Reply-To: <n1@example.com>", "References: <n1@example.com>"))
    await backend.arrive(inbox, mail(3, inbox))
    threads = (await backend.mail.list_threads(AGENT, inbox, ALL, FIRST)).items
    assert [(thread.message_count, thread.last_message_id) for thread in threads] == [
        (1, "<n3@example.com>"),
        (2, "<n2@example.com>"),
    ]
    thread = await backend.mail.get_thread(AGENT, inbox, threads[1].thread_id)
    assert [message.message_id for message in thread.messages or ()] == ["<n1@example.com>", "<n2@example.com>"]
    assert (await backend.mail.get_thread(AGENT, None, threads[1].thread_id)).thread_id == threads[1].thread_id


async def test_every_list_pages_to_its_end(backend: Backend, inbox: str) -> None:
    for number in range(5):
        await backend.arrive(inbox, mail(number, inbox))
        await backend.mail.create_draft(AGENT, inbox, DraftFields(text=str(number)))
    newest_first = [f"<n{number}@example.com>" for number in (4, 3, 2, 1, 0)]
    messages = await walk(lambda page: backend.mail.list_messages(AGENT, inbox, ALL, page), 2)
    assert [row.message_id for row in messages] == newest_first
    threads = await walk(lambda page: backend.mail.list_threads(AGENT, None, ALL, page), 2)
    assert [row.last_message_id for row in threads] == newest_first
    found = await walk(lambda page: backend.mail.search_threads(AGENT, inbox, "morning", page, ALL), 2)
    assert {row.last_message_id for row in found} == set(newest_first)
    drafts = await walk(lambda page: backend.mail.list_drafts(AGENT, inbox, ALL, page), 2)
    assert [row.preview for row in drafts] == ["4", "3", "2", "1", "0"]


async def test_a_page_token_that_is_not_ours_is_invalid(backend: Backend, inbox: str) -> None:
    for junk in ("junk", "AAAA", "%%%"):
        with pytest.raises(Invalid):
            await backend.mail.list_messages(AGENT, inbox, ALL, PageRequest(page_token=junk))


async def test_labels_are_added_removed_and_filtered_by(backend: Backend, inbox: str) -> None:
    for number in (1, 2):
        await backend.arrive(inbox, mail(number, inbox))
    labels = await backend.mail.update_message(AGENT, inbox, "<n1@example.com>", ["Todo"], ["unread"])
    assert set(labels) == {"received", "todo"}
    (row,) = (await backend.mail.list_messages(AGENT, inbox, MailFilter(labels=("todo",)), FIRST)).items
    assert row.message_id == "<n1@example.com>"
    (thread,) = (await backend.mail.list_threads(AGENT, inbox, MailFilter(labels=("todo",)), FIRST)).items
    assert set(await backend.mail.update_thread(AGENT, inbox, thread.thread_id, ["done"], ["todo"])) == {"received", "done"}
    with pytest.raises(Invalid):
        await backend.mail.update_message(AGENT, inbox, "<n1@example.com>", ["sent"], [])


async def test_filters_narrow_a_list(backend: Backend, inbox: str) -> None:
    for number in (1, 2):
        await backend.arrive(inbox, mail(number, inbox))
    for narrowed, expected in (
        (MailFilter(subject=("note 2",)), ["<n2@example.com>"]),
        (MailFilter(senders=("BOB",)), ["<n2@example.com>", "<n1@example.com>"]),
        (MailFilter(recipients=("nobody",)), []),
        (MailFilter(labels=("sent",)), []),
    ):
        rows = (await backend.mail.list_messages(AGENT, inbox, narrowed, FIRST)).items
        assert [row.message_id for row in rows] == expected


async def test_drafts_are_made_changed_and_read_with_their_attachments(backend: Backend, inbox: str) -> None:
    file = AttachmentData(content=b"%PDF", filename="a.pdf", content_type="application/pdf")
    fields = DraftFields(to=("bob@example.com",), subject="Hi", text="x", labels=("offer",), attachments=(file,), client_id="d-1")
    made = await backend.mail.create_draft(AGENT, inbox, fields)
    assert (await backend.mail.create_draft(AGENT, inbox, DraftFields(client_id="d-1"))).draft_id == made.draft_id
    changed = await backend.mail.update_draft(AGENT, inbox, made.draft_id, {"subject": None, "text": "y"})
    assert (changed.fields.to, changed.fields.subject, changed.fields.text) == (("bob@example.com",), None, "y")
    got = await backend.mail.get_draft(AGENT, None, made.draft_id)
    assert [(entry.filename, entry.content) for entry in got.fields.attachments] == [("a.pdf", b"%PDF")]
    assert {"offer", "draft"} <= set(got.fields.labels)


async def test_a_reply_draft_is_addressed_to_the_sender(backend: Backend, inbox: str) -> None:
    await backend.arrive(inbox, mail(1, inbox))
    draft = await backend.mail.create_draft(AGENT, inbox, DraftFields(in_reply_to="<n1@example.com>", text="ok"))
    assert (draft.fields.to, draft.fields.subject) == (("Bob <bob@example.com>",), "Re: Note 1")
    assert draft.references == ("<n1@example.com>",)


async def test_what_does_not_exist_and_what_is_not_the_callers_are_the_same_not_found(backend: Backend, inbox: str) -> None:
    await backend.arrive(inbox, mail(1, inbox))
    draft = await backend.mail.create_draft(AGENT, inbox, DraftFields(text="x"))
    thread_id = (await backend.mail.get_message(AGENT, inbox, "<n1@example.com>")).thread_id
    unknown = "00000000-0000-4000-8000-000000000000"
    for refused in (
        backend.mail.get_inbox(OTHER, inbox),
        backend.mail.get_message(OTHER, inbox, "<n1@example.com>"),
        backend.mail.get_thread(OTHER, None, thread_id),
        backend.mail.get_draft(OTHER, None, draft.draft_id),
        backend.mail.list_messages(OTHER, inbox, ALL, FIRST),
        backend.mail.get_inbox(AGENT, f"nobody@{backend.mail.domains[0]}"),
        backend.mail.get_message(AGENT, inbox, "<none@example.com>"),
        backend.mail.get_thread(AGENT, None, unknown),
        backend.mail.get_draft(AGENT, None, unknown),
        backend.mail.get_attachment(AGENT, inbox, "<n1@example.com>", unknown),
    ):
        with pytest.raises(NotFound):
            await refused


async def test_the_send_lists_of_a_fresh_inbox_are_empty(backend: Backend, inbox: str) -> None:
    assert await backend.mail.send_list(OWNER, inbox, "allow") == ()
    assert await backend.mail.send_list(OWNER, inbox, "block") == ()
