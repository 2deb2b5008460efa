"""What the SMTP door answers, spoken to over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from postroom.errors import Busy, Invalid, Refused, StorageFailure, TooLarge
from postroom.testing import send_mail
from smtp_support import INBOX, open_door

MAIL = b"From: ann@example.org\r\nSubject: hi\r\n\r\nhello\r\n"


async def test_a_mail_is_stored_byte_for_byte_and_its_id_is_named() -> None:
    async with open_door() as door:
        sent = await asyncio.to_thread(send_mail, "127.0.0.1", door.port, "ann@example.org", [INBOX], MAIL)
        assert (sent.code, sent.text) == (250, "2.0.0 Message queued as 1")
        ((envelope, raw),) = door.intake.mails
        assert raw == MAIL
        assert (envelope.mail_from, envelope.rcpt_to, envelope.peer) == ("ann@example.org", (INBOX,), "127.0.0.1")
        assert envelope.authenticated is None
        assert envelope.origin == "smtp"


async def test_ehlo_announces_what_is_true_and_no_more() -> None:
    async with open_door() as door, door.peer(greet=False) as peer:
        assert (await peer.ask(b"EHLO peer.example")).split("\n") == [
            "250-mx.postroom.localhost",
            "250-SIZE 26214400",
            "250-8BITMIME",
            "250-SMTPUTF8",
            "250-PIPELINING",
            "250 ENHANCEDSTATUSCODES",
        ]


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"AUTH PLAIN AGEAYg==", "502 5.5.1 AUTH is not offered"),
        (b"AUTH LOGIN", "502 5.5.1 AUTH is not offered"),
        (b"STARTTLS", "502 5.5.1 STARTTLS is not offered"),
        (b"EXPN staff", "502 5.5.1 EXPN is not offered"),
        (b"VRFY agent", "252 2.5.0 Send mail to find out"),
        (b"NOOP", "250 2.0.0 OK"),
        (b"RSET", "250 2.0.0 Ok"),
        (b"QUIT", "221 2.0.0 Bye"),
        (b"BDAT 5 LAST", '500 5.5.2 Error: command "BDAT" not recognized'),
        (b"", "500 5.5.2 Error: bad syntax"),
        (b"\xff\xfe", "500 5.5.2 Error: bad syntax"),
        (b"NO\x00OP", "500 5.5.2 control characters are not allowed in a command"),
        (b"EHLO a\rb", "500 5.5.2 control characters are not allowed in a command"),
        (b"EHLO", "501 5.5.4 Syntax: EHLO hostname"),
        (b"HELO", "501 5.5.4 Syntax: HELO hostname"),
        ("EHLO prüf".encode(), "501 5.5.4 Syntax: EHLO hostname"),
        (b"RCPT TO:<" + INBOX.encode() + b">", "503 5.5.1 Say MAIL first"),
        (b"DATA", "503 5.5.1 Say MAIL first"),
        (b"MAIL FROM:<" + b"a" * 10_000 + b"@example.org>", "500 5.5.2 a command line may have 2048 bytes"),
    ],
)
async def test_a_command_out_of_place_gets_its_reply(line: bytes, reply: str) -> None:
    async with open_door() as door, door.peer() as peer:
        assert await peer.ask(line) == reply


@pytest.mark.parametrize(
    ("argument", "reply"),
    [
        (b"<ann@example.org>", "250 2.1.0 Sender ok"),
        (b"<>", "250 2.1.0 Sender ok"),
        (b" <ann@example.org>", "250 2.1.0 Sender ok"),
        (b"<ann@example.org> SIZE=1000 BODY=8BITMIME", "250 2.1.0 Sender ok"),
        (b'<"a b> ORCPT=x"@example.org>', "250 2.1.0 Sender ok"),
        (b"<ann@[127.0.0.1]>", "250 2.1.0 Sender ok"),
        (b"<@relay.example,@other.example:ann@example.org>", "250 2.1.0 Sender ok"),
        ("<jürgen@exämple.org> SMTPUTF8".encode(), "250 2.1.0 Sender ok"),
        ("<jürgen@example.org>".encode(), "553 5.6.7 An address outside ASCII needs SMTPUTF8"),
        ("<ann\u200b@example.org> SMTPUTF8".encode(), "553 5.1.3 This is not an address"),
        (b"<ann\xff@example.org> SMTPUTF8", "553 5.1.3 This is not an address"),
        (b"ann@example.org", "501 5.5.4 Syntax: MAIL FROM:<address>"),
        (b"", "501 5.5.4 Syntax: MAIL FROM:<address>"),
        (b"<ann@example.org", "553 5.1.3 This is not an address"),
        (b"<ann@b@example.org>", "553 5.1.3 This is not an address"),
        (b"<ann example.org>", "553 5.1.3 This is not an address"),
        (b"<ann@example.org>junk", "553 5.1.3 This is not an address"),
        (b"<ann@example.org> SIZE=26214400", "250 2.1.0 Sender ok"),
        (b"<ann@example.org> SIZE=26214401", "552 5.3.4 A mail may have 26214400 bytes"),
        (b"<ann@example.org> SIZE=-1", "501 5.5.4 SIZE is a number of bytes"),
        (b"<ann@example.org> SIZE=" + b"9" * 100, "501 5.5.4 SIZE is a number of bytes"),
        (b"<ann@example.org> BODY=BINARYMIME", "501 5.5.4 BODY is 7BIT or 8BITMIME"),
        (b"<ann@example.org> SMTPUTF8=yes", "501 5.5.4 SMTPUTF8 takes no value"),
        (b"<ann@example.org> RET=HDRS", "555 5.5.4 This parameter is not known here"),
        (b"<ann@example.org> SIZE=1 SIZE=2", "501 5.5.4 A parameter is given once"),
        (b"<ann@example.org> =x", "501 5.5.4 A parameter is KEYWORD or KEYWORD=value"),
    ],
)
async def test_the_sender_is_read_strictly(argument: bytes, reply: str) -> None:
    async with open_door() as door, door.peer() as peer:
        assert await peer.ask(b"MAIL FROM:" + argument) == reply


@pytest.mark.parametrize(
    ("recipient", "reply"),
    [
        (b"<agent@postroom.localhost>", "250 2.1.5 Recipient ok"),
        (b"<Agent@Postroom.Localhost>", "250 2.1.5 Recipient ok"),
        (b"<nobody@postroom.localhost>", "550 5.1.1 No such inbox here"),
        (b"<postmaster>", "550 5.1.1 No such inbox here"),
        (b"<ann@example.org>", "550 5.7.1 Relaying denied"),
        (b"<agent%example.org@example.net>", "550 5.7.1 Relaying denied"),
        (b"<>", "553 5.1.3 This is not an address"),
        (b"<agent>", "553 5.1.3 This is not an address"),
        (b"agent@postroom.localhost", "501 5.5.4 Syntax: RCPT TO:<address>"),
        (b"<agent@postroom.localhost> NOTIFY=NEVER", "555 5.5.4 This parameter is not known here"),
        ("<ägent@postroom.localhost>".encode(), "553 5.6.7 An address outside ASCII needs SMTPUTF8"),
    ],
)
async def test_only_inboxes_that_exist_are_taken_and_nothing_is_relayed(recipient: bytes, reply: str) -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.ask(b"MAIL FROM:<ann@example.org>")
        assert await peer.ask(b"RCPT TO:" + recipient) == reply


async def test_the_101st_recipient_is_put_off_and_the_mail_still_goes() -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.ask(b"MAIL FROM:<ann@example.org>")
        replies = [await peer.ask(b"RCPT TO:<u%d@postroom.localhost>" % number) for number in range(101)]
        assert replies[99] == "250 2.1.5 Recipient ok"
        assert replies[100] == "452 4.5.3 Too many recipients, send the rest in another mail"
        await peer.ask(b"DATA")
        assert (await peer.ask(MAIL + b"."))[:3] == "250"
        assert len(door.intake.mails[0][0].rcpt_to) == 100


async def test_a_recipient_named_twice_gets_one_mail() -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.ask(b"MAIL FROM:<ann@example.org>")
        await peer.ask(b"RCPT TO:<" + INBOX.encode() + b">")
        await peer.ask(b"RCPT TO:<" + INBOX.encode() + b">")
        await peer.ask(b"DATA")
        await peer.ask(MAIL + b".")
        assert door.intake.mails[0][0].rcpt_to == (INBOX,)


async def test_data_without_a_recipient_that_was_taken_is_refused() -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.ask(b"MAIL FROM:<ann@example.org>")
        await peer.ask(b"RCPT TO:<nobody@postroom.localhost>")
        assert await peer.ask(b"DATA") == "554 5.5.1 No valid recipients"


async def test_a_second_mail_command_and_one_before_ehlo_are_refused() -> None:
    async with open_door() as door, door.peer(greet=False) as peer:
        assert await peer.ask(b"MAIL FROM:<ann@example.org>") == "503 5.5.1 Say EHLO first"
        await peer.ask(b"HELO peer.example")
        assert await peer.ask(b"MAIL FROM:<ann@example.org> SIZE=1") == "555 5.5.4 This parameter is not known here"
        await peer.ask(b"MAIL FROM:<ann@example.org>")
        assert await peer.ask(b"MAIL FROM:<bob@example.org>") == "503 5.5.1 A mail is already begun"


@pytest.mark.parametrize("again", [b"RSET", b"EHLO again.example"])
async def test_a_transaction_can_be_started_over(again: bytes) -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.ask(b"MAIL FROM:<ann@example.org>")
        await peer.ask(b"RCPT TO:<" + INBOX.encode() + b">")
        await peer.ask(again)
        assert await peer.ask(b"DATA") == "503 5.5.1 Say MAIL first"


@pytest.mark.parametrize(
    ("problem", "reply"),
    [
        (StorageFailure("the disk is full"), "451 4.3.0 the disk is full"),
        (Refused("the From header names\r\n250 a local domain"), "550 5.7.1 the From header names 250 a local domain"),
        (TooLarge("a mail has at most 5 bytes"), "552 5.3.4 a mail has at most 5 bytes"),
        (Invalid("no recipient \u2014 none"), "554 5.6.0 no recipient ? none"),
        (Busy("later"), "451 4.3.0 later"),
        (RuntimeError("secret detail"), "451 4.3.0 Something failed here, try again later"),
    ],
)
async def test_what_the_intake_could_not_take_is_never_answered_250(problem: Exception, reply: str) -> None:
    async with open_door() as door, door.peer() as peer:
        door.intake.problem = problem
        await peer.begin()
        assert await peer.ask(MAIL + b".") == reply
        door.intake.problem = None
        await peer.begin()
        assert await peer.ask(MAIL + b".") == "250 2.0.0 Message queued as 1"
