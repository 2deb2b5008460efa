"""Domains of the house (`client.domains`) and of its pod (`client.pods.domains`)."""

from __future__ import annotations

from typing import Any, Final

from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field, StrictBool

from postroom.clock import to_iso
from postroom.interfaces.rest.door import Caller, Here
from postroom.interfaces.rest.params import Paged, invalid
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.shapes import ORGANIZATION, Listing, Shape, listing
from postroom.model.domain import Domain as DomainNoun
from postroom.model.domain import DomainFlags

routes = router("/domains", "domains")
setup = router("/domains", "domains")
_WHAT: Final = "domains"
_ZONE_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "A zone file", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


class Record(Shape):
    type: str
    name: str
    value: str
    status: str
    priority: int | None = None
    reason: str | None = None


class DomainItem(Shape):
    """A domain as listed. Opens are not tracked here."""

    organization_id: str = ORGANIZATION
    pod_id: str
    domain_id: str
    domain: str
    status: str
    feedback_enabled: bool
    inbound_enabled: bool
    subdomains_enabled: bool
    tracking_enabled: bool = False
    updated_at: str
    created_at: str

    @classmethod
    def of(cls, row: DomainNoun) -> DomainItem:
        return cls(**_domain(row))


class Domain(DomainItem):
    """A domain with the DNS records to set for it."""

    reason: str | None = None
    records: list[Record]

    @classmethod
    def of(cls, row: DomainNoun) -> Domain:
        records = [
            Record(
                type=each.type, name=each.name, value=each.value, status=each.status, priority=each.priority, reason=each.reason
            )
            for each in row.records
        ]
        return cls(**_domain(row), reason=row.reason, records=records)


class ListDomains(Listing):
    domains: list[DomainItem]


class SetupLink(Shape):
    """One-click setup is a service of others; the records are set by hand."""

    supported: bool = False


class UpdateDomain(BaseModel):
    feedback_enabled: StrictBool | None = None
    inbound_enabled: StrictBool | None = None
    subdomains_enabled: StrictBool | None = None
    tracking_enabled: StrictBool | None = None

    def changes(self) -> dict[str, bool]:
        """The flags given. Raises `Invalid` for tracking, which is not offered."""
        if self.tracking_enabled:
            raise invalid("tracking_enabled", "opens are not tracked by this server")
        given = {"feedback": self.feedback_enabled, "inbound": self.inbound_enabled, "subdomains": self.subdomains_enabled}
        return {name: value for name, value in given.items() if value is not None}


class CreateDomain(UpdateDomain):
    domain: str = Field(min_length=1, max_length=253)
    allow_conflicting_provider: StrictBool | None = None


@routes.get("")
async def list_domains(here: Here, caller: Caller, page: Paged) -> ListDomains:
    found = await here.verb("list_domains", _WHAT)(caller, page)
    return ListDomains(**listing(found, page), domains=[DomainItem.of(row) for row in found.items])


@routes.post("")
async def create_domain(here: Here, caller: Caller, body: CreateDomain) -> Domain:
    flags = DomainFlags(**body.changes())
    return Domain.of(await here.verb("create_domain", _WHAT)(caller, body.domain, flags))


@routes.get("/{domain_id:segment}")
async def get_domain(here: Here, caller: Caller, domain_id: str) -> Domain:
    return Domain.of(await here.verb("get_domain", _WHAT)(caller, domain_id))


@routes.patch("/{domain_id:segment}")
async def update_domain(here: Here, caller: Caller, domain_id: str, body: UpdateDomain) -> Domain:
    return Domain.of(await here.verb("update_domain", _WHAT)(caller, domain_id, body.changes()))


@routes.delete("/{domain_id:segment}", status_code=204)
async def delete_domain(here: Here, caller: Caller, domain_id: str) -> None:
    await here.verb("delete_domain", _WHAT)(caller, domain_id)


@routes.post("/{domain_id:segment}/verify", status_code=204)
async def verify_domain(here: Here, caller: Caller, domain_id: str) -> None:
    await here.verb("verify_domain", _WHAT)(caller, domain_id)


@routes.get("/{domain_id:segment}/zone-file", response_model=None, responses=_ZONE_FILE)
async def get_zone_file(here: Here, caller: Caller, domain_id: str) -> PlainTextResponse:
    return PlainTextResponse(await here.verb("domain_zone_file", _WHAT)(caller, domain_id))


@setup.get("/{domain_id:segment}/setup-link")
async def get_setup_link(here: Here, caller: Caller, domain_id: str) -> SetupLink:
    await here.verb("get_domain", _WHAT)(caller, domain_id)
    return SetupLink()


def _domain(row: DomainNoun) -> dict[str, Any]:
    return {
        "pod_id": row.pod_id,
        "domain_id": row.name,
        "domain": row.name,
        "status": row.status,
        "feedback_enabled": row.flags.feedback,
        "inbound_enabled": row.flags.inbound,
        "subdomains_enabled": row.flags.subdomains,
        "updated_at": to_iso(row.updated_at),
        "created_at": to_iso(row.created_at),
    }
