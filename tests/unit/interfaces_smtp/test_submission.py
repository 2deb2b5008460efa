"""Sending by SMTP: AUTH in its two forms, and what the gate decided in SMTP's words."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from postroom.errors import Conflict, Invalid, NotFound, StorageFailure, TooLarge, Unauthorized
from postroom.interfaces.smtp.house import Sender
from postroom.interfaces.smtp.submission import SubmissionDesk
from postroom.model.outgoing import State, Submission
from postroom.model.principal import Kind, Principal
from postroom.model.request import SendKind
from smtp_support import INBOX, Door, open_door

KEY = "am_key_secret"
AGENT = Principal(kind=Kind.AGENT, agent_id="agt_1")
OUTSIDE = "ada@customer.example"


def b64(text: str) -> bytes:
    return base64.b64encode(text.encode())


PLAIN = b"AUTH PLAIN " + b64(f"\0{INBOX}\0{KEY}")


@dataclass
class Rooms:
    """Knows one key and one inbox, and answers every submission with `state` or `problem`."""

    state: State = State.SENDING
    problem: Exception | None = None
    asked: list[Any] = field(default_factory=list)

    async def authenticate(self, text: str | None) -> Principal:
        if text != KEY:
            raise Unauthorized("unknown", code="unknown_api_key")
        return AGENT

    async def get_inbox(self, principal: Principal, inbox_id: str) -> Any:
        if inbox_id.lower() != INBOX:
            raise NotFound("Inbox not found")
        return Sender(principal=principal, inbox_id=INBOX)

    async def submit(self, principal: Principal, request: Any, key: str | None = None) -> Submission:
        self.asked.append((principal, request, key))
        if self.problem is not None:
            raise self.problem
        return Submission(
            outgoing_id="out_1", state=self.state, message_id="<m@x>", reasons=("blöcked",) if self.state is State.REFUSED else ()
        )


@pytest.fixture
def rooms() -> Rooms:
    return Rooms()


@pytest.fixture
async def door(rooms: Rooms) -> AsyncIterator[Door]:
    async with open_door(submission=SubmissionDesk(rooms, rooms, rooms)) as opened:
        yield opened


async def test_auth_is_announced_and_opens_the_way_out(door: Door, rooms: Rooms) -> None:
    async with door.peer(greet=False) as peer:
        assert "250-AUTH PLAIN LOGIN" in await peer.ask(b"EHLO peer.example")
        assert await peer.ask(PLAIN) == "235 2.7.0 Ok"
        assert await peer.ask(b"MAIL FROM:<" + INBOX.upper().encode() + b"> AUTH=<>") == "250 2.1.0 Sender ok"
        assert await peer.ask(b"RCPT TO:<ada@customer.example>") == "250 2.1.5 Recipient ok"
        await peer.ask(b"DATA")
        assert await peer.ask(b"From: agent@postroom.localhost\r\n\r\nhi\r\n.") == "250 2.0.0 Message queued as <m@x>"
    ((principal, request, _),) = rooms.asked
    assert (principal.agent_id, request.kind, request.inbox_id) == ("agt_1", SendKind.SUBMISSION, INBOX)
    assert (request.envelope_to, request.raw) == ((OUTSIDE,), b"From: agent@postroom.localhost\r\n\r\nhi\r\n")
    assert door.intake.mails == []


@pytest.mark.parametrize(
    ("lines", "replies"),
    [
        ([b"AUTH PLAIN", b64(f"\0{INBOX}\0{KEY}")], ["334 ", "235 2.7.0 Ok"]),
        ([b"AUTH LOGIN", b64(INBOX), b64(KEY)], ["334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6", "235 2.7.0 Ok"]),
        ([b"auth login " + b64(INBOX), b64(KEY)], ["334 UGFzc3dvcmQ6", "235 2.7.0 Ok"]),
        ([PLAIN, PLAIN], ["235 2.7.0 Ok", "503 5.5.1 AUTH comes once, before MAIL"]),
        ([b"MAIL FROM:<a@b.example>", PLAIN], ["250 2.1.0 Sender ok", "503 5.5.1 AUTH comes once, before MAIL"]),
        ([b"AUTH PLAIN", b"*"], ["334 ", "501 5.7.0 AUTH was given up"]),
        ([b"AUTH PLAIN =", b"NOOP"], ["501 5.5.2 PLAIN is a name and a password, nobody acts for another", "250 2.0.0 OK"]),
        ([b"AUTH PLAIN " + b64(f"other\0{INBOX}\0{KEY}")], ["501 5.5.2 PLAIN is a name and a password, nobody acts for another"]),
        ([b"AUTH PLAIN !!!"], ["501 5.5.2 This is not base64"]),
        ([b"AUTH CRAM-MD5"], ["504 5.5.4 AUTH knows PLAIN and LOGIN"]),
        ([b"AUTH"], ["504 5.5.4 AUTH knows PLAIN and LOGIN"]),
        ([b"HELO peer.example", PLAIN], ["250 mx.postroom.localhost", "503 5.5.1 Say EHLO first"]),
    ],
)
async def test_auth_is_a_dialogue_with_these_answers(door: Door, lines: list[bytes], replies: list[str]) -> None:
    async with door.peer() as peer:
        assert [await peer.ask(line) for line in lines] == replies


@pytest.mark.parametrize("credentials", [f"\0{INBOX}\0wrong", f"\0other@postroom.localhost\0{KEY}", f"\0{INBOX}\0"])
async def test_a_wrong_key_or_another_inbox_is_535_and_five_of_them_end_it(door: Door, credentials: str) -> None:
    async with door.peer() as peer:
        for _ in range(4):
            assert (await peer.ask(b"AUTH PLAIN " + b64(credentials)))[:9] == "535 5.7.8"
        assert (await peer.ask(b"AUTH PLAIN " + b64(credentials)))[:9] == "421 4.7.0"


async def test_who_has_a_key_sends_from_its_inbox_to_fifty_at_most(door: Door) -> None:
    async with door.peer() as peer:
        await peer.ask(PLAIN)
        assert await peer.ask(b"MAIL FROM:<someone@else.example>") == "550 5.1.8 Send from the inbox whose key was given"
        await peer.ask(b"MAIL FROM:<" + INBOX.encode() + b">")
        replies = [await peer.ask(b"RCPT TO:<u%d@customer.example>" % number) for number in range(51)]
        assert replies[:50] == ["250 2.1.5 Recipient ok"] * 50
        assert replies[50] == "452 4.5.3 Too many recipients, send the rest in another mail"


@pytest.mark.parametrize(
    ("outcome", "reply"),
    [
        (State.SENT, "250 2.0.0 Message queued as <m@x>"),
        (State.HELD, "451 4.7.1 Held for approval as out_1; it goes when the owner approves it"),
        (State.APPROVED, "451 4.7.1 Approved as out_1, and waiting to go"),
        (State.UNCERTAIN, "451 4.7.1 Nobody knows whether it went; the owner decides on out_1"),
        (State.REFUSED, "550 5.7.1 bl?cked (out_1)"),
        (State.EXPIRED, "550 5.7.1 expired (out_1)"),
        (Invalid("From must be x", code="invalid_from"), "550 5.1.8 From must be x"),
        (Conflict("this inbox is paused and does not send"), "550 5.7.1 this inbox is paused and does not send"),
        (TooLarge("too large"), "552 5.3.4 too large"),
        (StorageFailure("the disk is full"), "451 4.3.0 the disk is full"),
        (RuntimeError("bug"), "451 4.3.0 Something failed here, try again later"),
    ],
    ids=str,
)
async def test_the_reply_says_what_became_of_the_mail(door: Door, rooms: Rooms, outcome: State | Exception, reply: str) -> None:
    if isinstance(outcome, State):
        rooms.state = outcome
    else:
        rooms.problem = outcome
    async with door.peer() as peer:
        await peer.ask(PLAIN)
        await peer.ask(b"MAIL FROM:<" + INBOX.encode() + b">")
        await peer.ask(b"RCPT TO:<ada@customer.example>")
        await peer.ask(b"DATA")
        assert await peer.ask(b"From: x\r\n\r\nhi\r\n.") == reply


async def test_the_same_mail_to_the_same_people_is_one_submission(door: Door, rooms: Rooms) -> None:
    for recipient in (b"ada", b"ada", b"bob"):
        async with door.peer() as peer:
            await peer.ask(PLAIN)
            await peer.ask(b"MAIL FROM:<" + INBOX.encode() + b">")
            await peer.ask(b"RCPT TO:<" + recipient + b"@customer.example>")
            await peer.ask(b"DATA")
            await peer.ask(b"From: x\r\n\r\nhi\r\n.")
    first, second, other = (key for _, _, key in rooms.asked)
    assert first == second != other
