"""Mail to the relay: what is on the wire, and what each way of failing means for the outbox."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pace import PATIENCE_S
from postroom import config
from postroom.errors import Invalid, TransportFailure
from postroom.testing import DROP, SmtpSink
from postroom.wires.smtp import Patience, Rejection, Relay, RelayResult

MAIL = b"From: agent@postroom.example\r\nTo: ann@example.org\r\nSubject: hi\r\n\r\nhello\r\n"
SENDER = "agent@postroom.example"
SHORT = Patience(connect_s=0.2, command_s=0.2, final_s=0.2, goodbye_s=0.2)


def relay_to(sink: SmtpSink, **settings: object) -> Relay:
    return Relay(config.Relay(host="127.0.0.1", port=sink.port, tls="off", **settings), "postroom.example")


async def failure_of(relay: Relay, raw: bytes = MAIL, mail_from: str = SENDER) -> TransportFailure:
    with pytest.raises(TransportFailure) as caught:
        await relay.deliver(mail_from, ["ann@example.org"], raw)
    return caught.value


@pytest.mark.parametrize(
    "raw",
    [
        MAIL,
        b"Subject: dots\r\n\r\n.\r\n..\r\n.a\r\na.\r\n.\r\n",
        b".\r\n",
        b"\r\n",
        b"Subject: long\r\n\r\n" + b"x" * 60_000 + b"\r\n",
        b"Subject: large\r\n\r\n" + (b"." * 76 + b"\r\n") * 60_000,
    ],
    ids=["plain", "dots", "only-a-dot", "empty-line", "long-line", "large"],
)
async def test_the_receiver_has_exactly_the_bytes_given(raw: bytes) -> None:
    async with SmtpSink() as sink:
        result = await relay_to(sink).deliver(SENDER, ["ann@example.org", "bob@example.net"], raw)
        assert result == RelayResult(accepted=("ann@example.org", "bob@example.net"))
        (mail,) = sink.mails
        assert (mail.mail_from, mail.rcpt_to) == (SENDER, ("ann@example.org", "bob@example.net"))
        assert mail.raw == raw


async def test_the_null_sender_is_sent_as_such() -> None:
    async with SmtpSink() as sink:
        await relay_to(sink).deliver("", ["ann@example.org"], MAIL)
        assert sink.mails[0].mail_from == ""


async def test_a_domain_outside_ascii_travels_as_a_labels() -> None:
    async with SmtpSink() as sink:
        result = await relay_to(sink).deliver(SENDER, ["ann@bücher.example"], MAIL)
        assert result.accepted == ("ann@bücher.example",)
        assert sink.mails[0].rcpt_to == ("ann@xn--bcher-kva.example",)


async def test_some_recipients_refused_means_the_others_have_it() -> None:
    refusals = {"gone@example.org": "550 5.1.1 No such\x1b[31m user", "busy@example.org": "450 4.2.1 Later"}
    async with SmtpSink(recipient_replies=refusals) as sink:
        result = await relay_to(sink).deliver(SENDER, ["gone@example.org", "ann@example.org", "busy@example.org"], MAIL)
        assert result.accepted == ("ann@example.org",)
        assert dict(result.refused) == {
            "gone@example.org": Rejection(code=550, text="5.1.1 No such?[31m user", permanent=True),
            "busy@example.org": Rejection(code=450, text="4.2.1 Later", permanent=False),
        }
        assert sink.mails[0].rcpt_to == ("ann@example.org",)


async def test_when_every_recipient_is_refused_no_mail_is_sent() -> None:
    async with SmtpSink(recipient_replies={"gone@example.org": "550 5.1.1 " + "x" * 400}) as sink:
        result = await relay_to(sink).deliver(SENDER, ["gone@example.org"], MAIL)
        assert result.accepted == ()
        assert len(result.refused["gone@example.org"].text) == 200
        assert sink.mails == []


@pytest.mark.parametrize(
    "address",
    [
        "ann@example.org>\r\nRCPT TO:<eve@example.org",
        "ann@example.org, eve@example.org",
        '"ann\r\n"@example.org',
        "ann@example.org> ORCPT=x",
        "ann",
        "",
        "jürgen@example.org",
    ],
)
async def test_an_address_that_is_not_exactly_one_never_reaches_the_relay(address: str) -> None:
    async with SmtpSink() as sink:
        result = await relay_to(sink).deliver(SENDER, [address, "ann@example.org"], MAIL)
        assert result.accepted == ("ann@example.org",)
        assert (result.refused[address].code, result.refused[address].permanent) == (553, True)
        assert sink.mails[0].rcpt_to == ("ann@example.org",)


async def test_a_sender_that_is_not_an_address_is_a_permanent_failure() -> None:
    async with SmtpSink() as sink:
        failure = await failure_of(relay_to(sink), mail_from="agent@postroom.example>\r\nRSET")
        assert failure.kind == "permanent"
        assert "\r" not in failure.message
        assert sink.mails == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"Subject: no end",
        b"Subject: a\nb\r\n",
        b"Subject: a\rb\r\n",
        b"a\r\n.\nQUIT\r\n",
        b"a\r\r\n",
        b"a\n\r\n",
        "Subject: ä\r\n".encode(),
        b"a\0b\r\n",
    ],
)
async def test_bytes_a_relay_might_read_differently_are_not_sent(raw: bytes) -> None:
    async with SmtpSink() as sink:
        failure = await failure_of(relay_to(sink), raw)
        assert (failure.kind, failure.message) == ("permanent", "only 7-bit mail whose lines end in CR LF can leave")
        assert sink.mails == []


@pytest.mark.parametrize(("reply", "kind"), [("451 4.3.0 Try later", "temporary"), ("554 5.7.1 Spam", "permanent")])
async def test_a_refusal_keeps_the_relays_words_apart_from_ours(reply: str, kind: str) -> None:
    code, text = int(reply[:3]), reply[4:]
    async with SmtpSink(data_reply=reply) as sink:
        failure = await failure_of(relay_to(sink))
        assert (failure.kind, failure.message) == (kind, f"the relay refused the mail ({code})")
        assert failure.details == {"code": code, "reply": text}
        sink.data_reply, sink.sender_reply = "", reply
        failure = await failure_of(relay_to(sink))
        assert (failure.kind, failure.message) == (kind, f"the relay refused the sender ({code})")


async def test_a_connection_lost_after_the_final_dot_is_uncertain() -> None:
    async with SmtpSink(data_reply=DROP) as sink:
        failure = await failure_of(relay_to(sink))
        assert failure.kind == "uncertain"
        assert failure.message == f"the relay 127.0.0.1:{sink.port} had the whole mail but gave no answer"
        assert [mail.raw for mail in sink.mails] == [MAIL]


async def test_a_relay_that_is_not_there_is_a_temporary_failure() -> None:
    async with SmtpSink() as sink:
        relay = relay_to(sink)
    failure = await failure_of(relay)
    assert (failure.kind, failure.fix) == ("temporary", "check relay.host and relay.port")


class Step(NamedTuple):
    """What a scripted relay does: after `until` was read, say `reply` (None: close)."""

    until: bytes
    reply: bytes | None


@asynccontextmanager
async def scripted(*steps: Step) -> AsyncIterator[Relay]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            for until, reply in steps:
                if until:
                    await reader.readuntil(until)
                if reply is None:
                    break
                writer.write(reply)
            else:
                await reader.read()
        writer.transport.abort()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 24)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Relay(config.Relay(host="127.0.0.1", port=port, tls="off"), "postroom.example", patience=SHORT)
    finally:
        server.close()
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()


HELLO = (Step(b"", b"220 relay\r\n"), Step(b"EHLO postroom.example\r\n", b"250 relay\r\n"))
ENVELOPE = (
    *HELLO,
    Step(b"MAIL FROM:<agent@postroom.example>\r\n", b"250 ok\r\n"),
    Step(b"RCPT TO:<ann@example.org>\r\n", b"250 ok\r\n"),
)


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ((Step(b"", None),), "temporary"),
        ((Step(b"", b"554 go away\r\n"),), "temporary"),
        ((Step(b"", b"not smtp\r\n"),), "temporary"),
        ((), "temporary"),
        ((*HELLO, Step(b"MAIL FROM", None)), "temporary"),
        ((*ENVELOPE, Step(b"DATA\r\n", None)), "temporary"),
        ((*ENVELOPE, Step(b"DATA\r\n", b"554 no\r\n")), "permanent"),
        ((*ENVELOPE, Step(b"DATA\r\n", b"354 go\r\n"), Step(b"Subject", None)), "temporary"),
        ((*ENVELOPE, Step(b"DATA\r\n", b"354 go\r\n"), Step(b"\r\n.\r\n", None)), "uncertain"),
        ((*ENVELOPE, Step(b"DATA\r\n", b"354 go\r\n"), Step(b"\r\n.\r\n", b"")), "uncertain"),
        ((*ENVELOPE, Step(b"DATA\r\n", b"354 go\r\n"), Step(b"\r\n.\r\n", b"gibberish\r\n")), "uncertain"),
    ],
)
async def test_where_a_relay_fails_decides_what_the_failure_means(steps: tuple[Step, ...], kind: str) -> None:
    body = b"x" * 998 + b"\r\n"
    async with scripted(*steps) as relay:
        failure = await failure_of(relay, b"Subject: large\r\n\r\n" + body * 8_000)
        assert failure.kind == kind


class Authority(NamedTuple):
    """A certificate for 127.0.0.1, and the context of a client that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder: Path = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sink.example")])
    now = datetime.now(UTC)
    loopback = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(loopback, critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return Authority(server, ssl.create_default_context(cafile=str(folder / "cert.pem")))


def secure_relay(sink: SmtpSink, context: ssl.SSLContext | None, *, tls: str = "starttls", host: str = "localhost") -> Relay:
    settings = config.Relay(host=host, port=sink.port, tls=tls, user="postroom", password="env:RELAY_PASSWORD")
    return Relay(
        settings, "postroom.example", lambda reference: {"env:RELAY_PASSWORD": "opensesame"}[reference], tls_context=context
    )


@pytest.mark.parametrize("implicit", [False, True])
async def test_a_relay_is_logged_into_over_tls(authority: Authority, implicit: bool) -> None:
    async with SmtpSink(tls=authority.server, implicit=implicit, users={"postroom": "opensesame"}) as sink:
        relay = secure_relay(sink, authority.client, tls="implicit" if implicit else "starttls")
        assert (await relay.deliver(SENDER, ["ann@example.org"], MAIL)).accepted == ("ann@example.org",)
        assert sink.mails[0].raw == MAIL


async def test_a_wrong_password_keeps_the_mail_and_says_what_to_check(authority: Authority) -> None:
    async with SmtpSink(tls=authority.server, users={"postroom": "other"}) as sink:
        failure = await failure_of(secure_relay(sink, authority.client))
        assert (failure.kind, failure.fix) == ("temporary", "check relay.user and relay.password")
        assert "opensesame" not in f"{failure.message} {failure.details}"


@pytest.mark.parametrize("implicit", [False, True])
async def test_a_certificate_nobody_vouches_for_is_not_accepted(authority: Authority, implicit: bool) -> None:
    async with SmtpSink(tls=authority.server, implicit=implicit) as sink:
        failure = await failure_of(secure_relay(sink, None, tls="implicit" if implicit else "starttls"))
        assert (failure.kind, failure.fix) == ("temporary", "check relay.host, relay.tls and its certificate")


async def test_a_certificate_of_another_name_is_not_accepted(authority: Authority) -> None:
    async with SmtpSink(tls=authority.server) as sink:
        failure = await failure_of(secure_relay(sink, authority.client, host="127.0.0.1"))
        assert failure.fix == "check relay.host, relay.tls and its certificate"


async def test_a_relay_without_starttls_is_given_nothing() -> None:
    async with SmtpSink() as sink:
        failure = await failure_of(secure_relay(sink, None))
        assert (failure.kind, failure.fix) == ("temporary", "check relay.tls, relay.user")
        assert sink.mails == []


async def test_a_password_reference_that_leads_nowhere_keeps_the_mail(authority: Authority) -> None:
    def secret(reference: str) -> str:
        raise Invalid("the environment variable RELAY_PASSWORD is not set")

    async with SmtpSink() as sink:
        settings = config.Relay(host="127.0.0.1", port=sink.port, tls="off", user="postroom", password="env:RELAY_PASSWORD")
        failure = await failure_of(Relay(settings, "postroom.example", secret))
        assert (failure.kind, failure.message) == ("temporary", "the environment variable RELAY_PASSWORD is not set")


def test_a_remote_relay_without_tls_is_refused() -> None:
    with pytest.raises(Invalid, match="loopback relay only"):
        Relay(config.Relay(host="mail.example.org", tls="off"), "postroom.example")
