"""Inboxes: `client.inboxes`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from postroom.interfaces.rest.bodies import CreateInbox, UpdateInbox
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import Paged
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.shapes import Inbox, Listing, listing
from postroom.model.mail import NewInbox

routes = router("/inboxes", "inboxes")


class ListInboxes(Listing):
    inboxes: list[Inbox]


@routes.get("")
async def list_inboxes(here: Here, caller: Caller, page: Paged) -> ListInboxes:
    found = await here.mail.list_inboxes(caller, page)
    return ListInboxes(**listing(found, page), inboxes=[Inbox.of(row) for row in found.items])


@routes.post("")
async def create_inbox(here: Here, caller: Caller, body: CreateInbox | None = None) -> Inbox:
    return Inbox.of(await here.mail.create_inbox(caller, body.noun() if body else NewInbox()))


@routes.get("/search")
async def search_inboxes(
    here: Here, caller: Caller, page: Paged, q: Annotated[str, Query(min_length=2, max_length=256)]
) -> ListInboxes:
    found = await here.verb("search_inboxes", "inbox search")(caller, q, page)
    return ListInboxes(**listing(found, page), inboxes=[Inbox.of(row) for row in found.items])


@routes.get("/{inbox_id:segment}")
async def get_inbox(here: Here, caller: Caller, inbox_id: str) -> Inbox:
    return Inbox.of(await here.mail.get_inbox(caller, inbox_id))


@routes.patch("/{inbox_id:segment}")
async def update_inbox(here: Here, caller: Caller, inbox_id: str, body: UpdateInbox) -> Inbox:
    return Inbox.of(await here.verb("update_inbox", "updating an inbox")(caller, inbox_id, body.changes()))


@routes.delete("/{inbox_id:segment}", status_code=204)
async def delete_inbox(here: Here, caller: Caller, inbox_id: str) -> None:
    await here.verb("delete_inbox", "deleting an inbox")(caller, inbox_id)
