"""Domains over a real store: adding one, its records, what the DNS says of them, and that mail is delivered there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from postroom.errors import Conflict, Forbidden, Invalid, NotFound, PostroomError, TransportFailure
from postroom.model.domain import DnsRecord, DomainFlags
from postroom.model.event import DOMAIN_VERIFIED
from postroom.model.mail import NewInbox
from postroom.model.paging import PageRequest
from postroom.office.local import LocalDomains
from postroom.wires.dns import Answer, Kind

from .conftest import ALL, FIRST, OWNER, House, agent, letter

NAME = "agents.mail.org"
FLAGS = DomainFlags()


class Dns:
    """Answers from a table."""

    def __init__(self, answers: Mapping[tuple[str, Kind], tuple[Answer, ...]], *, silent: bool = False) -> None:
        self.answers = answers
        self.silent = silent

    async def lookup(self, name: str, kind: Kind) -> tuple[Answer, ...]:
        if self.silent:
            raise TransportFailure("DNS did not answer", kind="temporary")
        return self.answers.get((name, kind), ())


GOOD: Mapping[tuple[str, Kind], tuple[Answer, ...]] = {
    (NAME, "MX"): ((10, "mx.elsewhere.org"),),
    (NAME, "TXT"): (b"google-site=1", b"v=spf1 mx -all"),
    (f"_dmarc.{NAME}", "TXT"): (b"v=DMARC1; p=reject",),
}


async def kinds(house: House) -> list[str]:
    return [kind for kind, _ in await house.events(DOMAIN_VERIFIED)]


def states(records: tuple[DnsRecord, ...]) -> dict[str, str]:
    return {f"{record.type} {record.name}": record.status for record in records}


async def test_a_new_domain_says_which_records_to_set_and_works_at_once(house: House) -> None:
    made = await house.mail.create_domain(OWNER, " Agents.Mail.ORG. ", FLAGS)
    assert (made.name, made.status, states(made.records)) == (
        NAME,
        "NOT_STARTED",
        {
            f"MX {NAME}": "MISSING",
            f"TXT {NAME}": "MISSING",
            f"TXT postroom._domainkey.{NAME}": "MISSING",
            f"TXT _dmarc.{NAME}": "MISSING",
        },
    )
    inbox = await house.mail.create_inbox(OWNER, NewInbox(username="ada", domain=NAME))
    await house.arrive(letter(to=inbox.inbox_id), inbox.inbox_id)
    page = await house.mail.list_threads(OWNER, inbox.inbox_id, ALL, FIRST)
    assert len(page.items) == 1
    assert house.mail.domains == ("postroom.localhost", NAME)


async def test_all_records_found_is_verified_and_told_once(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    house.mail.looked_up_by(Dns(GOOD))
    found = await house.mail.verify_domain(OWNER, NAME)
    await house.mail.verify_domain(OWNER, NAME)
    assert (found.status, found.reason, await kinds(house)) == ("VERIFIED", None, [DOMAIN_VERIFIED])
    assert states(found.records)[f"TXT postroom._domainkey.{NAME}"] == "MISSING"  # the signing server's own business


@pytest.mark.parametrize(
    ("change", "reason", "record", "status"),
    [
        ({(NAME, "MX"): ()}, "dns_records_missing", f"MX {NAME}", "MISSING"),
        ({(NAME, "TXT"): (b"other",)}, "dns_records_missing", f"TXT {NAME}", "MISSING"),
        ({(NAME, "TXT"): (b"v=spf1 -all", b"v=spf1 mx -all")}, "dns_records_invalid", f"TXT {NAME}", "INVALID"),
    ],
)
async def test_what_is_missing_or_wrong_is_named(
    house: House, change: Mapping[tuple[str, Kind], tuple[Answer, ...]], reason: str, record: str, status: str
) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    house.mail.looked_up_by(Dns({**GOOD, **change}))
    found = await house.mail.verify_domain(OWNER, NAME)
    assert (found.status, found.reason, states(found.records)[record], await kinds(house)) == ("PENDING", reason, status, [])


async def test_a_record_needed_anew_makes_a_domain_wait(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    house.mail.looked_up_by(Dns(GOOD))
    await house.mail.verify_domain(OWNER, NAME)
    wider = await house.mail.update_domain(OWNER, NAME, {"subdomains": True})
    assert (wider.status, states(wider.records)[f"MX *.{NAME}"]) == ("PENDING", "MISSING")
    assert (await house.mail.update_domain(OWNER, NAME, {"inbound": False})).records[0].type == "TXT"
    with pytest.raises(Invalid):
        await house.mail.update_domain(OWNER, NAME, {})


async def test_a_name_no_record_can_be_set_for_is_verified_when_asked(house: House) -> None:
    made = await house.mail.create_domain(OWNER, "agents.test", FLAGS)
    assert (made.status, made.records) == ("NOT_STARTED", ())
    assert (await house.mail.verify_domain(OWNER, "agents.test")).status == "VERIFIED"
    assert await kinds(house) == [DOMAIN_VERIFIED]


async def test_a_dns_that_does_not_answer_changes_nothing(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    house.mail.looked_up_by(Dns({}, silent=True))
    with pytest.raises(PostroomError) as caught:
        await house.mail.verify_domain(OWNER, NAME)
    assert (caught.value.code, (await house.mail.get_domain(OWNER, NAME)).status) == ("unprocessable", "NOT_STARTED")


async def test_the_configs_domain_is_listed_and_stays(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    first = await house.mail.list_domains(OWNER, PageRequest(limit=1))
    rest = await house.mail.list_domains(OWNER, PageRequest(limit=1, page_token=first.next_page_token))
    assert [row.name for row in (*first.items, *rest.items)] == [NAME, "postroom.localhost"]
    with pytest.raises(Conflict, match="config"):
        await house.mail.delete_domain(OWNER, "postroom.localhost")


async def test_a_domain_goes_when_no_inbox_is_at_it(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    inbox = await house.mail.create_inbox(OWNER, NewInbox(username="ada", domain=NAME))
    with pytest.raises(Conflict, match="inboxes"):
        await house.mail.delete_domain(OWNER, NAME)
    await house.mail.delete_inbox(OWNER, inbox.inbox_id)
    await house.mail.delete_domain(OWNER, NAME)
    with pytest.raises(NotFound):
        await house.mail.get_domain(OWNER, NAME)
    with pytest.raises(Forbidden):
        await house.mail.create_inbox(OWNER, NewInbox(username="ada", domain=NAME))


async def test_domains_added_are_known_after_a_restart(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    again = LocalDomains(house.store, house.config)
    assert (NAME in again, list(again), len(again)) == (True, ["postroom.localhost", NAME], 2)


@pytest.mark.parametrize(
    "name", ["", "localhost", "a b.example", "-a.example", "a..example", "x" * 64 + ".example", "a@b.example"]
)
async def test_what_is_no_domain_is_refused(house: House, name: str) -> None:
    with pytest.raises(Invalid):
        await house.mail.create_domain(OWNER, name, FLAGS)


async def test_a_domain_is_added_once_and_by_the_owner(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, FLAGS)
    with pytest.raises(Forbidden) as caught:
        await house.mail.create_domain(OWNER, NAME.upper(), FLAGS)
    assert caught.value.code == "already_exists"
    for verb in (house.mail.delete_domain, house.mail.verify_domain):
        with pytest.raises(Forbidden):
            await verb(agent(1), NAME)
    assert (await house.mail.get_domain(agent(1), NAME)).name == NAME


async def test_the_zone_file_holds_every_record(house: House) -> None:
    await house.mail.create_domain(OWNER, NAME, DomainFlags(subdomains=True))
    lines = (await house.mail.domain_zone_file(OWNER, NAME)).splitlines()
    assert lines[1:5] == [
        f"$ORIGIN {NAME}.",
        "$TTL 3600",
        f"{NAME}. IN MX 10 mx.{NAME}.",
        f"*.{NAME}. IN MX 10 mx.{NAME}.",
    ]
    assert f'_dmarc.{NAME}. IN TXT "v=DMARC1; p=quarantine"' in lines
