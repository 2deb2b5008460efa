"""Changes of labels in one inbox, newest first: `client.inboxes.events`."""

from __future__ import annotations

from postroom.clock import to_iso
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import Paged
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.shapes import ORGANIZATION, Listing, Shape, listing
from postroom.model.mail import LabelEvent

routes = router("/inboxes/{inbox_id:segment}/events", "events")


class InboxEvent(Shape):
    organization_id: str = ORGANIZATION
    pod_id: str
    inbox_id: str
    event_id: str
    event_type: str
    message_id: str
    label: str
    event_at: str
    created_at: str

    @classmethod
    def of(cls, row: LabelEvent) -> InboxEvent:
        return cls(
            pod_id=row.pod_id,
            inbox_id=row.inbox_id,
            event_id=row.event_id,
            event_type=row.kind,
            message_id=row.message_id,
            label=row.label,
            event_at=to_iso(row.at),
            created_at=to_iso(row.at),
        )


class ListInboxEvents(Listing):
    events: list[InboxEvent]


@routes.get("")
async def list_inbox_events(here: Here, caller: Caller, inbox_id: str, page: Paged) -> ListInboxEvents:
    found = await here.verb("list_inbox_events", "events of an inbox")(caller, inbox_id, page)
    return ListInboxEvents(**listing(found, page), events=[InboxEvent.of(row) for row in found.items])
