"""Who sent it, looked into when mail arrives: what is stored, shown and concluded."""

import asyncio
from dataclasses import replace

import pytest

from postroom.config import Config, Inbound
from postroom.model.paging import PageRequest
from postroom.office.authenticate import Authenticator
from postroom.office.content import read_content
from postroom.office.correspondents import note_written
from postroom.office.ingest import Ingest
from postroom.office.parsing import SplitReader
from signed import Dns, key_record, mail, signed

from .conftest import ALL, OWNER

PEER = "198.51.100.7"
SPF = {("customer.example", "TXT"): [b"v=spf1 ip4:198.51.100.0/24 -all"]}
DMARC = {("_dmarc.customer.example", "TXT"): [b"v=DMARC1; p=reject"]}


async def proved(raw: bytes, dns: Dns, *, mail_from: str = "ada@customer.example", peer: str = PEER, **config: str):
    authenticator = Authenticator(Inbound(**config), "house.example", dns, budget_s=3)
    return await authenticator.authenticate(raw, read_content(raw), mail_from=mail_from, peer=peer)


def codes(message):
    return [finding.code for finding in message.findings]


def verdict(content):
    found = content.authentication
    return found.spf, found.dkim, found.dmarc, found.passed


ALTERED_BODY = signed(mail()).replace(b"Hello Scout", b"Hello Scoot")
ALTERED_SUBJECT = signed(mail()).replace(b"Subject: Offer", b"Subject: Order")
TWO_FROM = b"From: boss@customer.example\r\n" + signed(mail())


@pytest.mark.parametrize(
    ("raw", "records", "expected"),
    [
        (signed(mail()), {**key_record("customer.example"), **SPF, **DMARC}, ("pass", "pass", "pass", True)),
        (signed(mail()), {**key_record("customer.example")}, ("none", "pass", "none", True)),
        (signed(mail(), algorithm="ed25519-sha256"), {**key_record("customer.example"), **DMARC}, ("none", "pass", "pass", True)),
        (mail(), {**SPF, **DMARC}, ("pass", "none", "pass", True)),
        (mail(), DMARC, ("none", "none", "fail", False)),
        (ALTERED_BODY, {**key_record("customer.example"), **DMARC}, ("none", "fail", "fail", False)),
        (ALTERED_SUBJECT, {**key_record("customer.example"), **DMARC}, ("none", "fail", "fail", False)),
        (TWO_FROM, {**key_record("customer.example"), **SPF}, ("pass", "fail", "fail", False)),
        (mail("a@customer.example, b@customer.example"), {**SPF, **DMARC}, ("pass", "none", "fail", False)),
        (signed(mail(), "evil.example"), {**key_record("evil.example"), **DMARC}, ("none", "pass", "fail", False)),
        (
            signed(mail("Ada <ada@mail.customer.example>")),
            {**key_record("customer.example"), **DMARC},
            ("none", "pass", "pass", True),
        ),
        (
            signed(mail(), length=True) + b"appended\r\n",
            {**key_record("customer.example"), **DMARC},
            ("none", "policy", "fail", False),
        ),
        (signed(mail()), DMARC, ("none", "fail", "fail", False)),
    ],
)
async def test_a_sender_is_proved_by_alignment(raw, records, expected):
    spf = SPF if expected[0] == "pass" else {}
    assert verdict(await proved(raw, Dns({**records, **spf}))) == expected


async def test_spf_fails_from_a_foreign_address_and_is_silent_about_our_own_network():
    dns = Dns({**SPF, **DMARC})
    assert verdict(await proved(mail(), dns, peer="203.0.113.9")) == ("fail", "none", "fail", False)
    for ours in ("127.0.0.1", "10.1.2.3", "fd00::1", ""):
        assert (await proved(mail(), dns, peer=ours)).authentication.spf == "none"
    assert (await proved(mail(), dns, mail_from="")).authentication.spf == "none"


async def test_spf_stops_at_too_many_questions_and_at_too_many_empty_answers():
    loop = {(f"l{n}.example", "TXT"): [f"v=spf1 include:l{n + 1}.example -all".encode()] for n in range(30)}
    dns = Dns({("customer.example", "TXT"): [b"v=spf1 include:l0.example -all"], **loop})
    assert (await proved(mail(), dns)).authentication.spf == "permerror"
    assert len(dns.asked) <= 14
    void = Dns({("customer.example", "TXT"): [b"v=spf1 a:n1.example a:n2.example a:n3.example a:n4.example +all"]})
    assert (await proved(mail(), void)).authentication.spf == "permerror"


async def test_dns_that_does_not_answer_is_a_temporary_failure_and_no_forgery():
    silent = ("test._domainkey.customer.example", "customer.example")
    found = await proved(signed(mail()), Dns(DMARC, silent))
    assert verdict(found) == ("temperror", "temperror", "temperror", False)
    assert [entry.code for entry in found.findings] == ["not_authenticated"]


async def test_a_slow_dns_costs_a_mail_its_proof_and_not_its_delivery():
    class Never:
        async def lookup(self, name, kind):
            await asyncio.Event().wait()

    raw = signed(mail())
    authenticator = Authenticator(Inbound(), "house.example", Never(), budget_s=0.2)
    found = await authenticator.authenticate(raw, read_content(raw), mail_from="ada@customer.example", peer=PEER)
    assert found.authentication is not None
    assert found.authentication.passed is False
    assert found.authentication.failed is False


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n",
        b"DKIM-Signature: v=1\r\n\r\n",
        b"DKIM-Signature: " + b";" * 9000 + b"\r\nFrom: a@b.example\r\n\r\nx",
        b"From a\r\n" * 50,
    ],
)
async def test_whatever_the_mail_does_to_a_library_it_is_delivered(raw):
    assert (await proved(raw, Dns({}))).authentication.passed is False


TRUSTED = "Authentication-Results: mx.house.example; dkim=pass header.d=customer.example; dmarc=pass header.from=customer.example"


async def test_the_word_of_the_configured_server_counts_and_a_forged_one_below_its_own_trace_does_not():
    believed = {"authserv_id": "mx.house.example"}
    front = mail(extra=["X: y"]).replace(b"From:", TRUSTED.encode() + b"\r\nReceived: by mx.house.example\r\nFrom:", 1)
    found = await Authenticator(Inbound(**believed), "house.example").authenticate(
        front, read_content(front), mail_from="x@y.example", peer="127.0.0.1"
    )
    assert (found.authentication.passed, found.authentication.by) == (True, "mx.house.example")
    forged = b"Received: by mx.house.example\r\nReceived: from elsewhere\r\n" + TRUSTED.encode() + b"\r\n" + mail()
    found = await Authenticator(Inbound(**believed), "house.example").authenticate(
        forged, read_content(forged), mail_from="x@y.example", peer="127.0.0.1"
    )
    assert found.authentication.passed is False
    assert "dmarc=pass" not in found.headers["Authentication-Results"]


async def test_what_a_sender_claims_in_our_name_is_not_shown():
    forged = b"Authentication-Results: house.example; dmarc=pass\r\n" + mail()
    found = await proved(forged, Dns(DMARC))
    assert found.headers["Authentication-Results"] == "house.example; spf=none; dkim=none; dmarc=fail; arc=none"


@pytest.fixture
def checked(house):
    """The house, with a DNS that knows Ada's domain."""
    dns = Dns({**key_record("customer.example"), **DMARC})
    house.ingest = Ingest(house.store, SplitReader(), authenticator=Authenticator(Inbound(), "house.example", dns))
    return house


async def arrive(house, raw: bytes):
    await house.arrive(raw, "scout@postroom.localhost", mail_from="ada@customer.example")
    kinds = [kind for kind, _ in await house.events() if kind.startswith("message.received")]
    page = await house.mail.list_messages(
        OWNER, "scout@postroom.localhost", replace(ALL, include=frozenset({"unauthenticated", "blocked"})), PageRequest()
    )
    message = await house.mail.get_message(OWNER, "scout@postroom.localhost", page.items[0].message_id)
    return kinds[-1], message


async def test_results_are_stored_and_shown_and_a_proved_address_we_wrote_to_is_known(checked):
    await checked.inbox("scout")
    kind, message = await arrive(checked, signed(mail()))
    assert (kind, message.authentication.passed, codes(message)) == ("message.received", True, ["first_contact"])
    assert "dkim=pass" in message.headers["Authentication-Results"]
    assert await checked.mail.is_authenticated(OWNER, "Ada@Customer.example") is False  # nobody wrote to her yet
    await checked.store.write(lambda tx: note_written(tx, OWNER.pod_id, ["ada@customer.example"], at=1))
    assert await checked.mail.is_authenticated(OWNER, "ada@CUSTOMER.example") is True
    assert await checked.mail.is_authenticated(OWNER, "eve@customer.example") is False


async def test_several_authors_are_a_finding_with_or_without_checks(house):
    await house.inbox("scout")
    _, message = await arrive(house, TWO_FROM)
    assert codes(message) == ["first_contact", "multiple_from"]


async def test_forged_mail_is_kept_marked_and_wakes_nobody(checked):
    await checked.inbox("scout")
    kind, message = await arrive(checked, mail())
    assert kind == "message.received.unauthenticated"
    assert "unauthenticated" in message.labels
    assert codes(message) == ["first_contact", "auth_fail"]
    assert message.authentication.failed is True


async def test_an_allow_entry_lets_the_proved_address_in_and_not_its_forger(checked):
    await checked.inbox("scout")
    await checked.mail.create_entry(OWNER, None, "receive", "allow", "ada@customer.example")
    assert (await arrive(checked, signed(mail())))[0] == "message.received"
    kind, message = await arrive(checked, mail(text="forged"))
    assert kind == "message.received.blocked"
    assert {"blocked", "unauthenticated"} <= set(message.labels)


async def test_local_mail_and_mail_in_a_house_without_checks_is_not_judged(house):
    await house.inbox("scout")
    _, message = await arrive(house, mail())
    assert (message.authentication, codes(message)) == (None, ["first_contact"])
    assert Authenticator(Config().inbound, "house.example").works is False
