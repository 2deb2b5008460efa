"""Peers that lie, flood, stall or vanish: a mail stays one mail, the connection stays in step, nothing unfinished is kept.

The end-of-data table is that of the SMTP smuggling reports of 2023/24 with our own additions.
"""

from __future__ import annotations

import pytest

from postroom.limits import MAIL_BYTES, SMTP_LINE_BYTES
from smtp_support import INBOX, open_door

MAIL = b"From: ann@example.org\r\nSubject: hi\r\n\r\nhello\r\n"
SMUGGLED = b"MAIL FROM:<evil@example.org>\r\nRCPT TO:<agent@postroom.localhost>\r\nDATA\r\nSubject: smuggled\r\n\r\nhi\r\n"
FALSE_ENDS = {
    "LF.LF": b"\n.\n",
    "LF.CRLF": b"\n.\r\n",
    "CRLF.LF": b"\r\n.\n",
    "CR.CR": b"\r.\r",
    "CR.CRLF": b"\r.\r\n",
    "CRLF.CR": b"\r\n.\r",
    "LF.CR": b"\n.\r",
    "CRLF.NUL CRLF": b"\r\n.\0\r\n",
    "CRLF NUL.CRLF": b"\r\n\0.\r\n",
    "CRLF.CRCRLF": b"\r\n.\r\r\n",
    "CRLF. CRLF": b"\r\n. \r\n",
    "CRLF..CRLF": b"\r\n..\r\n",
}


@pytest.mark.parametrize("end", FALSE_ENDS.values(), ids=FALSE_ENDS)
async def test_a_false_end_of_data_stays_inside_one_mail(end: bytes) -> None:
    body = b"Subject: a\r\n\r\nhello" + end + SMUGGLED
    async with open_door() as door, door.peer() as peer:
        await peer.begin()
        await peer.say(body + b".\r\nQUIT\r\n")
        replies = (await peer.everything()).decode().splitlines()
        assert replies == ["250 2.0.0 Message queued as 1", "221 2.0.0 Bye"]
        ((envelope, raw),) = door.intake.mails
        assert envelope.mail_from == "ann@example.org"
        assert raw == body.replace(b"\r\n.", b"\r\n")


async def test_the_true_end_after_a_stray_cr_ends_the_mail_once() -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.begin()
        await peer.say(b"Subject: a\r\n\r\nhello\r\r\n.\r\nQUIT\r\n")
        assert (await peer.everything()).decode().splitlines()[0] == "250 2.0.0 Message queued as 1"
        assert door.intake.raws == [b"Subject: a\r\n\r\nhello\r\r\n"]


@pytest.mark.parametrize(
    "mail",
    [
        b"Subject: bare\n\nlf only\n\r\n",
        b"Subject: bare\r\rcr only\r\r\n",
        b"Subject: nul\r\n\r\na\0b\r\n",
        b"Subject: \xff\xfe 8-bit \xe4\r\n\r\n\x80\x81\r\n",
        b".leading\r\n..two\r\n.\x00\r\n",
        b"\r\n\r\n",
        b"To: " + b"a@example.org, " * 4_200 + b"b@example.org\r\n\r\nlong line\r\n",
        b"To: " + b"a@example.org,\r\n " * 4_200 + b"b@example.org\r\n\r\nfolded\r\n",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + b"--x\r\n\r\npart\r\n" * 2_000 + b"--x--\r\n",
    ],
    ids=["lf", "cr", "nul", "8-bit", "dots", "empty", "long-to", "folded-to", "parts"],
)
async def test_ugly_mail_is_kept_as_it_came(mail: bytes) -> None:
    stuffed = (b"\r\n" + mail).replace(b"\r\n.", b"\r\n..")[2:]
    async with open_door() as door, door.peer() as peer:
        await peer.begin()
        await peer.say(stuffed + b".\r\n")
        assert await peer.reply() == "250 2.0.0 Message queued as 1"
        assert door.intake.raws == [mail]


async def test_the_largest_mail_is_taken_and_one_byte_more_is_not() -> None:
    line = b"x" * 76 + b"\r\n"
    mail = line * (MAIL_BYTES // len(line))
    mail += b"y" * (MAIL_BYTES - len(mail) - 2) + b"\r\n"
    async with open_door() as door, door.peer() as peer:
        await peer.begin()
        await peer.say(mail + b".\r\n")
        assert await peer.reply() == "250 2.0.0 Message queued as 1"
        await peer.begin()
        await peer.say(b"z" + mail + b".\r\n")
        assert await peer.reply() == f"552 5.3.4 A mail may have {MAIL_BYTES} bytes"
        await peer.begin()
        assert await peer.ask(MAIL + b".") == "250 2.0.0 Message queued as 2"
        assert door.intake.raws == [mail, MAIL]


async def test_a_line_over_the_limit_costs_that_mail_only() -> None:
    longest = b"x" * (SMTP_LINE_BYTES - 2) + b"\r\n"
    async with open_door() as door, door.peer() as peer:
        await peer.begin()
        await peer.say(longest + b"x" + longest + b".\r\n")
        assert await peer.reply() == f"500 5.5.2 A line may have {SMTP_LINE_BYTES} bytes"
        await peer.begin()
        await peer.say(longest * 3 + b".\r\n")
        assert await peer.reply() == "250 2.0.0 Message queued as 1"
        assert door.intake.raws == [longest * 3]


async def test_mails_that_together_need_too_much_memory_are_put_off() -> None:
    half = b"x" * 998 + b"\r\n"
    async with open_door(memory_bytes=100_000) as door, door.peer() as first, door.peer() as second:
        await first.begin()
        await first.say(half * 80)
        await second.begin()
        await second.say(half * 80 + b".\r\n")
        answer = await second.reply()
        await first.say(b".\r\n")
        assert {answer[:9], (await first.reply())[:9]} == {"452 4.3.1", "250 2.0.0"}
        await second.begin()
        assert await second.ask(MAIL + b".") == "250 2.0.0 Message queued as 2"


async def test_pipelined_commands_are_answered_in_order() -> None:
    async with open_door() as door, door.peer(greet=False) as peer:
        await peer.say(
            b"EHLO peer.example\r\nMAIL FROM:<ann@example.org>\r\nRCPT TO:<nobody@postroom.localhost>\r\n"
            b"RCPT TO:<" + INBOX.encode() + b">\r\nDATA\r\n" + MAIL + b".\r\n"
            b"MAIL FROM:<bob@example.org>\r\nRCPT TO:<" + INBOX.encode() + b">\r\nDATA\r\n" + MAIL + b".\r\nQUIT\r\n"
        )
        codes = [line[:3] for line in (await peer.everything()).decode().splitlines() if line[3:4] == " "]
        assert codes == ["250", "250", "550", "250", "354", "250", "250", "250", "354", "250", "221"]
        assert [envelope.mail_from for envelope, _ in door.intake.mails] == ["ann@example.org", "bob@example.org"]


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 20, b"\x16\x03\x01\x02\x00\n" * 100, b"\n" * 100])
async def test_a_peer_that_speaks_something_else_is_sent_away(junk: bytes) -> None:
    async with open_door() as door:
        async with door.peer(greet=False) as peer:
            await peer.say(junk)
            replies = (await peer.everything()).decode().splitlines()
            assert all(line[:3] in ("500", "502", "421") for line in replies)
        async with door.peer() as peer:
            await peer.begin()
            assert (await peer.ask(MAIL + b"."))[:3] == "250"


async def test_commands_that_end_in_a_bare_lf_are_refused() -> None:
    async with open_door() as door, door.peer(greet=False) as peer:
        await peer.say(b"EHLO a\nMAIL FROM:<ann@example.org>\n")
        assert await peer.reply() == "500 5.5.2 a command line ends in CR LF"
        assert await peer.reply() == "500 5.5.2 a command line ends in CR LF"
        assert await peer.ask(b"MAIL FROM:<ann@example.org>") == "503 5.5.1 Say EHLO first"


@pytest.mark.parametrize("last", [b"", b"half a line", b"\r\n", b"\r\n.", b"\r\n.\r"])
async def test_a_peer_that_dies_before_the_last_dot_leaves_nothing(last: bytes) -> None:
    async with open_door() as door:
        async with door.peer() as peer:
            await peer.begin()
            await peer.say(b"Subject: half" + last)
            await peer.end_of_input()
            assert await peer.everything() == b""
        async with door.peer() as peer:
            await peer.begin()
            await peer.say(b"Subject: half" + last)
            peer.reset()
        assert door.intake.mails == []


async def test_a_peer_that_closes_its_side_early_still_gets_every_answer() -> None:
    async with open_door() as door, door.peer() as peer:
        await peer.say(b"MAIL FROM:<ann@example.org>\r\nRCPT TO:<" + INBOX.encode() + b">\r\nDATA\r\n" + MAIL + b".\r\n")
        await peer.end_of_input()
        codes = [line[:3] for line in (await peer.everything()).decode().splitlines()]
        assert codes == ["250", "250", "354", "250"]
        assert door.intake.raws == [MAIL]


async def test_bytes_that_complete_no_command_do_not_buy_time() -> None:
    async with open_door(idle_s=0.2) as door, door.peer(greet=False) as peer:
        for _ in range(50):
            await peer.say(b"N")
        assert await peer.everything() == b"421 4.4.2 Too slow, closing\r\n"
