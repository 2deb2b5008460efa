"""`/api/webhooks`: what was posted where and what came of it, and a new secret for an endpoint."""

from __future__ import annotations

from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.clock import to_iso
from postroom.interfaces.api.wire import answer, caller, page_of
from postroom.limits import WEBHOOK_ROTATION_S
from postroom.model.paging import Page, PageRequest
from postroom.model.principal import Principal
from postroom.model.webhook import Webhook, WebhookDelivery


class Webhooks(Protocol):
    """The verbs on them beyond the AgentMail API (`office`)."""

    async def list_deliveries(self, principal: Principal, webhook_id: str, page: PageRequest, /) -> Page[WebhookDelivery]: ...
    async def rotate_webhook(self, principal: Principal, webhook_id: str, /) -> Webhook: ...


def routes(webhooks: Webhooks) -> list[Route]:
    """The routes on webhooks."""

    async def deliveries(request: Request) -> Response:
        page = await webhooks.list_deliveries(caller(request), request.path_params["id"], page_of(request))
        body = {"count": len(page.items), "deliveries": [_delivery(row) for row in page.items]}
        return answer(body | ({"next_page_token": page.next_page_token} if page.next_page_token else {}))

    async def rotate(request: Request) -> Response:
        hook = await webhooks.rotate_webhook(caller(request), request.path_params["id"])
        until = to_iso(hook.updated_at + WEBHOOK_ROTATION_S * 1_000_000)
        return answer({"webhook_id": hook.webhook_id, "secret": hook.secret, "earlier_secret_signs_until": until})

    return [
        Route("/api/webhooks/{id}/deliveries", deliveries, methods=["GET"]),
        Route("/api/webhooks/{id}/rotate", rotate, methods=["POST"]),
    ]


def _delivery(row: WebhookDelivery) -> dict[str, Any]:
    facts = {
        "delivery_id": row.delivery_id,
        "event_id": row.event_id,
        "event_type": row.event_type,
        "state": row.state,
        "attempts": row.attempts,
        "status": row.status,
        "error": row.error,
        "next_at": None if row.next_at is None else to_iso(row.next_at),
        "created_at": to_iso(row.created_at),
        "updated_at": to_iso(row.updated_at),
    }
    return {name: value for name, value in facts.items() if value is not None}
