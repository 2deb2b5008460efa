"""Sending by SMTP: who may, and what the gate made of it, said in SMTP's words.

The user is an inbox's address, the password a key that may use it. Everything goes through the gate.
`250` means that the mail is on its way, nothing less. A mail that waits for the owner is answered
`451` with the approval's id: it is kept, and the same mail sent again is not asked about twice but
answered with what became of it, so a program that retries hears the truth, and nothing bounces.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Final, Protocol

from postroom.errors import Conflict, NotFound, PostroomError
from postroom.interfaces.http.peer import Address, peer_uid
from postroom.interfaces.smtp.house import Sender, plain, reply_to
from postroom.model.mail import Inbox
from postroom.model.outgoing import State, Submission
from postroom.model.principal import Principal
from postroom.model.request import SendKind, SendRequest

_LEAVES: Final = (State.SENDING, State.SENT)
_WAITS: Final = {
    State.HELD: "Held for approval as {id}; it goes when the owner approves it",
    State.APPROVED: "Approved as {id}, and waiting to go",
    State.UNCERTAIN: "Nobody knows whether it went; the owner decides on {id}",
}


class Keys(Protocol):
    async def authenticate(self, text: str | None) -> Principal: ...


class Inboxes(Protocol):
    async def get_inbox(self, principal: Principal, inbox_id: str) -> Inbox: ...


class Submits(Protocol):
    async def submit(self, principal: Principal, request: SendRequest, key: str | None = None) -> Submission: ...


class SubmissionDesk:
    """Takes mail to be sent from those who have a key."""

    def __init__(self, keys: Keys, inboxes: Inboxes, gate: Submits) -> None:
        self._keys = keys
        self._inboxes = inboxes
        self._gate = gate

    async def admit(self, user: str, password: str, *, client: Address | None, server: Address | None) -> Sender:
        """Raises `Unauthorized` for a key that is none, `NotFound` for an inbox it may not use."""
        principal = await self._keys.authenticate(password)
        inbox = await self._inboxes.get_inbox(principal, user)
        principal = dataclasses.replace(principal, peer_uid=peer_uid(client, server))
        return Sender(principal=principal, inbox_id=inbox.inbox_id)

    async def submit(self, sender: Sender, recipients: Sequence[str], raw: bytes) -> str:
        """The whole reply to a mail."""
        request = SendRequest(kind=SendKind.SUBMISSION, inbox_id=sender.inbox_id, raw=raw, envelope_to=tuple(recipients))
        key = hashlib.sha256(b"\0".join([*(name.encode() for name in (sender.inbox_id, *recipients)), raw])).hexdigest()
        try:
            return _reply(await self._gate.submit(sender.principal, request, f"smtp-{key}"))
        except PostroomError as problem:
            if problem.code == "invalid_from":
                return f"550 5.1.8 {plain(problem.message)}"
            if isinstance(problem, NotFound | Conflict):
                return f"550 5.7.1 {plain(problem.message)}"
            return reply_to(problem)


def _reply(submission: Submission) -> str:
    if submission.state in _LEAVES:
        return f"250 2.0.0 Message queued as {submission.message_id}"
    if submission.state in _WAITS:
        return f"451 4.7.1 {_WAITS[submission.state].format(id=submission.outgoing_id)}"
    why = "; ".join(submission.reasons) or submission.state.value
    return f"550 5.7.1 {plain(why)} ({submission.outgoing_id})"
