"""Framing: whatever the bytes and however they are cut, a mail is what was sent and a command is one line."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.interfaces.smtp.incoming import BadLine, Incoming, MailRefused

PIECES = st.lists(st.sampled_from([b"\r\n", b"\r", b"\n", b".", b"..", b"\0", b"a", b"\xff", b"\r\n.", b"text"]), max_size=30)
LIMITS = {"size": 10_000, "line": 1_000}


def incoming(*chunks: bytes) -> Incoming:
    """Each chunk arrives as one read."""

    class Chunks(asyncio.StreamReader):
        async def read(self, n: int = -1) -> bytes:
            return left.pop(0) if left else b""

    left = list(chunks)
    return Incoming(Chunks())


def on_the_wire(mail: bytes) -> bytes:
    stuffed = (b"\r\n" + mail).replace(b"\r\n.", b"\r\n..")[2:]
    return stuffed + b".\r\n"


@settings(max_examples=300, deadline=None)
@given(pieces=PIECES, cuts=st.lists(st.integers(0, 120), max_size=5))
def test_a_mail_arrives_byte_for_byte_however_it_is_cut(pieces: list[bytes], cuts: list[int]) -> None:
    mail = b"".join(pieces) + b"\r\n"
    wire = on_the_wire(mail) + b"NOOP\r\n"
    marks = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    chunks = [wire[start:end] for start, end in pairwise(marks) if end > start]

    async def read() -> tuple[bytes, bytes]:
        reader = incoming(*chunks)
        return await reader.mail(**LIMITS), await reader.readuntil()

    assert asyncio.run(read()) == (mail, b"NOOP\r\n")


async def test_a_mail_of_no_lines_is_empty() -> None:
    assert await incoming(b".\r\n").mail(**LIMITS) == b""


@pytest.mark.parametrize(("length", "taken"), [(1_000, True), (1_001, False)])
async def test_a_line_is_measured_with_its_line_end(length: int, taken: bool) -> None:
    mail = b"a: b\r\n\r\n" + b"x" * (length - 2) + b"\r\nend\r\n"
    reader = incoming(on_the_wire(mail), b"NOOP\r\n")
    if taken:
        assert await reader.mail(**LIMITS) == mail
    else:
        with pytest.raises(MailRefused, match=r"^500 5\.5\.2 A line may have 1000 bytes$"):
            await reader.mail(**LIMITS)
    assert await reader.readuntil() == b"NOOP\r\n"


@pytest.mark.parametrize("filler", [b"x" * 98 + b"\r\n", b".\r\n", b"..\r\n"])
async def test_size_is_measured_without_the_doubled_dots(filler: bytes) -> None:
    mail = (filler * 10_000)[:9_998]
    mail = mail.replace(b"\r", b"x") if mail.endswith(b"\r") else mail
    exact = mail + b"\r\n"
    assert await incoming(on_the_wire(exact)).mail(**LIMITS) == exact
    with pytest.raises(MailRefused, match=r"^552 5\.3\.4 A mail may have 10000 bytes$"):
        await incoming(on_the_wire(b"x" + exact)).mail(**LIMITS)


async def test_a_flood_is_read_to_its_end_and_kept_nowhere() -> None:
    reader = incoming(*[b"x" * 998 + b"\r\n"] * 1_000, b".\r\nNOOP\r\n")
    with pytest.raises(MailRefused, match=r"^552 5\.3\.4"):
        await reader.mail(**LIMITS)
    assert await reader.readuntil() == b"NOOP\r\n"


async def test_a_line_without_end_is_thrown_away_up_to_the_next_line_end() -> None:
    reader = incoming(*[b"A" * 5_000] * 100, b"\r\nNOOP\r\n")
    with pytest.raises(BadLine, match="a command line may have 2048 bytes"):
        await reader.readuntil()
    assert await reader.readuntil() == b"NOOP\r\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"NOOP\n", "a command line ends in CR LF"),
        (b"NOOP\r\r\n", "control characters are not allowed in a command"),
        (b"NO\0OP\r\n", "control characters are not allowed in a command"),
        (b"NOOP\x7f\r\n", "control characters are not allowed in a command"),
        (b"NOOP\rMAIL FROM:<a@b>\r\n", "control characters are not allowed in a command"),
    ],
)
async def test_a_line_that_could_be_two_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(BadLine, match=why):
        await incoming(line).readuntil()


async def test_a_peer_that_is_gone_ends_the_conversation() -> None:
    with pytest.raises(asyncio.CancelledError):
        await incoming(b"From: ann\r\n").mail(**LIMITS)
    with pytest.raises(asyncio.CancelledError):
        await incoming(b"NO").readuntil()
