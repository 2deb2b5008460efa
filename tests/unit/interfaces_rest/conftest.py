"""The `/v0` application over a shelf of canned mail and a gate that answers as told."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from postroom.errors import Invalid, NotFound
from postroom.interfaces.rest.app import v0_app
from postroom.model.mail import Attachment, AttachmentData, Blob, Draft, DraftFields, Inbox, Message, NewInbox, Thread
from postroom.model.outgoing import State, Submission
from postroom.model.paging import MailFilter, Page, PageRequest
from postroom.model.principal import DEFAULT_POD, Kind, Principal
from postroom.model.request import SendRequest

NOW = 1_767_225_600_123_000  # 2026-01-01T00:00:00.123Z
INBOX = "nora@postroom.localhost"
THREAD = "6f0c9a4e-0000-4000-8000-00000000000a"
ATTACHMENT = "6f0c9a4e-0000-4000-8000-0000000000aa"
OWNER = Principal(kind=Kind.OWNER)


def message(message_id: str = "<a1@example.org>", **fields: Any) -> Message:
    values: dict[str, Any] = {
        "inbox_id": INBOX,
        "thread_id": THREAD,
        "message_id": message_id,
        "labels": ("received", "unread"),
        "timestamp": NOW,
        "from_": "Ada <ada@example.org>",
        "to": (INBOX,),
        "size": 42,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Message(**(values | fields))


def thread(**fields: Any) -> Thread:
    values: dict[str, Any] = {
        "inbox_id": INBOX,
        "thread_id": THREAD,
        "labels": ("received",),
        "timestamp": NOW,
        "senders": ("ada@example.org",),
        "recipients": (INBOX,),
        "last_message_id": "<a1@example.org>",
        "message_count": 1,
        "size": 42,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Thread(**(values | fields))


class Shelf:
    """Canned mail; remembers the arguments of the last call of each verb."""

    domains = ("postroom.localhost",)

    def __init__(self) -> None:
        self.messages = {"<a1@example.org>": message()}
        self.seen: dict[str, Any] = {}
        self.failure: Exception | None = None

    def _note(self, verb: str, *arguments: Any) -> None:
        self.seen[verb] = arguments
        if self.failure is not None:
            raise self.failure

    async def list_inboxes(self, principal: Principal, page: PageRequest) -> Page[Inbox]:
        self._note("list_inboxes", page)
        page.size()
        return Page(items=(Inbox(inbox_id=INBOX, pod_id=DEFAULT_POD, created_at=NOW, updated_at=NOW),))

    async def create_inbox(self, principal: Principal, new: NewInbox) -> Inbox:
        self._note("create_inbox", new)
        name = new.username or "random"
        return Inbox(inbox_id=f"{name}@postroom.localhost", pod_id=DEFAULT_POD, created_at=NOW, updated_at=NOW)

    async def get_inbox(self, principal: Principal, inbox_id: str) -> Inbox:
        self._note("get_inbox", inbox_id)
        return Inbox(inbox_id=inbox_id, pod_id=DEFAULT_POD, created_at=NOW, updated_at=NOW)

    async def list_messages(self, principal: Principal, inbox_id: str, filter: MailFilter, page: PageRequest) -> Page[Message]:
        self._note("list_messages", inbox_id, filter, page)
        return Page(items=tuple(self.messages.values()), next_page_token="more")

    async def get_message(self, principal: Principal, inbox_id: str, message_id: str) -> Message:
        self._note("get_message", inbox_id, message_id)
        if message_id not in self.messages:
            raise NotFound("Message not found")
        return self.messages[message_id]

    async def get_raw(self, principal: Principal, inbox_id: str, message_id: str) -> Blob:
        self._note("get_raw", inbox_id, message_id)
        return Blob(content=b"From: a\r\n\r\nx")

    async def get_attachment(
        self, principal: Principal, inbox_id: str, message_id: str, attachment_id: str
    ) -> tuple[Attachment, Blob]:
        self._note("get_attachment", inbox_id, message_id, attachment_id)
        return Attachment(attachment_id=attachment_id, size=3, filename="a.txt"), Blob(content=b"abc")

    async def update_message(
        self, principal: Principal, inbox_id: str, message_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        self._note("update_message", inbox_id, message_id, add, remove)
        return ("received", *add)

    async def list_threads(self, principal: Principal, inbox_id: Any, filter: MailFilter, page: PageRequest) -> Page[Thread]:
        self._note("list_threads", inbox_id, filter, page)
        return Page(items=(thread(),))

    async def search_threads(
        self, principal: Principal, inbox_id: Any, query: str, page: PageRequest, filter: MailFilter
    ) -> Page[Thread]:
        self._note("search_threads", inbox_id, query, page, filter)
        return Page(items=(thread(highlights={"subject": ("**hi**",)}),))

    async def get_thread(self, principal: Principal, inbox_id: Any, thread_id: str, page: Any = None) -> Thread:
        self._note("get_thread", inbox_id, thread_id, page)
        part = Attachment(attachment_id=ATTACHMENT, size=3)
        return thread(messages=(message(attachments=(part,)),), attachments=(part,))

    async def update_thread(
        self, principal: Principal, inbox_id: Any, thread_id: str, add: Sequence[str], remove: Sequence[str]
    ) -> tuple[str, ...]:
        self._note("update_thread", inbox_id, thread_id, add, remove)
        return tuple(add)

    async def create_draft(self, principal: Principal, inbox_id: str, fields: DraftFields) -> Draft:
        self._note("create_draft", inbox_id, fields)
        return self._draft(fields)

    async def get_draft(self, principal: Principal, inbox_id: Any, draft_id: str) -> Draft:
        self._note("get_draft", inbox_id, draft_id)
        return self._draft(DraftFields(to=("ada@example.org",), attachments=(AttachmentData(content=b"abc"),)))

    async def update_draft(self, principal: Principal, inbox_id: str, draft_id: str, changes: Any) -> Draft:
        self._note("update_draft", inbox_id, draft_id, changes)
        return self._draft(DraftFields())

    async def list_drafts(self, principal: Principal, inbox_id: Any, filter: MailFilter, page: PageRequest) -> Page[Draft]:
        self._note("list_drafts", inbox_id, filter, page)
        return Page(items=(self._draft(DraftFields()),))

    def _draft(self, fields: DraftFields) -> Draft:
        part = Attachment(attachment_id=ATTACHMENT, size=3)
        return Draft(inbox_id=INBOX, draft_id=THREAD, fields=fields, author="owner", attachments=(part,), created_at=NOW)


class Counter:
    """A gate that answers `outcome` and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[SendRequest, str | None]] = []
        self.outcome = Submission(outgoing_id="out_1", state=State.SENT, message_id="<s1@x>", thread_id=THREAD)

    async def submit(self, principal: Principal, request: SendRequest, key: str | None = None) -> Submission:
        if request.text == "broken":
            raise Invalid("the gate says no")
        self.asked.append((request, key))
        return self.outcome


class Links:
    def url(self, base: str, path: str) -> tuple[str, int]:
        return f"{base}dl/{path}", NOW


class Clock:
    def now_us(self) -> int:
        return NOW


class Authenticated:
    """Stands for the HTTP surface: names the principal, when there is one."""

    def __init__(self, app: Any, principal: Principal | None) -> None:
        self.app, self.principal = app, principal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        state = {"principal": self.principal} if self.principal else {}
        await self.app({**scope, "state": state}, receive, send)


@functools.cache
def application() -> FastAPI:
    """Built once: making the routes costs more than a test. Each test puts its own door into it."""
    shelf = Shelf()
    return v0_app(mail=shelf, gate=Counter(), access=None, signer=Links(), clock=Clock(), domains=shelf.domains)


def mounted(shelf: Shelf, gate: Counter, principal: Principal | None = OWNER) -> httpx.AsyncClient:
    app = application()
    app.state.door = dataclasses.replace(app.state.door, mail=shelf, gate=gate)
    surface = Authenticated(Starlette(routes=[Mount("/v0", app)]), principal)
    transport = httpx.ASGITransport(app=surface, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://house/v0/")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def gate() -> Counter:
    return Counter()


@pytest.fixture
async def client(shelf: Shelf, gate: Counter) -> AsyncIterator[httpx.AsyncClient]:
    async with mounted(shelf, gate) as opened:
        yield opened


@pytest.fixture
async def unauthenticated(shelf: Shelf, gate: Counter) -> AsyncIterator[httpx.AsyncClient]:
    async with mounted(shelf, gate, None) as opened:
        yield opened
