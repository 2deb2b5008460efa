"""API keys of the house (`client.api_keys`) and of one inbox (`client.inboxes.api_keys`)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from postroom.access.keys import ApiKey as KeyNoun
from postroom.clock import to_iso
from postroom.interfaces.rest.bodies import Moment
from postroom.interfaces.rest.door import Caller, Door, Here
from postroom.interfaces.rest.params import Paged, invalid, moment
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.scopes import Within
from postroom.interfaces.rest.shapes import Listing, Shape, listing
from postroom.model.mail import Inbox
from postroom.model.principal import Principal

routes = router("", "api keys")
reading = router("/api-keys", "api keys")


class ApiKey(Shape):
    """A key without its secret. Its change is not dated: `updated_at` is when it was made."""

    type: str = "bearer"
    api_key_id: str
    prefix: str
    name: str
    pod_id: str | None = None
    inbox_id: str | None = None
    used_at: str | None = None
    created_at: str
    updated_at: str
    expires_at: str | None = None

    @classmethod
    def of(cls, row: KeyNoun) -> ApiKey:
        return cls(**_key(row), used_at=_iso(row.used_at), updated_at=to_iso(row.created_at))


class CreatedApiKey(Shape):
    """A new key with its text, which is shown this once."""

    api_key_id: str
    api_key: str
    prefix: str
    name: str
    pod_id: str | None = None
    inbox_id: str | None = None
    created_at: str
    expires_at: str | None = None


class ListApiKeys(Listing):
    api_keys: list[ApiKey]


class UpdateApiKey(BaseModel):
    name: str | None = None
    permissions: dict[str, Any] | None = None


class CreateApiKey(UpdateApiKey):
    expires_at: Moment | None = None
    public_key: dict[str, Any] | None = None


@routes.get("")
async def list_api_keys(
    here: Here, caller: Caller, within: Within, page: Paged, type: Literal["bearer", "public_key"] | None = None
) -> ListApiKeys:
    if type == "public_key":
        page.size()
        return ListApiKeys(count=0, limit=page.limit, api_keys=[])
    found = await here.access.keys.list(caller, page, await _inbox(here, caller, within))
    return ListApiKeys(**listing(found, page), api_keys=[ApiKey.of(row) for row in found.items])


@routes.post("")
async def create_api_key(here: Here, caller: Caller, within: Within, body: CreateApiKey | None = None) -> CreatedApiKey:
    wish = body or CreateApiKey()
    _plain(wish)
    if wish.public_key is not None:
        raise invalid("public_key", "keys that are public keys are not offered; make a bearer key")
    inbox = await _inbox(here, caller, within)
    expires_at = moment(wish.expires_at, "expires_at")
    row, text = await here.access.keys.create(caller, name=wish.name or "", inbox=inbox, expires_at=expires_at)
    return CreatedApiKey(**_key(row), api_key=text)


@reading.get("/{api_key_id:segment}")
async def get_api_key(here: Here, caller: Caller, api_key_id: str) -> ApiKey:
    return ApiKey.of(await here.access.keys.get(caller, api_key_id))


@routes.patch("/{api_key_id:segment}")
async def update_api_key(here: Here, caller: Caller, within: Within, api_key_id: str, body: UpdateApiKey) -> ApiKey:
    _plain(body)
    if not body.name:
        raise invalid("name", "give a name", "required")
    return ApiKey.of(await here.access.keys.rename(caller, api_key_id, body.name, await _inbox(here, caller, within)))


@routes.delete("/{api_key_id:segment}", status_code=204)
async def delete_api_key(here: Here, caller: Caller, within: Within, api_key_id: str) -> None:
    await here.access.keys.delete(caller, api_key_id, await _inbox(here, caller, within))


def _plain(body: UpdateApiKey) -> None:
    """A key can do all that its kind can; accepting a map that is not enforced would be a promise broken."""
    if body.permissions:
        raise invalid("permissions", "permissions per key are not offered; a key for one inbox is an agent's, not the owner's")


async def _inbox(here: Door, caller: Principal, within: str | None) -> Inbox | None:
    return None if within is None else await here.mail.get_inbox(caller, within)


def _key(row: KeyNoun) -> dict[str, Any]:
    return {
        "api_key_id": row.key_id,
        "prefix": row.prefix,
        "name": row.name,
        "pod_id": row.pod_id if row.inbox_id else None,
        "inbox_id": row.inbox_id,
        "created_at": to_iso(row.created_at),
        "expires_at": _iso(row.expires_at),
    }


def _iso(at: int | None) -> str | None:
    return None if at is None else to_iso(at)
