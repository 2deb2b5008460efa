"""What every conversation of one door shares: who takes the mail, for which domains, within which bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from postroom import limits
from postroom.errors import Invalid, PostroomError, Refused, TooLarge
from postroom.interfaces.http.peer import Address
from postroom.model.principal import Principal
from postroom.office.intake import Envelope, IntakeResult


class Intake(Protocol):
    """What takes the mail: the office's intake."""

    def knows(self, address: str) -> bool:
        """True if mail to `address` is taken here. Fast; called for every RCPT."""
        ...

    async def accept(self, envelope: Envelope, raw: bytes) -> IntakeResult:
        """Returns once the mail is on disk."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The door's limits; tests inject smaller ones. Sizes in bytes, times in seconds."""

    mail_bytes: int = limits.MAIL_BYTES
    line_bytes: int = limits.SMTP_LINE_BYTES
    recipients: int = limits.SMTP_RECIPIENTS
    connections: int = limits.SMTP_CONNECTIONS
    memory_bytes: int = limits.SMTP_MEMORY_BYTES
    idle_s: float = limits.SMTP_IDLE_S
    data_s: float = limits.SMTP_DATA_S


class Memory:
    """What the mails of all conversations may take together."""

    def __init__(self, size: int) -> None:
        self.left = size

    @contextmanager
    def share(self) -> Iterator[Callable[[int], bool]]:
        """For one mail: call the result with the bytes it has grown to; False when there is no room for that many."""
        held = 0

        def grow(size: int) -> bool:
            nonlocal held
            if size - held > self.left:
                return False
            self.left -= size - held
            held = size
            return True

        try:
            yield grow
        finally:
            self.left += held


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who is speaking, and the one inbox it sends from."""

    principal: Principal
    inbox_id: str


class Desk(Protocol):
    """What takes mail to be sent: `submission.SubmissionDesk`."""

    async def admit(self, user: str, password: str, *, client: Address | None, server: Address | None) -> Sender: ...
    async def submit(self, sender: Sender, recipients: Sequence[str], raw: bytes) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """`domains`, in lower case, are those mail is taken for."""

    intake: Intake
    hostname: str
    domains: Collection[str]
    bounds: Bounds
    memory: Memory
    submission: Desk | None = None  # None: nothing is sent from here, and AUTH is not offered


def plain(text: str) -> str:
    """`text` for a reply: one line of ASCII that is not too long."""
    return " ".join(text.encode("ascii", "replace").decode().split())[:400]


def reply_to(problem: PostroomError) -> str:
    """The reply when the intake did not take a mail: only a refusal or a bad mail is final, the rest may be tried again."""
    text = plain(problem.message)
    if isinstance(problem, Refused):
        return f"550 5.7.1 {text}"
    if isinstance(problem, TooLarge):
        return f"552 5.3.4 {text}"
    if isinstance(problem, Invalid):
        return f"554 5.6.0 {text}"
    return f"451 4.3.0 {text}"
