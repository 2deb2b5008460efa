"""Drafts of an inbox (`client.inboxes.drafts`), and read-only across inboxes (`client.drafts`)."""

from __future__ import annotations

from fastapi import Request

from postroom.errors import NotFound
from postroom.interfaces.rest.bodies import CreateDraft, SendDraft, UpdateDraft, several
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import DraftFilter, IdempotencyKey, Paged
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.scopes import Within
from postroom.interfaces.rest.sending import submit
from postroom.interfaces.rest.shapes import AttachmentLink, Draft, DraftItem, Listing, Sent, listing
from postroom.model.request import SendKind, SendRequest

reading = router("", "drafts")
writing = router("/inboxes/{inbox_id:segment}/drafts", "drafts")


class ListDrafts(Listing):
    drafts: list[DraftItem]


@reading.get("")
async def list_drafts(here: Here, caller: Caller, within: Within, filter: DraftFilter, page: Paged) -> ListDrafts:
    found = await here.mail.list_drafts(caller, within, filter, page)
    return ListDrafts(**listing(found, page), drafts=[DraftItem.of(row) for row in found.items])


@reading.get("/{draft_id:segment}")
async def get_draft(here: Here, caller: Caller, within: Within, draft_id: str) -> Draft:
    return Draft.of(await here.mail.get_draft(caller, within, draft_id))


@reading.get("/{draft_id:segment}/attachments/{attachment_id:segment}")
async def get_draft_attachment(
    *, request: Request, here: Here, caller: Caller, within: Within, draft_id: str, attachment_id: str
) -> AttachmentLink:
    draft = await here.mail.get_draft(caller, within, draft_id)
    row = next((row for row in draft.attachments if row.attachment_id == attachment_id), None)
    if row is None:
        raise NotFound("Attachment not found", fix="read the draft to see its attachments")
    return AttachmentLink.linked(row, here.link(request, "draft", draft.inbox_id, draft_id, attachment_id))


@writing.post("")
async def create_draft(here: Here, caller: Caller, inbox_id: str, body: CreateDraft | None = None) -> Draft:
    return Draft.of(await here.mail.create_draft(caller, inbox_id, (body or CreateDraft()).noun()))


@writing.patch("/{draft_id:segment}")
async def update_draft(here: Here, caller: Caller, inbox_id: str, draft_id: str, body: UpdateDraft) -> Draft:
    return Draft.of(await here.mail.update_draft(caller, inbox_id, draft_id, body.changes()))


@writing.delete("/{draft_id:segment}", status_code=204)
async def delete_draft(here: Here, caller: Caller, inbox_id: str, draft_id: str) -> None:
    await here.verb("delete_draft", "deleting a draft")(caller, inbox_id, draft_id)


@writing.post("/{draft_id:segment}/send")
async def send_draft(
    *, here: Here, caller: Caller, inbox_id: str, draft_id: str, key: IdempotencyKey, body: SendDraft | None = None
) -> Sent:
    wish = body or SendDraft()
    request = SendRequest(
        kind=SendKind.DRAFT,
        inbox_id=inbox_id,
        draft_id=draft_id,
        add_labels=several(wish.add_labels),
        remove_labels=several(wish.remove_labels),
    )
    return await submit(here, caller, request, key)
