"""Allow and block lists of one inbox (`client.inboxes.lists`) and of the pod (`client.lists`)."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path
from pydantic import BaseModel, Field

from postroom.clock import to_iso
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import Paged
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.scopes import Within
from postroom.interfaces.rest.shapes import ORGANIZATION, Listing, Shape, listing
from postroom.model import mail

routes = router("/{direction:segment}/{type:segment}", "lists")
_WHAT = "allow and block lists"
Direction = Annotated[Literal["send", "receive", "reply"], Path()]
Type = Annotated[Literal["allow", "block"], Path()]


class ListEntry(Shape):
    organization_id: str = ORGANIZATION
    pod_id: str
    inbox_id: str | None = None
    scope_key: str
    entry: str
    reason: str | None = None
    direction: str
    list_type: str
    entry_type: str
    created_at: str
    read_only: bool | None = None

    @classmethod
    def of(cls, row: mail.ListEntry) -> ListEntry:
        scope = f"inbox#{row.inbox_id}" if row.inbox_id else f"organization#{ORGANIZATION}"
        return cls(
            pod_id=row.pod_id,
            inbox_id=row.inbox_id,
            scope_key=f"{scope}#{row.direction}#{row.list_type}",
            entry=row.entry,
            reason=row.reason,
            direction=row.direction,
            list_type=row.list_type,
            entry_type=row.entry_type,
            created_at=to_iso(row.created_at),
            read_only=row.read_only or None,
        )


class ListEntries(Listing):
    entries: list[ListEntry]


class CreateEntry(BaseModel):
    entry: str = Field(min_length=1, max_length=320)
    reason: str | None = Field(default=None, max_length=1024)


@routes.get("")
async def list_entries(
    *, here: Here, caller: Caller, within: Within, direction: Direction, type: Type, page: Paged
) -> ListEntries:
    found = await here.verb("list_entries", _WHAT)(caller, within, direction, type, page)
    return ListEntries(**listing(found, page), entries=[ListEntry.of(row) for row in found.items])


@routes.post("")
async def create_entry(
    *, here: Here, caller: Caller, within: Within, direction: Direction, type: Type, body: CreateEntry
) -> ListEntry:
    create = here.verb("create_entry", _WHAT)
    return ListEntry.of(await create(caller, within, direction, type, body.entry, reason=body.reason))


@routes.get("/{entry:segment}")
async def get_entry(*, here: Here, caller: Caller, within: Within, direction: Direction, type: Type, entry: str) -> ListEntry:
    return ListEntry.of(await here.verb("get_entry", _WHAT)(caller, within, direction, type, entry))


@routes.delete("/{entry:segment}", status_code=204)
async def delete_entry(*, here: Here, caller: Caller, within: Within, direction: Direction, type: Type, entry: str) -> None:
    await here.verb("delete_entry", _WHAT)(caller, within, direction, type, entry)
