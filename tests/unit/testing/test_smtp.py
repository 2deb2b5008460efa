"""The sender and the sink that users test with, against each other."""

from __future__ import annotations

import asyncio
import smtplib

import pytest

from postroom.testing import DROP, Sent, SinkMail, SmtpSink, ThreadedSink, send_mail

MAIL = b"Subject: hi\r\n\r\n.dot\r\n\n.bare\r\n..\r\n" + b"x" * 100_000 + b"\r\n"


async def send(sink: SmtpSink, *recipients: str, raw: bytes = MAIL) -> Sent:
    return await asyncio.to_thread(send_mail, sink.host, sink.port, "ann@example.org", recipients, raw)


async def test_what_is_sent_is_what_is_recorded() -> None:
    async with SmtpSink() as sink:
        assert (await send(sink, "bob@example.net", "eve@example.net")).code == 250
        expected = SinkMail(mail_from="ann@example.org", rcpt_to=("bob@example.net", "eve@example.net"), raw=MAIL)
        assert await sink.wait_for(1) == [expected]


async def test_a_mail_without_a_last_line_end_gets_one() -> None:
    async with SmtpSink() as sink:
        await send(sink, "bob@example.net", raw=b"Subject: hi")
        assert sink.mails[0].raw == b"Subject: hi\r\n"


async def test_the_sink_refuses_whom_it_is_told_to() -> None:
    async with SmtpSink(recipient_replies={"gone@example.net": "550 5.1.1 Gone"}) as sink:
        assert (await send(sink, "gone@example.net", "bob@example.net")).refused == {"gone@example.net": (550, "5.1.1 Gone")}
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            await send(sink, "gone@example.net")
        sink.sender_reply = "451 4.7.1 Greylisted"
        with pytest.raises(smtplib.SMTPSenderRefused):
            await send(sink, "bob@example.net")


async def test_the_sink_defers_and_drops_and_then_takes_mail_again() -> None:
    async with SmtpSink(data_reply="451 4.3.0 Later") as sink:
        with pytest.raises(smtplib.SMTPDataError):
            await send(sink, "bob@example.net")
        assert sink.mails == []
        sink.data_reply = DROP
        with pytest.raises(smtplib.SMTPServerDisconnected):
            await send(sink, "bob@example.net")
        sink.data_reply = ""
        await send(sink, "bob@example.net")
        assert [mail.raw for mail in sink.mails] == [MAIL, MAIL]


async def test_waiting_for_mail_that_does_not_come_has_an_end() -> None:
    async with SmtpSink() as sink:
        with pytest.raises(TimeoutError):
            await sink.wait_for(1, timeout_s=0.01)


def test_the_sink_runs_beside_a_program_without_a_loop() -> None:
    with ThreadedSink() as sink:
        send_mail(sink.host, sink.port, "", ["bob@example.net"], MAIL)
        assert sink.received == [SinkMail(mail_from="", rcpt_to=("bob@example.net",), raw=MAIL)]
