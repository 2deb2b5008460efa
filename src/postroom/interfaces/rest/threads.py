"""Threads of an inbox, of the pod, and of every inbox the key may use: `client.threads` and its mirrors."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request

from postroom.errors import NotFound
from postroom.interfaces.rest.bodies import UpdateLabels
from postroom.interfaces.rest.door import Caller, Door, Here
from postroom.interfaces.rest.params import Paged, SearchDates, SearchQuery, ThreadFilter, invalid
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.scopes import Within
from postroom.interfaces.rest.shapes import AttachmentLink, Listing, Thread, ThreadItem, ThreadLabels, listing
from postroom.model.mail import Message
from postroom.model.paging import PageRequest
from postroom.model.principal import Principal

routes = router("", "threads")


class ListThreads(Listing):
    threads: list[ThreadItem]


def _thread_id(thread_id: Annotated[str, Path(json_schema_extra={"format": "uuid"})]) -> str:
    try:
        return str(UUID(thread_id))
    except ValueError:
        raise invalid("thread_id", "Invalid UUID") from None


ThreadId = Annotated[str, Depends(_thread_id)]


@routes.get("")
async def list_threads(here: Here, caller: Caller, within: Within, filter: ThreadFilter, page: Paged) -> ListThreads:
    found = await here.mail.list_threads(caller, within, filter, page)
    return ListThreads(**listing(found, page), threads=[ThreadItem.of(row) for row in found.items])


@routes.get("/search")
async def search_threads(
    *, here: Here, caller: Caller, within: Within, q: SearchQuery, page: Paged, dates: SearchDates
) -> ListThreads:
    found = await here.mail.search_threads(caller, within, q, page, dates)
    return ListThreads(**listing(found, page), threads=[ThreadItem.of(row) for row in found.items])


@routes.get("/{thread_id:segment}")
async def get_thread(here: Here, caller: Caller, within: Within, thread: ThreadId, page: Paged) -> Thread:
    return Thread.paged(await here.mail.get_thread(caller, within, thread, page), page)


@routes.patch("/{thread_id:segment}")
async def update_thread(here: Here, caller: Caller, within: Within, thread: ThreadId, body: UpdateLabels) -> ThreadLabels:
    labels = await here.mail.update_thread(caller, within, thread, *body.pair())
    return ThreadLabels(thread_id=thread, labels=list(labels))


@routes.delete("/{thread_id:segment}", status_code=204)
async def delete_thread(here: Here, caller: Caller, within: Within, thread: ThreadId) -> None:
    await here.verb("delete_thread", "deleting a thread")(caller, within, thread)


@routes.get("/{thread_id:segment}/attachments/{attachment_id:segment}")
async def get_thread_attachment(
    *, request: Request, here: Here, caller: Caller, within: Within, thread: ThreadId, attachment_id: str
) -> AttachmentLink:
    message = await _carrier(here, caller, within, thread, attachment_id)
    row, _ = await here.mail.get_attachment(caller, message.inbox_id, message.message_id, attachment_id)
    link = here.link(request, "attachment", message.inbox_id, message.message_id, attachment_id)
    return AttachmentLink.linked(row, link)


async def _carrier(here: Door, caller: Principal, within: str | None, thread_id: str, attachment_id: str) -> Message:
    """The thread's message that has the attachment, looked for from the newest page on."""
    token: str | None = None
    while True:
        thread = await here.mail.get_thread(caller, within, thread_id, PageRequest(limit=100, page_token=token))
        for message in thread.messages or ():
            if any(row.attachment_id == attachment_id for row in message.attachments):
                return message
        token = thread.next_page_token
        if token is None:
            raise NotFound("Attachment not found", fix="read the thread to see its attachments")
