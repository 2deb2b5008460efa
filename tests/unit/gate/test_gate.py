"""Submit, hold, approve, refuse: what each leaves behind, and what it never does."""

import asyncio
import dataclasses
from base64 import b64encode

import pytest
from sqlalchemy import bindparam, update

from pace import PATIENCE_S
from postroom.errors import Conflict, Forbidden, Invalid, NotFound, StorageFailure, TooLarge, TransportFailure
from postroom.gate import audit
from postroom.gate.tables import outgoing
from postroom.ledger.chain import next_link
from postroom.model.event import DRAFT_DUE, OUTBOX_DEFERRED, OUTBOX_FAILED, OUTBOX_SENT
from postroom.model.mail import AttachmentData
from postroom.model.outgoing import State
from postroom.model.paging import PageRequest
from postroom.model.request import SendKind
from postroom.policy.digest import digest_bytes
from postroom.store.statement import sql

ADA = "ada@customer.example"
EVE = "eve@elsewhere.example"


async def test_an_agents_mail_is_held_and_the_sender_hears_nothing(house):
    submission = await house.submit()
    assert submission.state is State.HELD
    assert submission.message_id is None
    assert submission.expires_at == house.clock.now_us() + 24 * 3600 * 1_000_000
    assert house.sender.calls == 0
    assert await house.kinds() == ["outgoing.held"]


async def test_the_owners_mail_goes_without_a_question(house, owner):
    submission = await house.submit(owner)
    assert submission.state is State.SENDING
    (taken,) = house.sender.taken.values()
    assert (submission.message_id, submission.thread_id) == (taken.message_id, "22222222-2222-4222-8222-222222222222")
    assert taken.rcpt_to == (ADA,)
    assert (await house.open.show(owner, submission.outgoing_id)).decided_by == "owner"


async def test_an_approved_mail_is_the_very_one_that_was_shown(house, owner):
    held = await house.submit(attachments=(AttachmentData(content=b"abc", filename="a.txt"),))
    shown = await house.open.show(owner, held.outgoing_id)
    raw = await house.open.raw(owner, held.outgoing_id)
    approved = await house.open.approve(owner, held.outgoing_id, shown.digest)
    (taken,) = house.sender.taken.values()
    assert approved.state is State.SENDING
    assert taken.raw == raw
    assert shown.digest == digest_bytes(taken.mail_from, taken.rcpt_to, raw)
    assert shown.attachments == (("a.txt", 3),)
    assert taken.outbound.attachments == (AttachmentData(content=b"abc", filename="a.txt"),)


async def test_another_digest_approves_nothing(house, owner):
    held = await house.submit()
    with pytest.raises(Conflict) as problem:
        await house.open.approve(owner, held.outgoing_id, "0" * 64)
    assert problem.value.code == "digest_mismatch"
    assert (await house.open.show(owner, held.outgoing_id)).state is State.HELD
    assert house.sender.calls == 0


async def redirect(house, outgoing_id: str, to: str) -> None:
    """Somebody changes the stored envelope behind the gate's back."""
    change = sql(update(outgoing).values(rcpt_to=f'["{to}"]').where(outgoing.c.outgoing_id == bindparam("which")))
    await house.store.write(lambda tx: tx.run(change, which=outgoing_id))


async def test_a_row_changed_in_the_store_is_not_approved(house, owner):
    held = await house.submit()
    await redirect(house, held.outgoing_id, EVE)
    with pytest.raises(Conflict) as problem:
        await house.open.approve(owner, held.outgoing_id, held.digest)
    assert problem.value.code == "digest_mismatch"


async def test_a_row_changed_after_the_approval_is_not_sent(house, owner):
    held = await house.submit()
    house.sender.relay = False
    await house.open.approve(owner, held.outgoing_id, held.digest)
    await redirect(house, held.outgoing_id, EVE)
    house.sender.relay = True
    await house.open.sweep()
    after = await house.open.show(owner, held.outgoing_id)
    assert (after.state, after.detail) == (State.FAILED, "the stored mail is not the one that was approved")
    assert house.sender.calls == 0


async def test_of_two_approvers_at_once_one_lets_it_go_and_the_other_is_told(house, owner):
    held = await house.submit()
    both = await asyncio.gather(
        *(house.open.approve(owner, held.outgoing_id, held.digest) for _ in range(2)), return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in both) == ["Conflict", "Outgoing"]
    assert (house.sender.calls, list(house.sender.taken)) == (1, [held.outgoing_id])
    with pytest.raises(Conflict) as late:
        await house.open.refuse(owner, held.outgoing_id)
    assert late.value.code == "wrong_state"


async def test_of_one_who_approves_and_one_who_refuses_at_once_one_decides(house, owner):
    held = await house.submit()
    both = await asyncio.gather(
        house.open.refuse(owner, held.outgoing_id),
        house.open.approve(owner, held.outgoing_id, held.digest),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in both) == ["Conflict", "Outgoing"]
    left = (await house.open.show(owner, held.outgoing_id)).state in (State.SENDING, State.SENT)
    assert house.sender.calls == int(left)


async def test_an_agent_cannot_approve_its_own_mail(house, agent):
    held = await house.submit()
    with pytest.raises(Forbidden):
        await house.open.approve(agent, held.outgoing_id, held.digest)
    assert house.sender.calls == 0


async def test_a_no_stays_a_no(house, agent, owner):
    held = await house.submit()
    refused = await house.open.refuse(agent, held.outgoing_id, "changed my mind")
    assert (refused.state, refused.comment, refused.decided_by) == (State.REFUSED, "changed my mind", "scout")
    with pytest.raises(Conflict):
        await house.open.approve(owner, held.outgoing_id, held.digest)
    assert house.sender.calls == 0


async def test_another_agents_mail_does_not_exist(house, rival, agent):
    held = await house.submit()
    for verb in (house.open.show, house.open.raw, house.open.refuse):
        with pytest.raises(NotFound):
            await verb(rival, held.outgoing_id)
    assert (await house.open.list(rival, page=PageRequest())).items == ()
    assert len((await house.open.list(agent, page=PageRequest())).items) == 1


async def test_the_list_pages_through_a_state_newest_first(house, owner):
    ids = [(await house.submit(text=f"text {number}")).outgoing_id for number in range(5)]
    await house.open.refuse(owner, ids[0])
    first = await house.open.list(owner, states=(State.HELD,), page=PageRequest(limit=3))
    second = await house.open.list(owner, states=(State.HELD,), page=PageRequest(limit=3, page_token=first.next_page_token))
    assert [row.outgoing_id for row in (*first.items, *second.items)] == ids[:0:-1]
    assert second.next_page_token is None
    with pytest.raises(Invalid):
        await house.open.list(owner, page=PageRequest(page_token=first.next_page_token))


@pytest.mark.parametrize(
    ("settings", "fields", "addresses"),
    [
        ({"blocked": ("elsewhere.example",)}, {"cc": (EVE,)}, (EVE,)),
        ({"limit": ("customer.example",)}, {"bcc": (EVE,)}, (EVE,)),
        ({"read_only": True}, {}, (ADA,)),
        ({}, {"text": "the key is own-secret-of-the-house"}, (ADA,)),
        ({}, {"subject": "own-secret-of-the-house"}, (ADA,)),
        ({}, {"attachments": (AttachmentData(content=b"", filename="own-secret-of-the-house.txt"),)}, (ADA,)),
        ({}, {"attachments": (AttachmentData(content=b"key = own-secret-of-the-house"),)}, (ADA,)),
        ({}, {"attachments": (AttachmentData(content=b64encode(b"key own-secret-of-the-house.")),)}, (ADA,)),
        ({}, {"attachments": (AttachmentData(content=b"PK\0\xff own%2Dsecret%2dof-the-house"),)}, (ADA,)),
        ({}, {"attachments": (AttachmentData(content="own-secret-of-the-house".encode("utf-16")),)}, (ADA,)),
        ({}, {"attachments": (AttachmentData(content=bytes(600_000) + b"own-secret-of-the-house"),)}, (ADA,)),
        ({}, {"headers": {"X-Note": "own-secret-of-the-house"}}, (ADA,)),
        ({}, {"to": ("own-secret-of-the-house@elsewhere.example",)}, ("own-secret-of-the-house@elsewhere.example",)),
    ],
)
async def test_what_the_rules_forbid_is_refused_unasked(house, owner, settings, fields, addresses):
    house.open = house.gate(**settings)
    submission = await house.submit(**fields)
    assert (submission.state, submission.refused) == (State.REFUSED, addresses)
    assert submission.reasons
    assert house.sender.calls == 0
    assert (await house.open.show(owner, submission.outgoing_id)).state is State.REFUSED


async def test_the_send_lists_of_the_office_count_as_the_configs(house):
    house.mail.allow = ("customer.example",)
    assert (await house.submit(to=(EVE,))).state is State.REFUSED
    assert (await house.submit()).state is State.HELD
    house.mail.block = (ADA,)
    assert (await house.submit(text="again")).state is State.REFUSED


async def test_without_a_relay_mail_to_the_world_is_refused_with_the_reason(house, owner):
    house.sender.relay = False
    submission = await house.submit(owner)
    assert (submission.state, submission.reasons) == (State.REFUSED, ("no relay is configured",))


async def test_a_trusted_house_recipient_needs_no_question_under_risk(house):
    house.open = house.gate(approval="risk", trusted=("postroom.localhost",))
    assert (await house.submit(to=("other@postroom.localhost",))).state is State.SENDING
    assert (await house.submit()).state is State.HELD


@pytest.mark.parametrize("name", ["limit", "trusted", "blocked"])
@pytest.mark.parametrize("entry", ["*", "not an address", "*@example.org", "Eve <eve@example.org>"])
async def test_a_list_entry_that_could_match_nobody_is_named(house, name, entry):
    with pytest.raises(Invalid, match=f"gate.{name}: .* is neither an address nor a domain"):
        house.gate(**{name: ("example.org", entry)})


async def test_one_key_is_one_mail(house):
    first = await house.submit(key="k1")
    again = await house.submit(key="k1")
    assert (again.outgoing_id, again.repeated, again.state) == (first.outgoing_id, True, State.HELD)
    with pytest.raises(Conflict):
        await house.submit(key="k1", text="other words")
    assert (await house.submit(key="k2")).outgoing_id != first.outgoing_id


async def test_a_key_belongs_to_who_used_it(house, owner):
    first = await house.submit(key="k1")
    other = await house.submit(owner, key="k1", text="the owner's")
    assert other.outgoing_id != first.outgoing_id


async def test_a_key_can_be_used_anew_a_day_after_its_mail_was_settled(house, owner):
    first = await house.submit(key="k1")
    await house.open.refuse(owner, first.outgoing_id)
    house.clock.advance(24 * 3600 + 1)
    later = await house.submit(key="k1", text="other words")
    assert later.outgoing_id != first.outgoing_id


async def test_twenty_submits_of_one_key_at_once_make_one_mail(house, owner):
    results = await asyncio.gather(*(house.submit(owner, key="same") for _ in range(20)))
    assert len({result.outgoing_id for result in results}) == 1
    assert {result.message_id for result in results} == {results[0].message_id}
    assert sum(result.repeated for result in results) == 19
    assert len(house.sender.taken) == 1


async def test_the_same_content_within_the_window_is_told_as_a_repeat(house, agent, wish):
    first = await house.open.submit(agent, wish(), "call-1", window_s=600)
    again = await house.open.submit(agent, wish(), "call-2", window_s=600)
    assert (again.outgoing_id, again.repeated) == (first.outgoing_id, True)
    house.clock.advance(601)
    assert not (await house.open.submit(agent, wish(), "call-3", window_s=600)).repeated


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 257, "a\n"])
async def test_a_malformed_key_is_refused_before_anything_is_stored(house, owner, key):
    with pytest.raises(Invalid):
        await house.submit(key=key)
    assert (await house.open.list(owner, page=PageRequest())).items == ()


async def test_too_many_too_few_or_too_large_is_an_error_and_leaves_no_row(house, owner):
    with pytest.raises(Invalid):
        await house.submit(to=())
    with pytest.raises(Invalid):
        await house.submit(to=tuple(f"a{number}@customer.example" for number in range(51)))
    with pytest.raises(TooLarge):
        await house.submit(attachments=(AttachmentData(content=bytes(26 * 1024 * 1024)),))
    assert (await house.open.list(owner, page=PageRequest())).items == ()


async def test_an_unanswered_mail_expires_as_a_no(house, owner):
    held = await house.submit()
    house.clock.advance(24 * 3600)
    with pytest.raises(Conflict) as problem:
        await house.open.approve(owner, held.outgoing_id, held.digest)
    assert problem.value.code == "expired"
    assert (await house.open.show(owner, held.outgoing_id)).state is State.EXPIRED
    assert (await house.kinds())[-1] == "outgoing.expired"
    assert house.sender.calls == 0


async def test_the_sweep_expires_what_nobody_opened(house, owner):
    held = await house.submit()
    house.clock.advance(24 * 3600 + 1)
    await house.open.sweep()
    assert (await house.open.show(owner, held.outgoing_id)).state is State.EXPIRED


async def test_a_recipient_blocked_after_the_hold_is_refused_at_dispatch(house, owner):
    held = await house.submit()
    house.mail.block = (ADA,)
    after = await house.open.approve(owner, held.outgoing_id, held.digest)
    assert (after.state, after.detail) == (State.REFUSED, "on the owner's block list")
    assert house.sender.calls == 0


async def test_when_the_relay_is_gone_an_approved_mail_waits_with_the_reason(house, owner):
    held = await house.submit()
    house.sender.relay = False
    waiting = await house.open.approve(owner, held.outgoing_id, held.digest)
    assert (waiting.state, waiting.detail) == (State.APPROVED, "no relay is configured")
    house.sender.relay = True
    await house.open.sweep()
    after = await house.open.show(owner, held.outgoing_id)
    assert (after.state, after.detail) == (State.SENDING, None)


async def test_a_relay_that_never_comes_back_lets_the_approval_expire(house, owner):
    held = await house.submit()
    house.sender.relay = False
    await house.open.approve(owner, held.outgoing_id, held.digest)
    house.clock.advance(24 * 3600)
    await house.open.sweep()
    after = await house.open.show(owner, held.outgoing_id)
    assert (after.state, after.detail) == (State.EXPIRED, "no relay is configured")


@pytest.mark.parametrize(
    ("problem", "state"),
    [
        (TransportFailure("later", kind="temporary"), State.SENDING),
        (TransportFailure("never", kind="permanent"), State.FAILED),
        (TransportFailure("silence", kind="uncertain"), State.UNCERTAIN),
        (Invalid("the address is odd"), State.FAILED),
    ],
)
async def test_a_sender_that_fails_says_so_in_the_row(house, owner, problem, state):
    house.sender.fails = problem
    held = await house.submit()
    after = await house.open.approve(owner, held.outgoing_id, held.digest)
    assert (after.state, after.detail) == (state, problem.message)


async def test_a_sender_without_a_disk_keeps_the_approval_and_the_sweep_sends_it(house, owner):
    house.sender.fails = StorageFailure("the disk is full")
    held = await house.submit()
    after = await house.open.approve(owner, held.outgoing_id, held.digest)
    assert after.state is State.SENDING
    house.sender.fails = None
    await house.open.sweep()
    assert list(house.sender.taken) == [held.outgoing_id]


async def test_one_mail_that_cannot_be_handed_over_does_not_stop_the_others(house, owner):
    house.sender.fails = StorageFailure("the disk is full")
    ids = []
    for text in ("one", "two"):
        held = await house.submit(text=text)
        await house.open.approve(owner, held.outgoing_id, held.digest)
        ids.append(held.outgoing_id)
    house.sender.fails = RuntimeError("a fault of ours")
    await house.open.sweep()
    assert house.sender.calls == 4
    rows = [await house.open.show(owner, outgoing_id) for outgoing_id in ids]
    assert {(row.state, row.detail) for row in rows} == {(State.SENDING, "something went wrong inside postroom")}


async def follow(house) -> int:
    """What `run` does with the log, once."""
    return await house.open._follow.catch_up(await house.store.events.cursor("gate"))


async def test_the_outbox_says_how_it_ended(house, owner):
    sent, partly, late, failed = [await house.submit(owner, text=f"t {number}") for number in range(4)]
    await house.tell(OUTBOX_SENT, sent.outgoing_id, recipients=[ADA], possible_duplicate=True)
    await house.tell(OUTBOX_SENT, partly.outgoing_id, recipients=[ADA], failed={EVE: "550 unknown"})
    await house.tell(OUTBOX_DEFERRED, late.outgoing_id, reason="450 later")
    await house.tell(OUTBOX_FAILED, failed.outgoing_id, failed={ADA: "550 unknown"})
    seq = await follow(house)
    rows = [await house.open.show(owner, one.outgoing_id) for one in (sent, partly, late, failed)]
    assert [row.state for row in rows] == [State.SENT, State.SENT, State.SENDING, State.FAILED]
    assert rows[0].possible_duplicate
    assert [row.detail for row in rows[1:]] == [f"{EVE}: 550 unknown", "450 later", f"{ADA}: 550 unknown"]
    kinds = [kind for kind in await house.kinds() if kind.startswith("outgoing.")]
    assert kinds == ["outgoing.sent", "outgoing.sent", "outgoing.failed", "outgoing.failed"]
    assert await house.store.events.cursor("gate") == seq


async def test_an_event_applied_twice_changes_nothing(house, owner):
    sent = await house.submit(owner)
    await house.tell(OUTBOX_SENT, sent.outgoing_id, recipients=[ADA])
    await house.open._follow.catch_up(0)
    await house.open._follow.catch_up(0)
    assert (await house.kinds()).count("outgoing.sent") == 1


async def test_a_due_draft_is_submitted_as_its_author_once(house, owner):
    draft = house.mail.drafts_one(to=(ADA,), subject="s", text="t")
    await house.tell(DRAFT_DUE, draft.draft_id)
    await house.open._follow.catch_up(0)
    await house.open._follow.catch_up(0)
    (row,) = (await house.open.list(owner, page=PageRequest())).items
    assert (row.state, row.agent) == (State.HELD, "scout")


async def test_a_due_draft_that_cannot_be_sent_is_reported(house):
    draft = house.mail.drafts_one(to=(), subject="s", text="t")
    gone = house.mail.drafts_one(to=(ADA,), author="agt_gone")
    for one in (draft, gone):
        await house.tell(DRAFT_DUE, one.draft_id)
    await follow(house)
    reports = await house.store.events.after(0, kinds=["outgoing.failed"])
    assert [event.ref for event in reports] == [draft.draft_id, gone.draft_id]


async def test_every_move_is_in_the_audit_chain(house, owner):
    held = await house.submit()
    await house.open.approve(owner, held.outgoing_id, held.digest)
    history = await house.open.history(owner, held.outgoing_id)
    assert [(entry["actor"], entry["verb"]) for entry in history] == [
        ("scout", "submit"),
        ("owner", "approved"),
        ("gate", "sending"),
    ]
    previous = bytes(32)
    for link, _ in await house.store.read(lambda reader: list(audit.entries(reader))):
        assert link.link == next_link(bytes(32), audit.LOG_ID, link.seq, previous, link.entry_hash)
        previous = link.link


async def test_the_run_loop_stops_when_cancelled_and_expires_at_start(house, owner):
    held = await house.submit()
    house.clock.advance(24 * 3600)
    running = asyncio.create_task(house.open.run())
    seq = house.store.events.last_seq()
    assert await house.store.events.wait(seq, timeout_s=PATIENCE_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (await house.open.show(owner, held.outgoing_id)).state is State.EXPIRED


async def test_a_draft_sent_again_while_it_waits_is_one_question_and_changed_another(house, owner):
    draft = house.mail.drafts_one(to=(ADA,), subject="Offer", text="one")
    wish = {"kind": SendKind.DRAFT, "draft_id": draft.draft_id, "to": ()}
    first, *again = await asyncio.gather(*(house.submit(**wish) for _ in range(4)))
    assert [(one.outgoing_id, one.repeated) for one in again] == [(first.outgoing_id, True)] * 3
    changed = dataclasses.replace(draft, fields=dataclasses.replace(draft.fields, text="two"))
    house.mail.drafts[draft.draft_id] = changed
    second = await house.submit(**wish)
    assert (second.state, second.outgoing_id == first.outgoing_id) == (State.HELD, False)
    await house.open.refuse(owner, second.outgoing_id)
    third = await house.submit(**wish)
    assert (third.state, third.repeated) == (State.HELD, False)
