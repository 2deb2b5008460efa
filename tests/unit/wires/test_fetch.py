"""One GET from a hostile peer: what is taken of it, and what ends the exchange."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from certificates import certificate
from httppeer import Peer, Request, Response, peer
from pace import PATIENCE_S
from postroom.errors import Invalid, Refused
from postroom.model.mail import AttachmentData
from postroom.wires.fetch import Fetcher

PDF = b"%PDF-1.7 the bytes"
MOST = 1000


async def everywhere_loopback(name: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def fetcher(one: Peer, **more: object) -> Fetcher:
    return Fetcher(exceptions=[one.url.removeprefix("http://")], resolver=everywhere_loopback, **more)  # type: ignore[arg-type]  # a test's keywords


def linked(url: str, **more: str) -> AttachmentData:
    return AttachmentData(content=b"", url=url, **more)  # type: ignore[arg-type]  # a test's keywords


@contextlib.asynccontextmanager
async def raw_peer(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers every connection with these bytes and then says nothing more; what it heard."""
    heard: list[bytes] = []
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await reader.read()  # until the client gives up
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*serving, return_exceptions=True)


async def test_the_bytes_come_with_a_name_from_the_address() -> None:
    async with peer(lambda request: Response(body=PDF)) as one:
        wire = fetcher(one)
        got = await wire.fetch(linked(f"{one.url}/reports/Q3%20figures.pdf?key=1"), most_bytes=MOST)
        await wire.close()
    assert got == AttachmentData(content=PDF, filename="Q3 figures.pdf", content_type="application/json")
    assert [(request.method, request.target) for request in one.requests] == [("GET", "/reports/Q3%20figures.pdf?key=1")]
    assert "authorization" not in one.requests[0].headers
    assert one.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("declared", "taken"),
    [
        (b"application/pdf; x=y", "application/pdf"),
        (b'text/plain;charset="utf-8"', "text/plain; charset=utf-8"),
        (b"TEXT/HTML", "TEXT/HTML"),
        (b"nonsense", None),
        (b"a/b c/d", None),
        (b"", None),
    ],
)
async def test_the_type_is_the_answers_where_it_is_one(declared: bytes, taken: str | None) -> None:
    async with raw_peer(b"HTTP/1.1 200 OK\r\nContent-Type: " + declared + b"\r\nContent-Length: 2\r\n\r\nok") as (port, _):
        wire = Fetcher(exceptions=[f"127.0.0.1:{port}"])
        got = await wire.fetch(linked(f"http://127.0.0.1:{port}/"), most_bytes=MOST)
        await wire.close()
    assert (got.content, got.content_type, got.filename) == (b"ok", taken, None)


async def test_a_name_and_a_type_the_caller_gave_are_kept() -> None:
    async with peer(lambda request: Response(body=PDF)) as one:
        wire = fetcher(one)
        got = await wire.fetch(linked(f"{one.url}/x", filename="a.bin", content_type="image/png"), most_bytes=MOST)
        await wire.close()
    assert (got.filename, got.content_type, got.content, got.url) == ("a.bin", "image/png", PDF, None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_said_and_never_followed(status: int) -> None:
    async with peer(lambda request: Response(body=b"inside")) as elsewhere:
        moved = {"location": f"{elsewhere.url}/inside"}
        async with peer(lambda request: Response(status=status, headers=moved)) as one:
            wire = fetcher(one)
            with pytest.raises(Refused, match="redirect") as problem:
                await wire.fetch(linked(f"{one.url}/x"), most_bytes=MOST)
            await wire.close()
    assert problem.value.fix == "give the address it leads to"
    assert elsewhere.requests == []


@pytest.mark.parametrize("status", [201, 204, 206, 401, 404, 500])
async def test_only_a_plain_200_is_an_attachment(status: int) -> None:
    async with peer(lambda request: Response(status=status, body=b"")) as one:
        wire = fetcher(one)
        with pytest.raises(Refused, match=f"the answer has status {status}"):
            await wire.fetch(linked(f"{one.url}/x"), most_bytes=MOST)
        await wire.close()


async def test_bytes_without_an_end_are_counted_and_cut() -> None:
    async with peer(lambda request: Response(body=b"x" * 1000, chunks=100_000)) as one:
        wire = fetcher(one)
        with pytest.raises(Refused, match="over the 1000000 bytes"):
            await wire.fetch(linked(f"{one.url}/x"), most_bytes=1_000_000)
        await wire.close()
        assert one.sent < 100_000 * 1000


async def test_a_length_over_the_limit_is_not_begun() -> None:
    async with raw_peer(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n") as (port, _):
        wire = Fetcher(exceptions=[f"127.0.0.1:{port}"])
        with pytest.raises(Refused, match="over the 1000 bytes"):
            await wire.fetch(linked(f"http://127.0.0.1:{port}/x"), most_bytes=MOST)
        await wire.close()


async def test_a_compressed_body_is_not_opened() -> None:
    async with peer(lambda request: Response(body=b"\x1f\x8b" + b"x" * 30, headers={"content-encoding": "gzip"})) as one:
        wire = fetcher(one)
        with pytest.raises(Refused, match="compressed"):
            await wire.fetch(linked(f"{one.url}/x"), most_bytes=MOST)
        await wire.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "did not come within"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "did not come within"),
        (b"SMTP ready\r\n\r\n", "the exchange failed"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", "the exchange failed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "the exchange failed"),
    ],
)
async def test_silence_and_what_is_not_http_end_in_a_refusal(answer: bytes, said: str) -> None:
    async with raw_peer(answer) as (port, heard):
        wire = Fetcher(exceptions=[f"127.0.0.1:{port}"], timeout_s=0.5)
        with pytest.raises(Refused, match=said):
            await wire.fetch(linked(f"http://127.0.0.1:{port}/x"), most_bytes=MOST)
        await wire.close()
    assert len(heard) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://[::1]/x",
        "https://169.254.169.254/latest/meta-data/",
        "https://2130706433/x",
        "https://0x7f.1/x",
        "https://[::ffff:10.0.0.1]/x",
        "http://files.example/x",
        "file:///etc/passwd",
        "ftp://files.example/x",
        "https://user:pass@files.example/x",
        "https://files.example\\@127.0.0.1/x",
        "",
    ],
)
async def test_an_address_that_is_not_public_or_no_https_url_is_refused_before_any_socket(url: str) -> None:
    async def never(name: str, port: int) -> Sequence[str]:
        raise AssertionError("nothing is looked up")

    with pytest.raises(Invalid):
        await Fetcher(resolver=never).fetch(linked(url), most_bytes=MOST)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "::1", "fe80::1", "fd00::1"])
async def test_a_public_name_that_leads_inside_is_refused(address: str) -> None:
    async def resolver(name: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", address]

    with pytest.raises(Refused, match="not public") as problem:
        await Fetcher(resolver=resolver).fetch(linked("https://files.example/x"), most_bytes=MOST)
    assert problem.value.fix == "see office.attachment_hosts in the config"


async def test_a_name_that_changes_its_answer_gains_nothing() -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def resolver(name: str, port: int) -> Sequence[str]:
        return next(answers)

    async with peer(lambda request: Response(body=PDF)) as one:
        port = one.url.rpartition(":")[2]
        wire = Fetcher(exceptions=[f"files.test:{port}"], resolver=resolver)
        assert (await wire.fetch(linked(f"http://files.test:{port}/x"), most_bytes=MOST)).content == PDF
        await wire.close()
    assert next(answers) == ["10.0.0.1"]  # it was asked once


async def test_another_port_of_a_listed_host_is_not_listed() -> None:
    async with peer(lambda request: Response(body=PDF)) as one, peer(lambda request: Response(body=PDF)) as other:
        with pytest.raises(Invalid):
            await fetcher(one).fetch(linked(f"{other.url}/x"), most_bytes=MOST)
        assert other.requests == []


async def test_listed_only_means_no_host_but_those() -> None:
    async def never(name: str, port: int) -> Sequence[str]:
        raise AssertionError("nothing is looked up")

    with pytest.raises(Refused, match=r"files\.example is not fetched for this agent"):
        await Fetcher(resolver=never).fetch(linked("https://files.example/x?said=secret"), most_bytes=MOST, listed_only=True)


async def test_the_certificate_must_be_the_names(tmp_path: Path) -> None:
    server, trust = certificate(tmp_path, "files.example")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    hosts = [f"files.example:{port}", f"other.example:{port}"]
    wire = Fetcher(exceptions=hosts, resolver=everywhere_loopback, trust=trust)
    assert (await wire.fetch(linked(f"https://files.example:{port}/x"), most_bytes=MOST)).content == b"ok"
    with pytest.raises(Refused, match="cannot connect"):
        await wire.fetch(linked(f"https://other.example:{port}/x"), most_bytes=MOST)
    await wire.close()
    listening.close()


async def test_only_so_many_go_on_at_once() -> None:
    going, most, release = 0, 0, asyncio.Event()

    async def slow(request: Request) -> Response:
        nonlocal going, most
        going += 1
        most = max(most, going)
        if going == 4:
            release.set()
        await release.wait()
        going -= 1
        return Response(body=b"x")

    async with peer(slow) as one:
        wire = fetcher(one)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(wire.fetch(linked(f"{one.url}/{number}"), most_bytes=MOST) for number in range(12)))
        await wire.close()
    assert most == 4
