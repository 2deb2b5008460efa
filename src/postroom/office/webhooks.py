"""Webhooks: making and changing them, their headers and secrets, what became of their deliveries.

All of it is the owner's. Where a webhook may point to is `wires.destination`'s rule; posting is
`deliveries`. A header's value goes in and never comes out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import and_, bindparam, delete, func, select, tuple_, update

from postroom.clock import MICROS
from postroom.errors import Forbidden, Invalid
from postroom.limits import WEBHOOK_ROTATION_S, WEBHOOK_SCOPES, WEBHOOKS
from postroom.model.paging import Page, PageRequest, make_token, read_token, scope_of
from postroom.model.principal import Principal, require_owner
from postroom.model.webhook import NewWebhook, Webhook, WebhookChanges, WebhookDelivery
from postroom.office import tables as t
from postroom.office.desk import Desk, insert_into, place_of
from postroom.office.naming import check_client_id
from postroom.office.rows import to_json
from postroom.office.signing import new_webhook_secret
from postroom.office.webhook_rows import (
    COLUMNS,
    DELIVERY_COLUMNS,
    check_event_types,
    check_headers,
    delivery_noun,
    find_webhook,
    webhook_noun,
)
from postroom.store.statement import Statement, sql
from postroom.store.transaction import Reader, Tx
from postroom.wires.destination import read_url

_WHAT: Final = "manage webhooks"
_INSERT = insert_into(t.webhook, tuple(column.name for column in t.webhook.c if column.name != "id"))
_BY_CLIENT_ID = sql(
    select(*COLUMNS).where(and_(t.webhook.c.pod == bindparam("pod"), t.webhook.c.client_id == bindparam("client_id")))
)
_COUNT = sql(select(func.count()).select_from(t.webhook).where(t.webhook.c.pod == bindparam("pod")))
_UPDATE = sql(
    update(t.webhook)
    .where(t.webhook.c.id == bindparam("key"))
    .values(
        event_types=bindparam("new_types"),
        inbox_ids=bindparam("new_inboxes"),
        pod_ids=bindparam("new_pods"),
        updated_at=bindparam("at"),
    )
)
_SWITCH = sql(
    update(t.webhook)
    .where(t.webhook.c.id == bindparam("key"))
    .values(enabled=bindparam("new_enabled"), since=bindparam("new_since"), failing_since=None, reason=None)
)
_SET_HEADERS = sql(
    update(t.webhook)
    .where(t.webhook.c.id == bindparam("key"))
    .values(headers=bindparam("new_headers"), updated_at=bindparam("at"))
)
_ROTATE = sql(
    update(t.webhook)
    .where(t.webhook.c.id == bindparam("key"))
    .values(
        old_secret=t.webhook.c.secret, old_until=bindparam("until"), secret=bindparam("new_secret"), updated_at=bindparam("at")
    )
)
_DELETE = sql(delete(t.webhook).where(t.webhook.c.id == bindparam("key")))
_DELETE_DELIVERIES = sql(delete(t.webhook_delivery).where(t.webhook_delivery.c.webhook == bindparam("key")))


@lru_cache(maxsize=8)
def _list_sql(*, inbox: bool, after: bool, ascending: bool) -> Statement:
    at, key = t.webhook.c.created_at, t.webhook.c.id
    query = select(*COLUMNS).where(t.webhook.c.pod == bindparam("pod"))
    if inbox:
        query = query.where(t.webhook.c.inbox == bindparam("inbox"))
    if after:
        mark = tuple_(bindparam("after_at"), bindparam("after_id"))
        query = query.where(tuple_(at, key) > mark if ascending else tuple_(at, key) < mark)
    order = (at, key) if ascending else (at.desc(), key.desc())
    return sql(query.order_by(*order).limit(bindparam("most")))


@lru_cache(maxsize=4)
def _deliveries_sql(*, after: bool, ascending: bool) -> Statement:
    key = t.webhook_delivery.c.id
    query = select(*DELIVERY_COLUMNS).where(t.webhook_delivery.c.webhook == bindparam("webhook"))
    if after:
        query = query.where(key > bindparam("mark") if ascending else key < bindparam("mark"))
    return sql(query.order_by(key if ascending else key.desc()).limit(bindparam("most")))


class Webhooks(Desk):
    """The verbs on webhooks. `inbox_id` None means the pod's, and reaches those of its inboxes too."""

    async def list_webhooks(self, principal: Principal, inbox_id: str | None, page: PageRequest) -> Page[Webhook]:
        inbox = self._owner_of(principal, inbox_id)
        size = page.size()
        listing = scope_of("webhooks", principal.pod_id, inbox, page.ascending)
        position = read_token(listing, page.page_token, int, int)
        statement = _list_sql(inbox=inbox is not None, after=position is not None, ascending=page.ascending)
        params: dict[str, Any] = {"pod": principal.pod_id, "most": size + 1}
        params |= {} if inbox is None else {"inbox": inbox}
        params |= {} if position is None else {"after_at": position[0], "after_id": position[1]}
        rows = await self._store.read(lambda reader: reader.all(statement, **params))
        token = make_token(listing, [rows[size - 1][14], rows[size - 1][0]]) if len(rows) > size else None
        return Page(items=tuple(webhook_noun(row) for row in rows[:size]), next_page_token=token)

    async def create_webhook(self, principal: Principal, inbox_id: str | None, new: NewWebhook) -> Webhook:
        """Create, or return the one already made with the same `client_id`. Raises `Invalid` for where it may not point."""
        inbox = self._owner_of(principal, inbox_id)
        read_url(new.url, self._config.office.webhook_hosts)
        client_id = check_client_id(new.client_id)
        row = {
            "pod": principal.pod_id,
            "uuid": f"ep_{uuid4().hex}",
            "url": new.url,
            "event_types": to_json(check_event_types(new.event_types)),
            "inbox": inbox,
            "pod_ids": to_json(self._pods(principal, new.pod_ids)),
            "client_id": client_id,
            "secret": new_webhook_secret(),
            "headers": to_json(check_headers(new.headers)),
            "enabled": 1,
        }
        empty = dict.fromkeys(("old_secret", "old_until", "failing_since", "reason"))
        now, since = self._store.clock.now_us(), self._store.events.last_seq()

        def create(tx: Tx) -> Webhook:
            if client_id is not None and (made := tx.one(_BY_CLIENT_ID, pod=principal.pod_id, client_id=client_id)) is not None:
                return webhook_noun(made)
            _check_room(tx, principal.pod_id)
            inboxes = _inboxes(tx, principal, new.inbox_ids)
            _check_scopes(inboxes, new.pod_ids)
            tx.insert(_INSERT, **row, **empty, inbox_ids=to_json(inboxes), since=since, created_at=now, updated_at=now)
            return find_webhook(tx, principal.pod_id, inbox, str(row["uuid"]))[1]

        return await self._store.write(create)

    async def get_webhook(self, principal: Principal, inbox_id: str | None, webhook_id: str) -> Webhook:
        inbox = self._owner_of(principal, inbox_id)
        return self._store.read_now(lambda reader: find_webhook(reader, principal.pod_id, inbox, webhook_id))[1]

    async def update_webhook(
        self, principal: Principal, inbox_id: str | None, webhook_id: str, changes: WebhookChanges
    ) -> Webhook:
        """Change what it hears of, or switch it. Switched on again, it hears of what happens from then on."""
        inbox = self._owner_of(principal, inbox_id)
        if changes.is_empty:
            raise Invalid("nothing to change", fix="give event_types, enabled, or inboxes to add or remove")
        types = None if changes.event_types is None else check_event_types(changes.event_types)
        added_pods = self._pods(principal, changes.add_pod_ids)
        now, last = self._store.clock.now_us(), self._store.events.last_seq()

        def change(tx: Tx) -> Webhook:
            key, hook, _ = find_webhook(tx, principal.pod_id, inbox, webhook_id)
            inboxes = _edited(hook.inbox_ids, _inboxes(tx, principal, changes.add_inbox_ids), changes.remove_inbox_ids)
            pods = _edited(hook.pod_ids, added_pods, changes.remove_pod_ids)
            _check_scopes(inboxes, pods)
            _check_not_widened(hook, inboxes, pods)
            tx.run(
                _UPDATE,
                key=key,
                new_types=to_json(types or hook.event_types),
                new_inboxes=to_json(inboxes),
                new_pods=to_json(pods),
                at=now,
            )
            if changes.enabled is not None and changes.enabled != hook.enabled:
                tx.run(_SWITCH, key=key, new_enabled=int(changes.enabled), new_since=last)
            return find_webhook(tx, principal.pod_id, inbox, webhook_id)[1]

        return await self._store.write(change)

    async def delete_webhook(self, principal: Principal, inbox_id: str | None, webhook_id: str) -> None:
        inbox = self._owner_of(principal, inbox_id)

        def drop(tx: Tx) -> None:
            key, _, _ = find_webhook(tx, principal.pod_id, inbox, webhook_id)
            tx.run(_DELETE_DELIVERIES, key=key)
            tx.run(_DELETE, key=key)

        await self._store.write(drop)

    async def update_webhook_headers(
        self, principal: Principal, inbox_id: str | None, webhook_id: str, put: Mapping[str, str], remove: Sequence[str]
    ) -> None:
        """Set and remove headers; names are compared without regard to case."""
        inbox = self._owner_of(principal, inbox_id)
        fresh, gone = check_headers(put), {name.lower() for name in remove}
        if not fresh and not gone:
            raise Invalid("nothing to change", fix="give headers or remove_headers")
        if gone & {name.lower() for name in fresh}:
            raise Invalid("a header cannot be set and removed at once")
        now = self._store.clock.now_us()

        def change(tx: Tx) -> None:
            key, _, headers = find_webhook(tx, principal.pod_id, inbox, webhook_id)
            replaced = gone | {name.lower() for name in fresh}
            kept = {name: value for name, value in headers.items() if name.lower() not in replaced}
            tx.run(_SET_HEADERS, key=key, new_headers=to_json(check_headers(kept | fresh)), at=now)

        await self._store.write(change)

    async def rotate_webhook(self, principal: Principal, webhook_id: str) -> Webhook:
        """A new secret; the one it had signs beside it for a day, so that receivers can change over."""
        require_owner(principal, _WHAT)
        secret = new_webhook_secret()
        now = self._store.clock.now_us()

        def rotate(tx: Tx) -> Webhook:
            key, _, _ = find_webhook(tx, principal.pod_id, None, webhook_id)
            tx.run(_ROTATE, key=key, new_secret=secret, until=now + WEBHOOK_ROTATION_S * MICROS, at=now)
            return find_webhook(tx, principal.pod_id, None, webhook_id)[1]

        return await self._store.write(rotate)

    async def list_deliveries(self, principal: Principal, webhook_id: str, page: PageRequest) -> Page[WebhookDelivery]:
        """What was and is to be posted to one webhook, newest first."""
        require_owner(principal, _WHAT)
        size = page.size()
        listing = scope_of("deliveries", principal.pod_id, webhook_id, page.ascending)
        position = read_token(listing, page.page_token, int)
        statement = _deliveries_sql(after=position is not None, ascending=page.ascending)

        def read(reader: Reader) -> list[tuple[Any, ...]]:
            key, _, _ = find_webhook(reader, principal.pod_id, None, webhook_id)
            onward = {} if position is None else {"mark": position[0]}
            return reader.all(statement, webhook=key, most=size + 1, **onward)

        rows = await self._store.read(read)
        token = make_token(listing, [rows[size - 1][0]]) if len(rows) > size else None
        return Page(items=tuple(delivery_noun(row, webhook_id) for row in rows[:size]), next_page_token=token)

    def _owner_of(self, principal: Principal, inbox_id: str | None) -> str | None:
        """The inbox whose webhooks are meant, if it is one's; the caller must be the owner."""
        require_owner(principal, _WHAT)
        named = inbox_id if inbox_id is not None else principal.inbox_scope
        return None if named is None else self._place(principal, named).inbox.inbox_id

    def _pods(self, principal: Principal, pods: Sequence[str]) -> tuple[str, ...]:
        if any(pod != principal.pod_id for pod in pods):
            raise Invalid(
                "pod_ids names a pod that is not there",
                errors=[{"path": ["pod_ids"], "message": "no such pod", "code": "not_found"}],
            )
        return tuple(dict.fromkeys(pods))


def _inboxes(reader: Reader, principal: Principal, names: Sequence[str]) -> tuple[str, ...]:
    """The inboxes' ids as the office writes them. Raises `NotFound`."""
    return tuple(dict.fromkeys(place_of(reader, principal, name.strip().lower()).inbox.inbox_id for name in names))


def _edited(known: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> tuple[str, ...]:
    gone = {name.strip().lower() for name in remove}
    return tuple(name for name in dict.fromkeys((*known, *add)) if name not in gone)


def _check_room(reader: Reader, pod: str) -> None:
    if reader.scalar(_COUNT, pod=pod) >= WEBHOOKS:
        raise Forbidden(f"there are at most {WEBHOOKS} webhooks", code="limit_exceeded", fix="delete one first")


def _check_scopes(inboxes: Sequence[str], pods: Sequence[str]) -> None:
    if len(inboxes) + len(pods) > WEBHOOK_SCOPES:
        raise Invalid(f"a webhook names at most {WEBHOOK_SCOPES} inboxes and pods together", fix="name a pod instead")


def _check_not_widened(hook: Webhook, inboxes: Sequence[str], pods: Sequence[str]) -> None:
    """Taking its last inbox away would make it hear of all of them."""
    if (hook.inbox_ids or hook.pod_ids) and not inboxes and not pods:
        raise Invalid("a webhook for some inboxes cannot lose the last one", fix="delete the webhook, or add another inbox first")
