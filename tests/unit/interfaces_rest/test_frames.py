"""Every event type, parsed by the official SDK's own union: each as its own class, and complete."""

import json
from typing import Any

import pytest

from postroom.errors import NotFound
from postroom.interfaces.rest.frames import Frames
from postroom.limits import FRAME_BYTES
from postroom.model import event as kinds
from postroom.model.domain import Domain, DomainFlags
from postroom.model.event import Event
from postroom.model.mail import Attachment, Message, Thread
from postroom.model.principal import Kind, Principal

pytestmark = pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")  # what the SDK imports
NOW = 1_767_225_600_123_000
INBOX, THREAD, ID = "nora@postroom.localhost", "6f0c9a4e-0000-4000-8000-00000000000a", "<a1@example.org>"
POD = "00000000-0000-4000-8000-000000000001"
OWNER = Principal(kind=Kind.OWNER)
DOMAIN = Domain(name="mail.example", pod_id="p", status="VERIFIED", flags=DomainFlags(), created_at=NOW, updated_at=NOW)


class Shelf:
    """One message in one thread; `gone` once it is deleted, `hidden` from this caller."""

    def __init__(self, *, gone: bool = False, hidden: bool = False, **fields: Any) -> None:
        self.gone, self.hidden = gone, hidden
        base: dict[str, Any] = {"inbox_id": INBOX, "thread_id": THREAD, "labels": ("received",), "timestamp": NOW, "size": 42}
        self.message = Message(**(base | {"message_id": ID, "from_": "ada@example.org", "text": "Hello"} | fields))
        people = {"senders": ("ada@example.org",), "recipients": (INBOX,)}
        self.thread = Thread(**base, **people, last_message_id=ID, message_count=1)

    async def get_domain(self, principal: Principal, name: str) -> Domain:
        return DOMAIN

    async def get_inbox(self, principal: Principal, inbox_id: str) -> None:
        if self.hidden:
            raise NotFound("Inbox not found")

    async def get_message(self, principal: Principal, inbox_id: str, message_id: str) -> Message:
        if self.gone or self.hidden:
            raise NotFound("Message not found")
        return self.message

    async def get_thread(self, principal: Principal, inbox_id: str, thread_id: str, page: Any) -> Thread:
        return self.thread


def event(kind: str, **snapshot: Any) -> Event:
    return Event(
        seq=1,
        event_id="evt_1",
        pod_id=POD,
        kind=kind,
        ref=ID,
        at=NOW,
        inbox_id=INBOX,
        thread_id=THREAD,
        snapshot=snapshot,
    )


async def frame(happened: Event, **shelf: Any) -> bytes | None:
    mail: Any = Shelf(**shelf)
    return await Frames(mail).frame(OWNER, happened)


@pytest.mark.parametrize(
    ("happened", "name"),
    [
        (event(kinds.RECEIVED), "MessageReceivedEvent"),
        (event(kinds.RECEIVED_SPAM), "MessageReceivedEvent"),
        (event(kinds.RECEIVED_BLOCKED), "MessageReceivedEvent"),
        (event(kinds.RECEIVED_UNAUTHENTICATED), "MessageReceivedEvent"),
        (event(kinds.SENT, recipients=["a@b.example"]), "MessageSentEvent"),
        (event(kinds.DELIVERED, recipients=["a@b.example"]), "MessageDeliveredEvent"),
        (
            event(
                kinds.BOUNCED, type="Permanent", sub_type="General", recipients=[{"address": "a@b.example", "status": "5.1.1"}]
            ),
            "MessageBouncedEvent",
        ),
        (event(kinds.COMPLAINED, type="abuse", sub_type="", recipients=["a@b.example"]), "MessageComplainedEvent"),
        (event(kinds.REJECTED, reason="policy"), "MessageRejectedEvent"),
        (event(kinds.DOMAIN_VERIFIED), "DomainVerifiedEvent"),
    ],
    ids=lambda value: value.kind if isinstance(value, Event) else "",
)
async def test_each_event_type_is_its_own_class_for_the_sdk(happened: Event, name: str) -> None:
    from agentmail.core.unchecked_base_model import construct_type
    from agentmail.websockets.socket_client import WebsocketsSocketClientResponse

    made = await frame(happened)
    assert made is not None
    raw = json.loads(made)
    parsed: Any = construct_type(type_=WebsocketsSocketClientResponse, object_=raw)
    type(parsed).model_validate(raw)
    assert (type(parsed).__name__, parsed.event_type, parsed.event_id) == (name, happened.kind, "evt_1")


async def test_every_public_kind_has_a_case_above() -> None:
    assert {kind for kind in kinds.PUBLIC if await frame(event(kind)) is None} == set()


@pytest.mark.parametrize(
    ("kind", "shelf"), [(kinds.RECEIVED, {"gone": True}), (kinds.RECEIVED, {"hidden": True}), (kinds.SENT, {"hidden": True})]
)
async def test_what_is_deleted_or_not_the_callers_has_no_frame(kind: str, shelf: dict[str, bool]) -> None:
    assert await frame(event(kind), **shelf) is None


@pytest.mark.parametrize("kind", [kinds.OUTBOX_SENT, kinds.LABEL_ADDED, kinds.OUTGOING_HELD, kinds.DRAFT_DUE])
async def test_our_own_kinds_have_no_frame(kind: str) -> None:
    assert await frame(event(kind, label="x")) is None


async def test_only_an_owner_hears_of_domains() -> None:
    mail: Any = Shelf()
    agent = Principal(kind=Kind.AGENT, agent_id="agt_1")
    assert await Frames(mail).frame(agent, event(kinds.DOMAIN_VERIFIED)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "x" * FRAME_BYTES},
        {"html": "é" * FRAME_BYTES},
        {"extracted_text": "x" * FRAME_BYTES},
        {"headers": {"X-Long": "\u0001" * 200_000}},
        {"attachments": tuple(Attachment(attachment_id=str(n), size=1, filename="f" * 1100) for n in range(1000))},
    ],
)
async def test_a_frame_is_never_larger_than_clients_take(fields: dict[str, Any]) -> None:
    made = await frame(event(kinds.RECEIVED), **fields)
    assert made is not None
    assert len(made) <= FRAME_BYTES
    assert json.loads(made)["message"]["message_id"] == ID


async def test_a_mail_that_fits_keeps_its_bodies() -> None:
    made = await frame(event(kinds.RECEIVED), text="x" * 900_000)
    assert made is not None
    assert len(json.loads(made)["message"]["text"]) == 900_000
