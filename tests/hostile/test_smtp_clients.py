"""Clients nobody here wrote: smtplib as it is, swaks, and Postfix's smtp-source."""

from __future__ import annotations

import asyncio
import email
import os
import shutil
import smtplib
from pathlib import Path

import pytest

from pace import PATIENCE_S
from smtp_support import INBOX, Door, open_door

MAIL = b"From: ann@example.org\r\nSubject: hi\r\n\r\nhello\r\n.\r\n..dots\r\n"


async def run(*command: str, stdin: bytes = b"") -> tuple[int, str]:
    """Exit status and output of a command, within 30 s."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate(stdin)
    assert process.returncode is not None
    return process.returncode, output.decode("utf-8", "replace")


async def swaks(door: Door, *more: str, data: bytes = MAIL) -> tuple[int, str]:
    if shutil.which("swaks") is None:
        pytest.skip("swaks is not installed")
    server = ("--server", "127.0.0.1", "--port", str(door.port), "--helo", "peer.example")
    return await run("swaks", *server, "--from", "ann@example.org", "--data", "-", *more, stdin=data.replace(b"\r\n", b"\n"))


async def test_smtplib_sends_a_message_object() -> None:
    def send(port: int) -> None:
        message = email.message_from_bytes(MAIL)
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE_S) as client:
            assert client.send_message(message, "ann@example.org", [INBOX, "nobody@postroom.localhost"]) == {
                "nobody@postroom.localhost": (550, b"5.1.1 No such inbox here")
            }
            assert client.has_extn("pipelining")
            assert client.esmtp_features["size"] == "26214400"
            with pytest.raises(smtplib.SMTPNotSupportedError):
                client.login("agent", "am_token")

    async with open_door() as door:
        await asyncio.to_thread(send, door.port)
        assert door.intake.raws == [MAIL]


async def test_swaks_sends_a_mail_as_it_is() -> None:
    async with open_door() as door:
        status, output = await swaks(door, "--to", INBOX)
        assert status == 0, output
        assert "250 2.0.0 Message queued as 1" in output
        assert [raw.rstrip(b"\r\n") for raw in door.intake.raws] == [MAIL.rstrip(b"\r\n")]


async def test_swaks_in_one_pipelined_burst_is_answered_in_order() -> None:
    async with open_door() as door:
        status, output = await swaks(door, "--to", INBOX, "--pipeline")
        assert status == 0, output
        assert len(door.intake.mails) == 1


@pytest.mark.parametrize(
    ("options", "reply"),
    [
        (("--to", "nobody@postroom.localhost"), "550 5.1.1 No such inbox here"),
        (("--to", "ann@example.org"), "550 5.7.1 Relaying denied"),
    ],
)
async def test_swaks_is_told_who_is_not_here(options: tuple[str, ...], reply: str) -> None:
    async with open_door() as door:
        status, output = await swaks(door, *options)
        assert status == 24, output
        assert reply in output
        assert door.intake.mails == []


@pytest.mark.parametrize("options", [("--auth", "PLAIN", "--auth-user", "agent", "--auth-password", "am_x_y"), ("--tls",)])
async def test_swaks_finds_neither_auth_nor_tls(options: tuple[str, ...]) -> None:
    async with open_door() as door:
        status, output = await swaks(door, "--to", INBOX, *options)
        assert status in (28, 29), output
        assert door.intake.mails == []


async def test_smtp_source_delivers_all_it_counts(tmp_path: Path) -> None:
    program = shutil.which("smtp-source", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("smtp-source is not installed")
    options = ("-s", "8", "-m", "200", "-l", "5120", "-f", "ann@example.org", "-t", INBOX, "-M", "peer.example")
    async with open_door() as door:
        for connection in ((), ("-d",)):
            status, output = await run(program, *options, *connection, f"127.0.0.1:{door.port}")
            assert status == 0, output
        assert len(door.intake.mails) == 400
        assert {len(raw) > 5000 for raw in door.intake.raws} == {True}
