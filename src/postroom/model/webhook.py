"""Webhooks: where events are posted, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from postroom.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One endpoint. It belongs to `inbox_id`, or to the pod; `inbox_ids` and `pod_ids` narrow a pod's.

    `since`: events after this position are its. `reason` says why it was disabled, if we did it.
    """

    webhook_id: str
    pod_id: str
    url: str
    event_types: tuple[str, ...]
    secret: str
    enabled: bool
    since: int
    inbox_id: str | None = None
    inbox_ids: tuple[str, ...] = ()
    pod_ids: tuple[str, ...] = ()
    client_id: str | None = None
    header_names: tuple[str, ...] = ()
    reason: str | None = None
    created_at: int = 0
    updated_at: int = 0

    def wants(self, event: Event) -> bool:
        """Is this event to be posted to it?"""
        if not self.enabled or event.seq <= self.since or event.kind not in self.event_types or event.pod_id != self.pod_id:
            return False
        if self.inbox_id is not None:
            return event.inbox_id == self.inbox_id
        return not self.inbox_ids or bool(self.pod_ids) or event.inbox_id in self.inbox_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """What `create_webhook` takes."""

    url: str
    event_types: tuple[str, ...]
    inbox_ids: tuple[str, ...] = ()
    pod_ids: tuple[str, ...] = ()
    client_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChanges:
    """What `update_webhook` takes; None keeps, `event_types` replaces."""

    event_types: tuple[str, ...] | None = None
    enabled: bool | None = None
    add_inbox_ids: tuple[str, ...] = ()
    remove_inbox_ids: tuple[str, ...] = ()
    add_pod_ids: tuple[str, ...] = ()
    remove_pod_ids: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when it changes nothing."""
        return self == WebhookChanges()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """One event for one webhook. `delivery_id` is the same in every attempt (`svix-id`); `status` the last answer's."""

    delivery_id: str
    webhook_id: str
    event_id: str
    event_type: str
    state: Literal["queued", "delivered", "failed", "gone"]
    attempts: int
    next_at: int | None = None
    status: int | None = None
    error: str | None = None
    created_at: int = 0
    updated_at: int = 0
