"""Rows of webhooks and of their deliveries, and the checks of what a webhook is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, bindparam, select

from postroom.errors import Invalid, NotFound
from postroom.limits import WEBHOOK_HEADERS
from postroom.model.event import EVENT_TYPES
from postroom.model.webhook import Webhook, WebhookDelivery
from postroom.office import tables as t
from postroom.office.rows import strings
from postroom.store.statement import sql
from postroom.store.transaction import Reader

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")  # RFC 9110 §5.6.2
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?")
_OURS: Final = frozenset(
    {
        "host",
        "content-type",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
    }
)
_OUR_FAMILIES: Final = ("svix-", "webhook-", "proxy-")

COLUMNS = (
    t.webhook.c.id,
    t.webhook.c.uuid,
    t.webhook.c.pod,
    t.webhook.c.url,
    t.webhook.c.event_types,
    t.webhook.c.secret,
    t.webhook.c.enabled,
    t.webhook.c.since,
    t.webhook.c.inbox,
    t.webhook.c.inbox_ids,
    t.webhook.c.pod_ids,
    t.webhook.c.client_id,
    t.webhook.c.headers,
    t.webhook.c.reason,
    t.webhook.c.created_at,
    t.webhook.c.updated_at,
)
_ONE = sql(select(*COLUMNS).where(and_(t.webhook.c.pod == bindparam("pod"), t.webhook.c.uuid == bindparam("uuid"))))


def webhook_noun(row: Sequence[Any]) -> Webhook:
    return Webhook(
        webhook_id=row[1],
        pod_id=row[2],
        url=row[3],
        event_types=strings(row[4]),
        secret=row[5],
        enabled=bool(row[6]),
        since=row[7],
        inbox_id=row[8],
        inbox_ids=strings(row[9]),
        pod_ids=strings(row[10]),
        client_id=row[11],
        header_names=tuple(sorted(json.loads(row[12]))),
        reason=row[13],
        created_at=row[14],
        updated_at=row[15],
    )


def find_webhook(reader: Reader, pod: str, inbox_id: str | None, webhook_id: str) -> tuple[int, Webhook, dict[str, str]]:
    """Its key, itself, its headers. `inbox_id` None: any of the pod's, else one that belongs to that inbox."""
    row = reader.one(_ONE, pod=pod, uuid=webhook_id)
    if row is None or (inbox_id is not None and row[8] != inbox_id):
        raise NotFound("Webhook not found", fix="list webhooks to see the ones there are")
    return row[0], webhook_noun(row), json.loads(row[12])


DELIVERY_COLUMNS = (
    t.webhook_delivery.c.id,
    t.webhook_delivery.c.delivery_id,
    t.webhook_delivery.c.event_id,
    t.webhook_delivery.c.kind,
    t.webhook_delivery.c.state,
    t.webhook_delivery.c.attempts,
    t.webhook_delivery.c.next_at,
    t.webhook_delivery.c.status,
    t.webhook_delivery.c.error,
    t.webhook_delivery.c.created_at,
    t.webhook_delivery.c.updated_at,
)


def delivery_noun(row: Sequence[Any], webhook_id: str) -> WebhookDelivery:
    return WebhookDelivery(
        delivery_id=row[1],
        webhook_id=webhook_id,
        event_id=row[2],
        event_type=row[3],
        state=row[4],
        attempts=row[5],
        next_at=row[6] if row[4] == "queued" else None,
        status=row[7],
        error=row[8],
        created_at=row[9],
        updated_at=row[10],
    )


def check_event_types(names: Sequence[str]) -> tuple[str, ...]:
    """At least one, each of the contract's. Raises `Invalid`."""
    if not names or not EVENT_TYPES.issuperset(names):
        raise _invalid("event_types", "name at least one event type of the contract, and nothing else")
    return tuple(dict.fromkeys(names))


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers a delivery may carry besides ours. Raises `Invalid` without repeating a value."""
    if len(headers) > WEBHOOK_HEADERS:
        raise _invalid("headers", f"at most {WEBHOOK_HEADERS}")
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _invalid("headers", "a header has a token for its name and printable ASCII for its value")
        if name.lower() in _OURS or name.lower().startswith(_OUR_FAMILIES):
            raise _invalid("headers", "a header that belongs to the delivery itself cannot be set")
    if len({name.lower() for name in headers}) != len(headers):
        raise _invalid("headers", "a name is given twice")
    return dict(headers)


def _invalid(field: str, message: str) -> Invalid:
    return Invalid(f"{field}: {message}", errors=[{"path": [field], "message": message, "code": "invalid_value"}])
