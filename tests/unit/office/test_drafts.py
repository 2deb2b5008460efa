from __future__ import annotations

from typing import Any

import pytest

from postroom.errors import Conflict, Forbidden, Invalid, NotFound
from postroom.model.mail import AttachmentData, Draft, DraftFields
from postroom.model.paging import MailFilter, PageRequest
from postroom.office.schedule import Schedule

from .conftest import ALL, FIRST, OWNER, House, agent, letter

ADA = "ada@postroom.localhost"
BOB = "bob@example.com"


async def draft(house: House, **fields: Any) -> Draft:
    return await house.mail.create_draft(agent(1), ADA, DraftFields(**fields))


async def test_a_draft_keeps_what_it_was_given(house: House) -> None:
    await house.inbox()
    file = AttachmentData(content=b"bytes", filename="a.txt", content_type="text/plain")
    made = await draft(house, to=(f"Bob <{BOB}>",), subject="Hi", text="Dear Bob,", labels=("Urgent",), attachments=(file,))
    got = await house.mail.get_draft(agent(1), None, made.draft_id)
    assert got == made
    assert (got.fields.to, got.fields.subject, got.fields.labels) == ((f"Bob <{BOB}>",), "Hi", ("draft", "urgent"))
    assert (got.author, got.preview, got.fields.attachments) == ("agt_1", "Dear Bob,", (file,))
    (row,) = (await house.mail.list_drafts(OWNER, None, ALL, FIRST)).items
    assert (row.draft_id, row.attachments[0].size, row.fields.attachments) == (made.draft_id, 5, ())


async def test_the_same_client_id_is_the_same_draft(house: House) -> None:
    await house.inbox()
    first = await draft(house, text="a", client_id="c1")
    assert await draft(house, text="b", client_id="c1") == first


async def test_a_change_keeps_what_is_absent_and_clears_what_is_none(house: House) -> None:
    await house.inbox()
    made = await draft(house, to=(BOB,), cc=("carol@example.com",), subject="Hi", text="a", labels=("x",))
    changed = await house.mail.update_draft(
        agent(1), ADA, made.draft_id, {"subject": None, "cc": None, "text": "b", "add_labels": ("y",), "remove_labels": ("x",)}
    )
    fields = changed.fields
    assert (fields.to, fields.cc, fields.subject, fields.text, fields.labels) == ((BOB,), (), None, "b", ("draft", "y"))
    file = AttachmentData(content=b"1", filename="one")
    with_file = await house.mail.update_draft(agent(1), ADA, made.draft_id, {"add_attachments": (file,)})
    without = {"remove_attachments": (with_file.attachments[0].attachment_id,)}
    assert (await house.mail.update_draft(agent(1), ADA, made.draft_id, without)).attachments == ()
    with pytest.raises(NotFound):
        await house.mail.update_draft(agent(1), ADA, made.draft_id, without)


async def test_a_reply_draft_takes_recipients_subject_and_references_from_its_source(house: House) -> None:
    await house.inbox()
    extra = ["Cc: Carol <carol@example.com>, ada@postroom.localhost", "References: <root@example.com>"]
    await house.arrive(letter("Plan", to=f"{ADA}, Dave <dave@example.com>", extra=extra))
    reply = await draft(house, in_reply_to="<one@example.com>", text="ok")
    assert (reply.fields.to, reply.fields.cc, reply.fields.subject) == ((f"Bob <{BOB}>",), (), "Re: Plan")
    assert reply.references == ("<root@example.com>", "<one@example.com>")
    everyone = await draft(house, in_reply_to="<one@example.com>", reply_all=True)
    assert everyone.fields.to == (f"Bob <{BOB}>", "Dave <dave@example.com>")
    assert everyone.fields.cc == ("Carol <carol@example.com>",)
    forward = await draft(house, forward_of="<one@example.com>", to=(BOB,))
    assert (forward.fields.subject, forward.references) == ("Fwd: Plan", ())


@pytest.mark.parametrize(
    "fields",
    [
        {"in_reply_to": "<one@example.com>", "forward_of": "<one@example.com>"},
        {"in_reply_to": "<one@example.com>", "reply_all": True, "to": (BOB,)},
        {"reply_all": True},
        {"to": ("not an address",)},
        {"to": ("a@example.com\r\nBcc: b@example.com",)},
        {"send_at": 1},
        {"labels": ("sent",)},
        {"client_id": "a@b"},
    ],
)
async def test_drafts_that_cannot_be_are_invalid(house: House, fields: dict[str, Any]) -> None:
    await house.inbox()
    await house.arrive(letter())
    with pytest.raises(Invalid):
        await draft(house, **fields)


async def test_a_draft_about_an_unknown_message_is_not_found(house: House) -> None:
    await house.inbox()
    with pytest.raises(NotFound):
        await draft(house, in_reply_to="<none@example.com>")


async def test_drafts_of_others_are_not_found_and_only_the_author_or_owner_deletes(house: House) -> None:
    await house.inbox()
    made = await draft(house, text="x")
    owners = await house.mail.create_draft(OWNER, ADA, DraftFields(text="y"))
    for refused in (
        house.mail.get_draft(agent(2), None, made.draft_id),
        house.mail.update_draft(agent(2), ADA, made.draft_id, {"text": "z"}),
        house.mail.delete_draft(agent(2), ADA, made.draft_id),
        house.mail.get_draft(OWNER, "eve@postroom.localhost", made.draft_id),
    ):
        with pytest.raises(NotFound):
            await refused
    with pytest.raises(Forbidden):
        await house.mail.delete_draft(agent(1), ADA, owners.draft_id)
    await house.mail.delete_draft(agent(1), ADA, made.draft_id)
    await house.mail.delete_draft(OWNER, ADA, owners.draft_id)
    assert (await house.mail.list_drafts(OWNER, ADA, ALL, FIRST)).items == ()


async def test_drafts_page_by_last_change_and_filter_by_label(house: House) -> None:
    await house.inbox()
    made = [await draft(house, text=str(number), labels=("odd",) if number % 2 else ()) for number in range(5)]
    await house.mail.update_draft(agent(1), ADA, made[0].draft_id, {"text": "0"})
    token, texts = None, []
    while True:
        page = await house.mail.list_drafts(agent(1), ADA, ALL, PageRequest(limit=2, page_token=token))
        texts += [row.fields.text for row in page.items]
        if (token := page.next_page_token) is None:
            break
    assert texts == ["0", "4", "3", "2", "1"]
    odd = await house.mail.list_drafts(agent(1), None, MailFilter(labels=("odd",)), FIRST)
    assert [row.fields.text for row in odd.items] == ["3", "1"]


async def test_a_scheduled_draft_is_announced_once_when_it_is_due(house: House) -> None:
    await house.inbox()
    schedule = Schedule(house.store)
    made = await draft(house, to=(BOB,), text="x", send_at=house.clock.now + 60_000_000)
    assert (made.send_status, made.fields.labels) == ("scheduled", ("draft", "scheduled"))
    assert await schedule.announce() == 0
    house.clock.forward(61)
    assert await schedule.announce() == 1
    assert await schedule.announce() == 0
    (event,) = await house.store.events.after(0, kinds=["draft.due"])
    assert (event.ref, event.inbox_id, event.agent_id) == (made.draft_id, ADA, "agt_1")
    sending = await house.mail.get_draft(OWNER, None, made.draft_id)
    assert (sending.send_status, sending.fields.labels) == ("sending", ("draft",))
    with pytest.raises(Conflict):
        await house.mail.update_draft(agent(1), ADA, made.draft_id, {"text": "late"})


@pytest.mark.parametrize(
    ("kind", "status"), [("outgoing.held", None), ("outgoing.refused", "failed"), ("outgoing.failed", "failed")]
)
async def test_what_the_gate_says_of_a_due_draft_shows_on_it(house: House, kind: str, status: str | None) -> None:
    await house.inbox()
    schedule = Schedule(house.store)
    made = await draft(house, to=(BOB,), send_at=1)
    await schedule.announce()
    await house.store.write(lambda tx: tx.emit(kind, "out_1", at=1, snapshot={"draft_id": made.draft_id}))
    await schedule.catch_up(0)
    after = await house.mail.update_draft(agent(1), ADA, made.draft_id, {"text": "again"})
    assert after.send_status == status
    again = await house.mail.update_draft(agent(1), ADA, made.draft_id, {"send_at": 2})
    assert again.send_status == "scheduled"
    unscheduled = await house.mail.update_draft(agent(1), ADA, made.draft_id, {"send_at": None})
    assert (unscheduled.send_status, unscheduled.fields.labels) == (None, ("draft",))


async def test_an_inbox_holds_so_many_drafts_and_says_what_to_do_at_one_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postroom.office.drafts.DRAFTS", 2)
    await house.inbox("ada")
    await house.inbox("eve")
    first, second = await draft(house, text="a"), await draft(house, text="b")
    with pytest.raises(Forbidden, match="an inbox holds at most 2 drafts") as refused:
        await draft(house, text="c")
    assert (refused.value.code, refused.value.fix) == ("limit_exceeded", "send or delete drafts of this inbox first")
    changed = await house.mail.update_draft(agent(1), ADA, second.draft_id, {"text": "bb"})
    assert changed.fields.text == "bb"
    await house.mail.create_draft(OWNER, "eve@postroom.localhost", DraftFields(text="elsewhere"))
    await house.mail.delete_draft(agent(1), ADA, first.draft_id)
    assert (await draft(house, text="c")).fields.text == "c"


async def test_the_drafts_of_an_inbox_hold_so_many_bytes_and_may_always_shrink(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.inbox()
    file = AttachmentData(content=b"f" * 600, filename="f")
    first = await draft(house, text="\u00e4" * 100, attachments=(file,))
    second = await draft(house, text="b" * 100)
    monkeypatch.setattr("postroom.office.drafts.DRAFTS_BYTES", 1000)
    for changes in ({"add_attachments": (file,)}, {"text": "b" * 201}, {"html": "b" * 101}, {"subject": "b" * 101}):
        with pytest.raises(Forbidden, match="hold at most 1000 bytes together"):
            await house.mail.update_draft(agent(1), ADA, second.draft_id, changes)
    with pytest.raises(Forbidden, match="hold at most 1000 bytes together"):
        await draft(house, text="c" * 101)
    assert await house.mail.get_draft(agent(1), ADA, second.draft_id) == second
    monkeypatch.setattr("postroom.office.drafts.DRAFTS_BYTES", 10)
    gone = {"remove_attachments": (first.attachments[0].attachment_id,)}
    assert (await house.mail.update_draft(agent(1), ADA, first.draft_id, gone)).attachments == ()


async def test_a_files_bytes_go_with_the_last_draft_that_has_them(house: House) -> None:
    await house.inbox()
    file = AttachmentData(content=b"the bytes", filename="f")
    sha = await house.store.blobs.put(file.content)
    made = [await draft(house, text=text, attachments=(file,)) for text in "abc"]
    await house.mail.delete_draft(agent(1), ADA, made[0].draft_id)
    assert await house.store.blobs.get(sha) == file.content
    gone = {"remove_attachments": (made[1].attachments[0].attachment_id,)}
    await house.mail.update_draft(agent(1), ADA, made[1].draft_id, gone)
    assert (await house.mail.get_draft(agent(1), ADA, made[2].draft_id)).fields.attachments[0].content == file.content
    await house.mail.delete_draft(agent(1), ADA, made[2].draft_id)
    with pytest.raises(NotFound):
        await house.store.blobs.get(sha)
