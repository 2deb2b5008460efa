from __future__ import annotations

import asyncio
import hashlib

import pytest
from sqlalchemy import update

from pace import PATIENCE_S
from postroom.errors import TransportFailure
from postroom.office import tables as t
from postroom.office.office import Office
from postroom.office.outbox import Outbox
from postroom.store.statement import sql

from .conftest import OWNER, House, lose
from .outgoing import ADA, FakeRelay, frozen, refusal

BOB, CAROL, EVE = "bob@example.com", "carol@example.com", "eve@postroom.localhost"
MINUTE = 60


@pytest.fixture
def relay() -> FakeRelay:
    return FakeRelay()


@pytest.fixture
async def office(house: House, relay: FakeRelay) -> Office:
    await house.inbox("ada", "agt_1")
    await house.inbox("eve", "agt_2")
    return await Office.open(house.store, house.config, relay)


async def drain(outbox: Outbox) -> int:
    total = 0
    while count := await outbox.step():
        total += count
    return total


async def outcome(house: House) -> tuple[str, dict[str, object]]:
    event = (await house.store.events.after(0, kinds=["outbox.sent", "outbox.failed", "outbox.deferred"]))[-1]
    return event.kind, dict(event.snapshot)


async def labels(house: House) -> tuple[str, ...]:
    return (await house.mail.get_message(OWNER, ADA, "<out_1@postroom.localhost>")).labels


async def test_external_recipients_share_one_transaction_of_the_approved_bytes(
    house: House, office: Office, relay: FakeRelay
) -> None:
    mail = frozen(BOB, CAROL, EVE)
    await office.sender.send(mail)
    assert await drain(office.outbox) == 1
    assert relay.seen == [(ADA, (BOB, CAROL), mail.raw)]
    assert await outcome(house) == (
        "outbox.sent",
        {"recipients": [EVE, BOB, CAROL], "failed": {}, "possible_duplicate": False},
    )
    assert await labels(house) == ("delivered", "project", "sent")
    assert await drain(office.outbox) == 0


async def test_retries_follow_the_schedule_and_end_after_three_days(house: House, office: Office, relay: FakeRelay) -> None:
    relay.script = [TransportFailure("the relay is away", kind="temporary")] * 40
    await office.sender.send(frozen(BOB))
    waited = []
    clock, started = house.clock, house.clock.now
    await drain(office.outbox)
    while (await outcome(house))[0] == "outbox.deferred":
        next_at = (await outcome(house))[1]["next_at"]
        assert isinstance(next_at, int)
        waited.append(round((next_at - clock.now) / 1e6))
        clock.now = next_at - 1_000_000
        assert await drain(office.outbox) == 0
        clock.now = next_at
        assert await drain(office.outbox) == 1
    assert waited == [MINUTE, 5 * MINUTE, 30 * MINUTE, 120 * MINUTE, 360 * MINUTE, *([720 * MINUTE] * 5)]
    assert clock.now - started <= 3 * 86400 * 1_000_000
    assert await outcome(house) == (
        "outbox.failed",
        {"recipients": [], "failed": {BOB: "the relay is away"}, "possible_duplicate": False},
    )
    assert await labels(house) == ("bounced", "delayed", "project", "sent")


async def test_a_permanent_refusal_fails_at_once_and_bounces(house: House, office: Office, relay: FakeRelay) -> None:
    relay.script = [{BOB: refusal(550, "no such user")}]
    await office.sender.send(frozen(BOB))
    await drain(office.outbox)
    kind, facts = await outcome(house)
    assert (kind, facts["failed"]) == ("outbox.failed", {BOB: "the relay answered 550 no such user"})
    (bounced,) = await house.store.events.after(0, kinds=["message.bounced"])
    assert bounced.snapshot == {
        "type": "Permanent",
        "sub_type": "General",
        "recipients": [{"address": BOB, "status": "550"}],
    }


async def test_a_mail_the_relay_will_not_take_for_anybody_is_rejected_with_its_reason(
    house: House, office: Office, relay: FakeRelay
) -> None:
    relay.script = [TransportFailure("the relay refused the mail (554)", kind="permanent")]
    await office.sender.send(frozen(BOB, CAROL))
    await drain(office.outbox)
    (rejected,) = await house.store.events.after(0, kinds=["message.rejected"])
    assert (rejected.ref, rejected.snapshot) == (
        "<out_1@postroom.localhost>",
        {"reason": "the relay refused the mail (554)", "recipients": [BOB, CAROL]},
    )
    assert await house.events("message.bounced") == []
    assert await labels(house) == ("project", "rejected", "sent")


async def test_who_was_refused_before_the_mail_was_rejected_has_bounced(house: House, office: Office, relay: FakeRelay) -> None:
    relay.script = [
        {BOB: refusal(550, "no such user"), CAROL: refusal(450, "later")},
        TransportFailure("the relay refused the mail (554)", kind="permanent"),
    ]
    await office.sender.send(frozen(BOB, CAROL))
    await drain(office.outbox)
    house.clock.forward(2 * MINUTE)
    await drain(office.outbox)
    (rejected,) = await house.store.events.after(0, kinds=["message.rejected"])
    (bounced,) = await house.store.events.after(0, kinds=["message.bounced"])
    assert rejected.snapshot["recipients"] == [CAROL]
    assert [row["address"] for row in bounced.snapshot["recipients"]] == [BOB]


async def test_some_accepted_is_sent_and_the_rest_is_reported_failed(house: House, office: Office, relay: FakeRelay) -> None:
    relay.script = [{CAROL: refusal(450, "try later")}]
    await office.sender.send(frozen(BOB, CAROL))
    await drain(office.outbox)
    assert await outcome(house) == (
        "outbox.sent",
        {"recipients": [BOB], "failed": {CAROL: "the relay answered 450 try later"}, "possible_duplicate": False},
    )


async def test_a_permanently_refused_recipient_is_not_tried_again(house: House, office: Office, relay: FakeRelay) -> None:
    relay.script = [{BOB: refusal(550), CAROL: refusal(451)}]
    await office.sender.send(frozen(BOB, CAROL))
    await drain(office.outbox)
    house.clock.forward(2 * MINUTE)
    await drain(office.outbox)
    assert [recipients for _, recipients, _ in relay.seen] == [(BOB, CAROL), (CAROL,)]
    kind, facts = await outcome(house)
    assert (kind, facts["recipients"], facts["failed"]) == ("outbox.sent", [CAROL], {BOB: "the relay answered 550 no"})


async def test_an_uncertain_end_is_sent_again_and_said_to_be_a_possible_duplicate(
    house: House, office: Office, relay: FakeRelay
) -> None:
    relay.script = [TransportFailure("no answer after the final dot", kind="uncertain")]
    await office.sender.send(frozen(BOB))
    await drain(office.outbox)
    house.clock.forward(2 * MINUTE)
    await drain(office.outbox)
    assert relay.seen[0] == relay.seen[1]
    assert (await outcome(house))[1]["possible_duplicate"] is True


async def test_a_crash_between_attempt_and_result_makes_the_next_one_a_possible_duplicate(
    house: House, office: Office, relay: FakeRelay
) -> None:
    relay.script = ["hang"]
    await office.sender.send(frozen(BOB))
    attempt = asyncio.create_task(office.outbox.step())
    async with asyncio.timeout(PATIENCE_S):
        await relay.entered.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert await office.outbox.step() == 0

    after = Outbox(house.store, relay)
    await after.recover()
    await drain(after)
    assert len(relay.seen) == 2
    assert await outcome(house) == ("outbox.sent", {"recipients": [BOB], "failed": {}, "possible_duplicate": True})


@pytest.mark.parametrize(
    "change",
    [
        {"rcpt_to": '["bob@example.com","mallory@example.com"]', "pending": '["bob@example.com","mallory@example.com"]'},
        {"pending": '["bob@example.com","mallory@example.com"]'},
        {"mail_from": "eve@postroom.localhost"},
    ],
)
async def test_what_was_not_approved_is_never_sent(
    house: House, office: Office, relay: FakeRelay, change: dict[str, str]
) -> None:
    await office.sender.send(frozen(BOB))
    tamper = sql(update(t.outbox).values(change))
    await house.store.write(lambda tx: tx.run(tamper))
    await drain(office.outbox)
    assert relay.seen == []
    kind, facts = await outcome(house)
    failed = facts["failed"]
    assert isinstance(failed, dict)
    assert (kind, failed[BOB]) == ("outbox.failed", "the stored mail is not the one that was approved; it was not sent")


async def test_a_wire_that_breaks_in_an_unknown_way_is_tried_again(house: House, office: Office, relay: FakeRelay) -> None:
    relay.script = [RuntimeError("surprise")]
    await office.sender.send(frozen(BOB))
    await drain(office.outbox)
    assert (await outcome(house))[0] == "outbox.deferred"
    house.clock.forward(2 * MINUTE)
    await drain(office.outbox)
    assert await outcome(house) == ("outbox.sent", {"recipients": [BOB], "failed": {}, "possible_duplicate": True})


async def test_without_a_relay_queued_mail_waits(house: House, office: Office) -> None:
    await office.sender.send(frozen(BOB))
    closed = await Office.open(house.store, house.config, None)
    assert await closed.outbox.step() == 0
    assert await drain(office.outbox) == 1


def report(action: str, recipient: str = BOB, about: str = "<out_1@postroom.localhost>") -> bytes:
    lines = [
        "From: MAILER-DAEMON@example.com",
        f"To: {ADA}",
        "Subject: Undelivered",
        "Message-ID: <dsn@example.com>",
        "MIME-Version: 1.0",
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b",
        "",
        "--b",
        "Content-Type: text/plain",
        "",
        "It failed.",
        "--b",
        "Content-Type: message/delivery-status",
        "",
        "Reporting-MTA: dns; mx.example.com",
        "",
        f"Final-Recipient: rfc822; {recipient}",
        f"Action: {action}",
        "Status: 5.1.1",
        "",
        "--b",
        "Content-Type: text/rfc822-headers",
        "",
        f"Message-ID: {about}",
        "",
        "--b--",
        "",
    ]
    return "\r\n".join(lines).encode()


async def test_a_failure_report_about_our_mail_bounces_and_suppresses(house: House, office: Office) -> None:
    await office.sender.send(frozen(BOB))
    await drain(office.outbox)
    await house.arrive(report("failed"), ADA, mail_from="")
    (bounced,) = await house.store.events.after(0, kinds=["message.bounced"])
    assert bounced.ref == "<out_1@postroom.localhost>"
    assert bounced.snapshot["recipients"] == [{"address": BOB, "status": "5.1.1"}]
    assert await house.mail.send_list(OWNER, ADA, "block") == (BOB,)
    assert "bounced" in await labels(house)


@pytest.mark.parametrize(
    ("action", "recipient", "about"),
    [
        ("delayed", BOB, "<out_1@postroom.localhost>"),
        ("failed", "victim@example.com", "<out_1@postroom.localhost>"),
        ("failed", BOB, "<never-sent@postroom.localhost>"),
    ],
)
async def test_a_delay_or_an_invented_report_suppresses_nobody(
    house: House, office: Office, action: str, recipient: str, about: str
) -> None:
    await office.sender.send(frozen(BOB))
    await drain(office.outbox)
    await house.arrive(report(action, recipient, about), ADA, mail_from="")
    assert await house.mail.send_list(OWNER, ADA, "block") == ()
    assert await house.events("message.bounced") == []


async def test_a_mail_whose_bytes_are_lost_fails_and_the_others_go(house: House, office: Office, relay: FakeRelay) -> None:
    first = frozen(BOB)
    await office.sender.send(first)
    await office.sender.send(frozen(BOB, outgoing_id="out_2"))
    sha = hashlib.sha256(first.raw).hexdigest()
    await lose(house, sha)
    await drain(office.outbox)
    events = await house.store.events.after(0, kinds=["outbox.sent", "outbox.failed"])
    assert {event.ref: event.kind for event in events} == {"out_1": "outbox.failed", "out_2": "outbox.sent"}
