"""Messages of one inbox: `client.inboxes.messages`."""

from __future__ import annotations

from fastapi import Request

from postroom.interfaces.rest.bodies import BatchGet, BatchUpdate, Reply, ReplyAll, Send, UpdateLabels
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import IdempotencyKey, MessageFilter, Paged, SearchDates, SearchQuery
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.sending import submit
from postroom.interfaces.rest.shapes import (
    AttachmentLink,
    Listing,
    Message,
    MessageItem,
    MessageLabels,
    RawLink,
    Sent,
    Shape,
    listing,
)
from postroom.model.request import SendKind

routes = router("/inboxes/{inbox_id:segment}/messages", "messages")


class ListMessages(Listing):
    messages: list[MessageItem]


class BatchMessages(Shape):
    """`limit` is how many ids were asked for; ids without a message are left out."""

    limit: int
    count: int
    messages: list[MessageItem]


class BatchLabels(Shape):
    limit: int
    count: int
    updates: list[MessageLabels]


@routes.get("")
async def list_messages(here: Here, caller: Caller, inbox_id: str, filter: MessageFilter, page: Paged) -> ListMessages:
    found = await here.mail.list_messages(caller, inbox_id, filter, page)
    return ListMessages(**listing(found, page), messages=[MessageItem.of(row) for row in found.items])


@routes.get("/search")
async def search_messages(
    *, here: Here, caller: Caller, inbox_id: str, q: SearchQuery, page: Paged, dates: SearchDates
) -> ListMessages:
    found = await here.verb("search_messages", "message search")(caller, inbox_id, q, page, dates)
    return ListMessages(**listing(found, page), messages=[MessageItem.of(row) for row in found.items])


@routes.post("/batch-get")
async def batch_get_messages(here: Here, caller: Caller, inbox_id: str, body: BatchGet) -> BatchMessages:
    ids = body.ids()
    found = await here.verb("batch_get_messages", "batch get")(caller, inbox_id, ids)
    return BatchMessages(limit=len(ids), count=len(found), messages=[MessageItem.of(row) for row in found])


@routes.post("/batch-update")
async def batch_update_messages(here: Here, caller: Caller, inbox_id: str, body: BatchUpdate) -> BatchLabels:
    ids, (add, remove) = body.ids(), body.pair()
    found = await here.verb("batch_update_messages", "batch update")(caller, inbox_id, ids, add, remove)
    updates = [MessageLabels(message_id=message_id, labels=list(labels)) for message_id, labels in found.items()]
    return BatchLabels(limit=len(ids), count=len(updates), updates=updates)


@routes.post("/send")
async def send_message(here: Here, caller: Caller, inbox_id: str, body: Send, key: IdempotencyKey) -> Sent:
    return await submit(here, caller, body.request(SendKind.SEND, inbox_id), key)


@routes.get("/{message_id:segment}")
async def get_message(here: Here, caller: Caller, inbox_id: str, message_id: str) -> Message:
    return Message.of(await here.mail.get_message(caller, inbox_id, message_id))


@routes.patch("/{message_id:segment}")
async def update_message(here: Here, caller: Caller, inbox_id: str, message_id: str, body: UpdateLabels) -> MessageLabels:
    labels = await here.mail.update_message(caller, inbox_id, message_id, *body.pair())
    return MessageLabels(message_id=message_id, labels=list(labels))


@routes.delete("/{message_id:segment}", status_code=204)
async def delete_message(here: Here, caller: Caller, inbox_id: str, message_id: str) -> None:
    await here.verb("delete_message", "deleting a message")(caller, inbox_id, message_id)


@routes.get("/{message_id:segment}/raw")
async def get_raw_message(request: Request, here: Here, caller: Caller, inbox_id: str, message_id: str) -> RawLink:
    raw = await here.mail.get_raw(caller, inbox_id, message_id)
    link = here.link(request, "raw", await here.address(caller, inbox_id), message_id)
    return RawLink(message_id=message_id, size=len(raw.content), **link)


@routes.get("/{message_id:segment}/attachments/{attachment_id:segment}")
async def get_message_attachment(
    *, request: Request, here: Here, caller: Caller, inbox_id: str, message_id: str, attachment_id: str
) -> AttachmentLink:
    row, _ = await here.mail.get_attachment(caller, inbox_id, message_id, attachment_id)
    address = await here.address(caller, inbox_id)
    return AttachmentLink.linked(row, here.link(request, "attachment", address, message_id, row.attachment_id))


@routes.post("/{message_id:segment}/reply")
async def reply_to_message(
    *, here: Here, caller: Caller, inbox_id: str, message_id: str, key: IdempotencyKey, body: Reply | None = None
) -> Sent:
    return await submit(here, caller, (body or Reply()).reply(inbox_id, message_id), key)


@routes.post("/{message_id:segment}/reply-all")
async def reply_all_to_message(
    *, here: Here, caller: Caller, inbox_id: str, message_id: str, key: IdempotencyKey, body: ReplyAll | None = None
) -> Sent:
    return await submit(here, caller, (body or ReplyAll()).reply(inbox_id, message_id), key)


@routes.post("/{message_id:segment}/forward")
async def forward_message(*, here: Here, caller: Caller, inbox_id: str, message_id: str, body: Send, key: IdempotencyKey) -> Sent:
    return await submit(here, caller, body.request(SendKind.FORWARD, inbox_id, message_id), key)
