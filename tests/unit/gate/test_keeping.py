"""Bytes of outgoing mail: there while the mail may leave, gone in the commit of the no."""

import hashlib

import pytest
from sqlalchemy import func, select

from postroom.errors import Conflict, NotFound
from postroom.gate.tables import outgoing_blob
from postroom.model.event import OUTBOX_SENT
from postroom.model.mail import AttachmentData
from postroom.model.outgoing import State
from postroom.store import schema
from postroom.store.statement import sql

from .conftest import ADA

FILE = b"f" * 1000
_BLOBS = sql(select(func.count()).select_from(schema.blob))
_KEPT = sql(select(func.count()).select_from(outgoing_blob))


def blobs(house) -> tuple[int, int]:
    """How many blobs there are, and how many rows name one for the gate."""
    return house.store.read_now(lambda reader: (reader.scalar(_BLOBS), reader.scalar(_KEPT)))


async def submit(house, **fields):
    return await house.submit(attachments=(AttachmentData(content=FILE, filename="f.bin"),), **fields)


async def test_what_is_refused_at_submit_is_never_kept(house, owner):
    house.mail.block = (ADA,)
    refused = await submit(house)
    assert refused.state is State.REFUSED
    assert blobs(house) == (0, 0)
    shown = await house.open.show(owner, refused.outgoing_id)
    assert shown.attachments == (("f.bin", len(FILE)),)
    with pytest.raises(NotFound, match="a mail that is refused are not kept"):
        await house.open.raw(owner, refused.outgoing_id)


async def test_a_no_lets_the_bytes_go_and_keeps_what_was_said(house, owner):
    held = await submit(house, text="take this")
    assert blobs(house) == (2, 2)
    await house.open.refuse(owner, held.outgoing_id, "no")
    assert blobs(house) == (0, 0)
    assert (await house.open.show(owner, held.outgoing_id)).text == "take this"


async def test_no_answer_in_time_lets_the_bytes_go(house, owner):
    held = await submit(house)
    house.clock.advance(25 * 3600)
    await house.open.sweep()
    assert (await house.open.show(owner, held.outgoing_id)).state is State.EXPIRED
    assert blobs(house) == (0, 0)


async def test_one_files_bytes_stay_while_any_mail_that_may_leave_has_them(house, owner):
    first, second = await submit(house, text="one"), await submit(house, text="two")
    assert blobs(house) == (3, 4)
    await house.open.refuse(owner, first.outgoing_id)
    assert blobs(house) == (2, 2)
    assert await house.store.blobs.get(hashlib.sha256(FILE).hexdigest()) == FILE
    await house.open.approve(owner, second.outgoing_id, second.digest)
    (taken,) = house.sender.taken.values()
    assert [entry.content for entry in taken.outbound.attachments] == [FILE]


async def test_of_what_left_the_mail_as_it_went_stays_with_its_record(house, owner):
    held = await submit(house)
    raw = await house.open.raw(owner, held.outgoing_id)
    await house.open.approve(owner, held.outgoing_id, held.digest)
    await house.tell(OUTBOX_SENT, held.outgoing_id, recipients=[ADA])
    await house.open.catch_up()
    assert (await house.open.show(owner, held.outgoing_id)).state is State.SENT
    assert blobs(house) == (1, 1)
    assert await house.open.raw(owner, held.outgoing_id) == raw


async def test_mail_that_waits_for_a_relay_keeps_its_bytes(house, owner):
    held = await submit(house)
    house.sender.relay = False
    await house.open.approve(owner, held.outgoing_id, held.digest)
    assert (await house.open.show(owner, held.outgoing_id)).state is State.APPROVED
    assert blobs(house) == (2, 2)


async def test_the_same_key_again_after_a_no_is_the_same_no_and_keeps_nothing(house, owner):
    held = await submit(house, key="k1")
    await house.open.refuse(owner, held.outgoing_id)
    again = await submit(house, key="k1")
    assert (again.outgoing_id, again.state, again.repeated) == (held.outgoing_id, State.REFUSED, True)
    assert blobs(house) == (0, 0)


async def test_a_commit_that_fails_in_the_middle_of_a_no_keeps_everything(house, owner, monkeypatch):
    held = await submit(house)

    def breaks(*_, **__):
        raise RuntimeError("the process died here")

    monkeypatch.setattr("postroom.gate.moves.announce", breaks)
    with pytest.raises(RuntimeError, match="died here"):
        await house.open.refuse(owner, held.outgoing_id)
    monkeypatch.undo()
    assert blobs(house) == (2, 2)
    assert (await house.open.approve(owner, held.outgoing_id, held.digest)).state in (State.SENDING, State.SENT)


async def test_whoever_approves_what_was_just_refused_is_told_so(house, owner):
    held = await submit(house)
    await house.open.refuse(owner, held.outgoing_id)
    with pytest.raises(Conflict) as problem:
        await house.open.approve(owner, held.outgoing_id, held.digest)
    assert problem.value.code == "wrong_state"
