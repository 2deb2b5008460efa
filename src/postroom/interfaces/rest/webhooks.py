"""Webhooks of the house (`client.webhooks`), of its pod and of one inbox (`client.inboxes.webhooks`)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, StrictBool

from postroom.clock import to_iso
from postroom.interfaces.rest.bodies import ClientId
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import Paged
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.scopes import Within
from postroom.interfaces.rest.shapes import ORGANIZATION, Listing, Shape, listing
from postroom.model import webhook

routes = router("", "webhooks")
_WHAT: Final = "webhooks"
Url = Annotated[str, Field(min_length=1, max_length=2048)]


class WebhookItem(Shape):
    """A webhook as listed: without its secret."""

    organization_id: str = ORGANIZATION
    webhook_id: str
    url: str
    event_types: list[str]
    pod_ids: list[str] | None = None
    inbox_ids: list[str] | None = None
    pod_id: str | None = None
    inbox_id: str | None = None
    enabled: bool
    client_id: str | None = None
    updated_at: str
    created_at: str

    @classmethod
    def of(cls, row: webhook.Webhook) -> WebhookItem:
        return cls(**_webhook(row))


class Webhook(WebhookItem):
    secret: str

    @classmethod
    def of(cls, row: webhook.Webhook) -> Webhook:
        return cls(**_webhook(row), secret=row.secret)


class ListWebhooks(Listing):
    webhooks: list[WebhookItem]


class HeaderNames(Shape):
    header_names: list[str]


class CreateWebhook(BaseModel):
    url: Url
    event_types: list[str]
    inbox_ids: list[str] | None = None
    pod_ids: list[str] | None = None
    client_id: ClientId | None = None
    headers: dict[str, str] | None = None

    def noun(self, *, narrowed: bool) -> webhook.NewWebhook:
        """`narrowed`: it can name inboxes and pods of its own."""
        return webhook.NewWebhook(
            url=self.url,
            event_types=tuple(self.event_types),
            inbox_ids=tuple(self.inbox_ids or ()) if narrowed else (),
            pod_ids=tuple(self.pod_ids or ()) if narrowed else (),
            client_id=self.client_id,
            headers=self.headers or {},
        )


class UpdateWebhook(BaseModel):
    event_types: list[str] | None = None
    enabled: StrictBool | None = None
    add_inbox_ids: list[str] | None = None
    remove_inbox_ids: list[str] | None = None
    add_pod_ids: list[str] | None = None
    remove_pod_ids: list[str] | None = None

    def noun(self, *, narrowed: bool) -> webhook.WebhookChanges:
        lists = ("add_inbox_ids", "remove_inbox_ids", "add_pod_ids", "remove_pod_ids") if narrowed else ()
        return webhook.WebhookChanges(
            event_types=None if self.event_types is None else tuple(self.event_types),
            enabled=self.enabled,
            **{name: tuple(getattr(self, name) or ()) for name in lists},
        )


class UpdateHeaders(BaseModel):
    headers: dict[str, str] | None = None
    remove_headers: list[str] | None = None


@routes.get("")
async def list_webhooks(here: Here, caller: Caller, within: Within, page: Paged) -> ListWebhooks:
    found = await here.verb("list_webhooks", _WHAT)(caller, within, page)
    return ListWebhooks(**listing(found, page), webhooks=[WebhookItem.of(row) for row in found.items])


@routes.post("")
async def create_webhook(here: Here, caller: Caller, within: Within, body: CreateWebhook) -> Webhook:
    return Webhook.of(await here.verb("create_webhook", _WHAT)(caller, within, body.noun(narrowed=within is None)))


@routes.get("/{webhook_id:segment}")
async def get_webhook(here: Here, caller: Caller, within: Within, webhook_id: str) -> Webhook:
    return Webhook.of(await here.verb("get_webhook", _WHAT)(caller, within, webhook_id))


@routes.patch("/{webhook_id:segment}")
async def update_webhook(here: Here, caller: Caller, within: Within, webhook_id: str, body: UpdateWebhook) -> Webhook:
    changes = body.noun(narrowed=within is None)
    return Webhook.of(await here.verb("update_webhook", _WHAT)(caller, within, webhook_id, changes))


@routes.delete("/{webhook_id:segment}", status_code=204)
async def delete_webhook(here: Here, caller: Caller, within: Within, webhook_id: str) -> None:
    await here.verb("delete_webhook", _WHAT)(caller, within, webhook_id)


@routes.get("/{webhook_id:segment}/headers")
async def get_webhook_headers(here: Here, caller: Caller, within: Within, webhook_id: str) -> HeaderNames:
    found = await here.verb("get_webhook", _WHAT)(caller, within, webhook_id)
    return HeaderNames(header_names=list(found.header_names))


@routes.patch("/{webhook_id:segment}/headers", status_code=204)
async def update_webhook_headers(here: Here, caller: Caller, within: Within, webhook_id: str, body: UpdateHeaders) -> None:
    change = here.verb("update_webhook_headers", _WHAT)
    await change(caller, within, webhook_id, body.headers or {}, body.remove_headers or [])


def _webhook(row: webhook.Webhook) -> dict[str, Any]:
    return {
        "webhook_id": row.webhook_id,
        "url": row.url,
        "event_types": list(row.event_types),
        "pod_ids": list(row.pod_ids) or None,
        "inbox_ids": list(row.inbox_ids) or None,
        "pod_id": row.pod_id if row.inbox_id else None,
        "inbox_id": row.inbox_id,
        "enabled": row.enabled,
        "client_id": row.client_id,
        "updated_at": to_iso(row.updated_at),
        "created_at": to_iso(row.created_at),
    }
