"""Opening and closing the SMTP door."""

from __future__ import annotations

import asyncio

import pytest

from pace import PATIENCE_S
from postroom.errors import InUse, Invalid
from postroom.interfaces.smtp.door import SmtpDoor
from smtp_support import RememberingIntake, open_door

MAIL = b"From: ann@example.org\r\n\r\nhello\r\n"


async def test_a_taken_address_is_a_clear_error() -> None:
    async with open_door() as door:
        other = SmtpDoor(RememberingIntake(), hostname="mx.example")
        with pytest.raises(InUse, match=f"the SMTP address 127.0.0.1:{door.port} is taken"):
            await other.start("127.0.0.1", door.port)
        await other.stop()


async def test_an_address_of_another_machine_is_a_clear_error() -> None:
    with pytest.raises(Invalid, match=r"cannot listen on the SMTP address 192\.0\.2\.1:0"):
        await SmtpDoor(RememberingIntake(), hostname="mx.example").start("192.0.2.1", 0)


async def test_one_connection_too_many_is_turned_away_until_another_leaves() -> None:
    async with open_door(connections=2) as door, door.peer() as first:
        async with door.peer(), door.peer(greet=False) as third:
            assert await third.everything() == b""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with door.peer(greet=False) as next_one:
                    if await next_one.ask(b"NOOP") == "250 2.0.0 OK":
                        break
        assert await first.ask(b"NOOP") == "250 2.0.0 OK"


async def test_closing_answers_the_mail_that_is_being_stored() -> None:
    async with open_door() as door, door.peer() as peer:
        door.intake.gate = asyncio.Event()
        await peer.begin()
        await peer.say(MAIL + b".\r\n")
        await door.intake.began.wait()
        stopping = asyncio.create_task(door.door.stop())
        await asyncio.sleep(0)
        door.intake.gate.set()
        assert await peer.reply() == "250 2.0.0 Message queued as 1"
        assert await peer.reply() == "421 4.3.2 Shutting down"
        await stopping
        assert door.intake.raws == [MAIL]


async def test_closing_drops_a_mail_that_has_not_ended() -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.begin()
        await peer.say(MAIL)
        await door.door.stop()
        assert b"250" not in await peer.everything()
        assert door.intake.mails == []


async def test_after_closing_nobody_is_let_in() -> None:
    async with open_door() as door:
        await door.door.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", door.port)


async def test_a_peer_that_says_nothing_is_sent_away() -> None:
    async with open_door(idle_s=0.05) as door, door.peer(greet=False) as peer:
        assert await peer.everything() == b"421 4.4.2 Too slow, closing\r\n"


async def test_a_mail_that_takes_too_long_is_dropped() -> None:
    async with open_door(data_s=0.05) as door, door.peer() as peer:
        await peer.begin()
        await peer.say(MAIL)
        assert await peer.everything() == b"421 4.4.2 Too slow, closing\r\n"
        assert door.intake.mails == []
