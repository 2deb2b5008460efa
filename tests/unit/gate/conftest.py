"""A gate over the real store, with mail in dictionaries and a sender that writes down what it is handed."""

import dataclasses
from collections.abc import AsyncIterator

import pytest

import postroom.gate.tables  # noqa: F401 - the tables must be known before the store is opened
from postroom.config import Config
from postroom.config import Gate as GateConfig
from postroom.errors import NotFound
from postroom.gate.gate import Gate
from postroom.model.mail import Attachment, Blob, Draft, DraftFields, Inbox, Message
from postroom.model.outgoing import Accepted, Frozen, Submission
from postroom.model.principal import DEFAULT_POD, Kind, Principal, require_inbox
from postroom.model.request import SendKind, SendRequest
from postroom.safety.redact import Redactor
from postroom.store.engine import Store
from postroom.testing import FakeClock

SCOUT = "scout@postroom.localhost"
OTHER = "other@postroom.localhost"
ADA = "ada@customer.example"
OWNER = Principal(kind=Kind.OWNER)
AGENT = Principal(kind=Kind.AGENT, agent_id="agt_1", name="scout")
RIVAL = Principal(kind=Kind.AGENT, agent_id="agt_2", name="other")


class DictMail:
    """The part of `Mail` the gate uses."""

    domains = ("postroom.localhost",)

    def __init__(self) -> None:
        self.inboxes = {
            SCOUT: Inbox(inbox_id=SCOUT, pod_id=DEFAULT_POD, owner_agent="agt_1"),
            OTHER: Inbox(inbox_id=OTHER, pod_id=DEFAULT_POD, owner_agent="agt_2"),
        }
        self.messages: dict[str, Message] = {}
        self.drafts: dict[str, Draft] = {}
        self.files: dict[str, bytes] = {}
        self.allow: tuple[str, ...] = ()
        self.known: tuple[str, ...] = ()
        self.block: tuple[str, ...] = ()

    async def get_inbox(self, principal, inbox_id):
        return require_inbox(principal, self.inboxes.get(inbox_id))

    async def get_message(self, principal, inbox_id, message_id):
        if message_id not in self.messages:
            raise NotFound("Message not found")
        return self.messages[message_id]

    async def get_attachment(self, principal, inbox_id, message_id, attachment_id):
        return Attachment(attachment_id=attachment_id, size=0), Blob(content=self.files[attachment_id])

    async def get_draft(self, principal, inbox_id, draft_id):
        if draft_id not in self.drafts:
            raise NotFound("Draft not found")
        return self.drafts[draft_id]

    async def is_authenticated(self, principal, address):
        return address in self.known

    async def send_list(self, principal, inbox_id, kind):
        return self.allow if kind == "allow" else self.block

    def receives(self, message_id="<hi@customer.example>", **fields) -> Message:
        base = Message(
            inbox_id=SCOUT,
            thread_id="11111111-1111-4111-8111-111111111111",
            message_id=message_id,
            labels=("received",),
            timestamp=1_767_225_600_000_000,
            from_=f"Ada <{ADA}>",
            to=(SCOUT,),
            subject="Offer",
            text="What is the price?",
        )
        self.messages[message_id] = dataclasses.replace(base, **fields)
        return self.messages[message_id]

    def drafts_one(self, author="agt_1", **fields) -> Draft:
        draft = Draft(inbox_id=SCOUT, draft_id=f"draft-{len(self.drafts)}", fields=DraftFields(**fields), author=author)
        self.drafts[draft.draft_id] = draft
        return draft


class NotingSender:
    """Takes each outgoing id once and tells the log, as the office does; `fails` is raised first, `dies` after taking."""

    def __init__(self) -> None:
        self.binds = "bytes"
        self.taken: dict[str, Frozen] = {}
        self.calls = 0
        self.relay = True
        self.fails: BaseException | None = None
        self.dies: BaseException | None = None

    def can_reach(self, address: str) -> str | None:
        return None if self.relay or address.endswith("@postroom.localhost") else "no relay is configured"

    async def send(self, frozen: Frozen) -> Accepted:
        self.calls += 1
        if self.fails is not None:
            raise self.fails
        self.taken.setdefault(frozen.outgoing_id, frozen)
        if self.dies is not None:
            raise self.dies
        thread = frozen.outbound.thread_id or "22222222-2222-4222-8222-222222222222"
        return Accepted(message_id=frozen.message_id, thread_id=thread)


class House:
    """Everything one test needs; `gate(...)` opens another gate on the same store, as after a restart."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self.mail, self.sender = DictMail(), NotingSender()
        self.own_secret = "own-secret-of-the-house"
        self.open = self.gate()

    def gate(self, **settings) -> Gate:
        async def author(agent_id: str) -> Principal | None:
            return AGENT if agent_id == AGENT.agent_id else None

        return Gate(
            self.store,
            self.mail,
            self.sender,
            Config(gate=GateConfig(**settings)),
            clock=self.clock,
            redactor=Redactor([self.own_secret]),
            boundary=lambda principal: ("rule", "the caller's OS user is not known"),
            author=author,
        )

    async def submit(self, principal=AGENT, key=None, **fields) -> Submission:
        return await self.open.submit(principal, wish(**fields), key)

    async def kinds(self) -> list[str]:
        return [event.kind for event in await self.store.events.after(0)]

    async def tell(self, kind: str, ref: str, **snapshot) -> None:
        at = self.clock.now_us()
        await self.store.write(lambda tx: tx.emit(kind, ref, at=at, inbox_id=SCOUT, snapshot=snapshot))


def wish(**fields) -> SendRequest:
    given = {"kind": SendKind.SEND, "inbox_id": SCOUT, "to": (ADA,), "subject": "Hello", "text": "Good day"} | fields
    return SendRequest(**given)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    clock = FakeClock()
    store = await Store.open(":memory:", clock=clock)
    yield House(store, clock)
    await store.close()


@pytest.fixture
def owner() -> Principal:
    return OWNER


@pytest.fixture
def agent() -> Principal:
    return AGENT


@pytest.fixture
def rival() -> Principal:
    return RIVAL


@pytest.fixture(name="wish")
def wish_fixture():
    return wish
