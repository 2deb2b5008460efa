"""Who may be written to unasked, how much an agent may ask for, and what reading from outside changes."""

import pytest

from postroom.errors import Forbidden
from postroom.gate.readlog import Reading, StoredReadLog
from postroom.model.event import OUTBOX_SENT
from postroom.model.mail import Message, Thread
from postroom.model.outgoing import State
from postroom.model.paging import MailFilter, Page, PageRequest
from postroom.model.principal import Kind, Principal

ADA, EVE = "ada@customer.example", "eve@elsewhere.example"
RISK = {"approval": "risk", "trusted": ("customer.example",)}


async def test_a_trusted_address_goes_unasked_only_when_it_is_proved_and_known(house):
    house.open = house.gate(**RISK)
    held = await house.submit()
    assert (held.state, held.reasons) == (State.HELD, ("a trusted recipient is not authenticated",))
    house.mail.known = (ADA,)
    assert (await house.submit(text="again")).state is State.SENDING
    assert (await house.submit(to=(ADA, EVE), text="both")).state is State.HELD


async def test_after_reading_from_outside_trusted_recipients_are_asked_too_until_the_owner_clears_it(house, owner, agent):
    house.open = house.gate(**RISK)
    house.mail.known = (ADA,)
    log = StoredReadLog(house.store, house.clock)
    await log.record(agent, ["<one@x.example>", "<two@x.example>", "<one@x.example>"])
    held = await house.submit()
    assert (held.state, held.reasons) == (State.HELD, ("the agent has read mail from outside (2)",))
    house.clock.advance(1)
    await log.record(agent, ["<later@x.example>"])
    assert (await house.open.show(owner, held.outgoing_id)).read == ("<one@x.example>", "<two@x.example>")

    with pytest.raises(Forbidden):
        await house.open.clear_reading(agent, agent.agent_id)
    assert await house.open.clear_reading(owner, agent.agent_id) == 3
    assert (await house.submit(text="again")).state is State.SENDING
    await log.record(agent, ["<one@x.example>"])
    assert (await house.submit(text="a third time")).state is State.HELD


async def test_hidden_recipients_are_refused_unless_switched_on_and_the_owner_may(house, owner):
    refused = await house.submit(bcc=(EVE,))
    assert (refused.state, refused.refused) == (State.REFUSED, (EVE,))
    assert "agents may not send Bcc here" in refused.reasons[0]
    assert (await house.submit(bcc=(ADA,), text="named in to as well")).state is State.HELD
    assert (await house.submit(owner, bcc=(EVE,))).state is State.SENDING
    house.open = house.gate(bcc=True)
    assert (await house.submit(bcc=(EVE,), text="now")).state is State.HELD


async def test_the_daily_cap_on_sends_counts_what_was_asked_and_ends_after_a_day(house, owner):
    house.open = house.gate(max_sends_per_day=2, blocked=(EVE,))
    assert [(await house.submit(text=str(n))).state for n in range(3)] == [State.HELD, State.HELD, State.REFUSED]
    assert (await house.submit(to=(EVE,), text="refused for another reason")).reasons == ("on the owner's block list",)
    assert (await house.submit(owner, text="the owner's own act")).state is State.SENDING
    house.clock.advance(24 * 3600 + 1)
    assert (await house.submit(text="tomorrow")).state is State.HELD


async def test_the_daily_cap_on_new_recipients_knows_those_of_earlier_days(house):
    house.open = house.gate(max_new_recipients_per_day=2)
    assert (await house.submit(to=(ADA, "b@x.example"))).state is State.HELD
    assert (await house.submit(to=(ADA,), text="known already")).state is State.HELD
    over = await house.submit(to=("c@x.example",), text="one more")
    assert (over.state, over.refused) == (State.REFUSED, ("c@x.example",))
    assert "2 new addresses within 24 hours" in over.reasons[0]


async def test_an_approved_mail_is_not_counted_against_the_caps_again(house, owner):
    house.open = house.gate(max_sends_per_day=1, max_new_recipients_per_day=1)
    held = await house.submit()
    shown = await house.open.show(owner, held.outgoing_id)
    assert (await house.open.approve(owner, held.outgoing_id, shown.digest)).state is State.SENDING


async def test_a_wire_that_adds_a_recipient_is_named_in_the_record(house, owner):
    held = await house.submit(owner)
    await house.tell(OUTBOX_SENT, held.outgoing_id, recipients=[ADA, EVE])
    await house.open.catch_up()
    shown = await house.open.show(owner, held.outgoing_id)
    assert shown.state is State.SENT
    assert shown.detail == f"{EVE}: nobody approved this recipient; the mail server in between was given it all the same"
    last = (await house.open.history(owner, held.outgoing_id))[-1]
    assert (last["rcpt_to"], last["receipt"]) == ([ADA], [ADA, EVE])
    assert "outgoing.failed" in await house.kinds()


class OneMail:
    """A `Mail` with one message from outside, one from inside and one we sent."""

    domains = ("postroom.localhost",)

    def __init__(self) -> None:
        self.messages = tuple(
            Message(inbox_id="i", thread_id="t", message_id=name, labels=labels, timestamp=1, from_=sender)
            for name, labels, sender in [
                ("<out@x>", ("received",), "Ada <ada@customer.example>"),
                ("<in@x>", ("received",), "other@postroom.localhost"),
                ("<own@x>", ("sent",), "scout@postroom.localhost"),
                ("<nobody@x>", ("received",), ""),
            ]
        )

    async def get_message(self, principal, inbox_id, message_id):
        return next(message for message in self.messages if message.message_id == message_id)

    async def list_messages(self, principal, inbox_id, filter, page):
        return Page(items=self.messages, next_page_token=None)

    async def get_thread(self, principal, inbox_id, thread_id, page=None):
        return thread("<own@x>", messages=self.messages)

    async def list_threads(self, principal, inbox_id, filter, page):
        return Page(items=(thread("<out@x>"),), next_page_token=None)

    async def get_raw(self, principal, inbox_id, message_id):
        return b"raw"

    async def get_attachment(self, principal, inbox_id, message_id, attachment_id):
        return b"file"

    async def update_message(self, principal, inbox_id, message_id, add, remove):
        return ("unread",)


def thread(last: str, **more) -> Thread:
    return Thread(
        inbox_id="i",
        thread_id="t",
        labels=(),
        timestamp=1,
        senders=("Ada <ada@customer.example>",),
        recipients=(),
        last_message_id=last,
        message_count=1,
        size=1,
        **more,
    )


EVERYTHING = ["<out@x>", "<nobody@x>"]


@pytest.mark.parametrize(
    ("read", "noted"),
    [
        (lambda mail, who: mail.get_message(who, "i", "<out@x>"), ["<out@x>"]),
        (lambda mail, who: mail.get_message(who, "i", "<in@x>"), []),
        (lambda mail, who: mail.get_message(who, "i", "<own@x>"), []),
        (lambda mail, who: mail.get_raw(who, "i", "<out@x>"), ["<out@x>"]),
        (lambda mail, who: mail.get_attachment(who, "i", "<out@x>", "a"), ["<out@x>"]),
        (lambda mail, who: mail.list_messages(who, "i", MailFilter(), PageRequest()), EVERYTHING),
        (lambda mail, who: mail.get_thread(who, "i", "t"), EVERYTHING),
        (lambda mail, who: mail.list_threads(who, "i", MailFilter(), PageRequest()), ["<out@x>"]),
        (lambda mail, who: mail.update_message(who, "i", "<out@x>", ("a",), ()), []),
    ],
)
async def test_whatever_way_an_agent_reads_mail_from_outside_it_is_noted(house, agent, owner, read, noted):
    log = StoredReadLog(house.store, house.clock)
    mail = Reading(OneMail(), log)
    await read(mail, owner)
    await read(mail, Principal(kind=Kind.SYSTEM))
    assert log.count(agent.agent_id) == 0
    await read(mail, agent)
    await read(mail, agent)
    assert list(log.refs(agent.agent_id)) == noted


FORMS = ["stra\u00dfe.example", "xn--strae-oqa.example"]


@pytest.mark.parametrize("entry", FORMS)
@pytest.mark.parametrize("domain", FORMS)
async def test_a_blocked_domain_is_blocked_in_whichever_form_either_side_writes_it(house, entry, domain):
    house.mail.block = (entry,)
    refused = await house.submit(to=(f"bob@{domain}",))
    assert (refused.state, refused.refused) == (State.REFUSED, ("bob@xn--strae-oqa.example",))


@pytest.mark.parametrize("entry", FORMS)
@pytest.mark.parametrize("domain", FORMS)
async def test_a_limit_lets_its_domain_through_in_either_form_and_no_other(house, entry, domain):
    house.open = house.gate(limit=(entry,))
    assert (await house.submit(to=(f"bob@{domain}",))).state is State.HELD
    assert (await house.submit(to=("bob@strasse.example",))).state is State.REFUSED
