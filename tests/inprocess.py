"""Real rooms in this process: store, office, gate and tools, without sockets or a loop of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any, cast

import postroom.gate.tables
import postroom.office.tables  # noqa: F401 - tables must be known before the store is opened
from postroom.config import Config
from postroom.gate.gate import Gate
from postroom.gate.readlog import Reading, StoredReadLog
from postroom.model.mail import NewInbox
from postroom.model.ports import Mail
from postroom.model.principal import Kind, Principal
from postroom.model.request import SendKind, SendRequest
from postroom.office.intake import Envelope
from postroom.office.office import Office
from postroom.safety.redact import Redactor
from postroom.store.engine import Store
from postroom.testing import FakeClock
from postroom.tools.email import EmailTools
from postroom.wires.smtp import RelayResult

SCOUT, OTHER = "scout@postroom.localhost", "other@postroom.localhost"
ADA = "ada@customer.example"
OWNER = Principal(kind=Kind.OWNER)
AGENT = Principal(kind=Kind.AGENT, agent_id="agt_1", name="scout")
RIVAL = Principal(kind=Kind.AGENT, agent_id="agt_2", name="other")
AGENTS = {one.agent_id: one for one in (AGENT, RIVAL)}
OWN_SECRET = "own-secret-of-the-house"


@dataclass
class NotingRelay:
    """Takes everything and remembers it; `dies` is raised before anything is taken."""

    taken: list[tuple[str, tuple[str, ...], bytes]] = field(default_factory=list)
    dies: BaseException | None = None

    async def deliver(self, mail_from: str, rcpt_to: Sequence[str], raw: bytes) -> RelayResult:
        if self.dies is not None:
            raise self.dies
        self.taken.append((mail_from, tuple(rcpt_to), raw))
        return RelayResult(accepted=tuple(rcpt_to), refused={})


class Rooms:
    """One set of rooms over a store. Build another over the same store for a restart."""

    def __init__(self, store: Store, clock: FakeClock, config: Config | None = None, relay: NotingRelay | None = None) -> None:
        self.store, self.clock, self.config = store, clock, config or Config()
        self.relay = relay or NotingRelay()
        self.office = Office(store, self.config, self.relay)
        redactor = Redactor([OWN_SECRET])
        self.gate = Gate(
            store,
            self.office.mail,
            self.office.sender,
            self.config,
            clock=clock,
            redactor=redactor,
            boundary=lambda principal: ("rule", "the caller's OS user is not known"),
            author=author,
        )
        self.read_log = StoredReadLog(store, clock)
        reading = cast("Mail", Reading(self.office.mail, self.read_log))
        self.tools = EmailTools(reading, self.gate, self.config, redactor=redactor, clock=clock)

    async def inhabit(self) -> None:
        """An inbox for each agent."""
        for username, owner in (("scout", "agt_1"), ("other", "agt_2")):
            await self.office.mail.create_inbox(OWNER, NewInbox(username=username, owner_agent=owner))

    async def arrive(self, mail: EmailMessage, *to: str, mail_from: str = ADA) -> None:
        """Take a mail in as the SMTP door does, and read it."""
        await self.office.intake.accept(Envelope(mail_from=mail_from, rcpt_to=to or (SCOUT,)), mail.as_bytes(policy=SMTP))
        await self.settle()

    async def settle(self) -> None:
        """Let everything that waits happen: reading, sending, following."""
        await self.office.outbox.recover()
        while await self.office.ingest.step() or await self.office.outbox.step():
            pass
        await self.gate.catch_up()

    async def call(self, name: str, arguments: dict[str, Any], principal: Principal = AGENT, **more: Any) -> Any:
        """One tool call by its short name."""
        return await self.tools.call(principal, f"agentmail_{name}", arguments, **more)


async def author(agent_id: str) -> Principal | None:
    return AGENTS.get(agent_id)


async def rooms_in(folder: Path | None, config: Config | None = None) -> Rooms:
    """Fresh rooms on a store in `folder`, or in memory."""
    clock = FakeClock()
    rooms = Rooms(await Store.open(folder or ":memory:", clock=clock), clock, config)
    await rooms.inhabit()
    return rooms


def letter(
    message_id: str = "<hi@customer.example>", *, subject: str = "Offer", text: str = "What is the price?", **headers: str
) -> EmailMessage:
    """A mail from Ada to scout."""
    mail = EmailMessage()
    given = {"From": f"Ada <{ADA}>", "To": SCOUT, "Subject": subject, "Message-ID": message_id}
    for name, value in (given | {name.replace("_", "-"): value for name, value in headers.items()}).items():
        mail[name] = value
    mail.set_content(text)
    return mail


def wish(**fields: Any) -> SendRequest:
    """A request to send something to Ada."""
    given = {"kind": SendKind.SEND, "inbox_id": SCOUT, "to": (ADA,), "subject": "Hello", "text": "Good day"}
    return SendRequest(**(given | fields))
