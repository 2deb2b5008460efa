"""Whose key this is, and the house as the contract sees it: one organisation with one pod.

The house keeps no birthday of its own; its oldest inbox stands for it.
"""

from __future__ import annotations

from postroom.clock import to_iso
from postroom.errors import Forbidden
from postroom.interfaces.rest.door import Caller, Door, Here
from postroom.interfaces.rest.params import Paged
from postroom.interfaces.rest.routing import router
from postroom.interfaces.rest.scopes import InPod
from postroom.interfaces.rest.shapes import ORGANIZATION, Listing, Shape
from postroom.limits import PAGE_MAX
from postroom.model.paging import PageRequest
from postroom.model.principal import Principal, require_owner

routes = router("", "account")


class Identity(Shape):
    """What a key reaches."""

    scope_type: str
    scope_id: str
    organization_id: str = ORGANIZATION
    pod_id: str | None = None
    inbox_id: str | None = None
    api_key_id: str | None = None


class Organization(Shape):
    organization_id: str = ORGANIZATION
    inbox_count: int
    domain_count: int
    updated_at: str
    created_at: str


class Pod(Shape):
    organization_id: str = ORGANIZATION
    pod_id: str
    name: str = "default"
    updated_at: str
    created_at: str


class ListPods(Listing):
    pods: list[Pod]


class CreatePod(Shape):
    name: str | None = None
    client_id: str | None = None


@routes.get("/auth/me")
async def get_identity(here: Here, caller: Caller) -> Identity:
    if caller.inbox_scope is not None:
        scope = {"scope_type": "inbox", "scope_id": caller.inbox_scope, "inbox_id": caller.inbox_scope}
    elif caller.is_owner:
        return Identity(scope_type="organization", scope_id=ORGANIZATION, api_key_id=caller.key_id)
    else:
        scope = {"scope_type": "pod", "scope_id": caller.pod_id}
    return Identity(**scope, pod_id=caller.pod_id, api_key_id=caller.key_id)


@routes.get("/organizations")
async def get_organization(here: Here, caller: Caller) -> Organization:
    since = await _since(here, caller)
    return Organization(
        inbox_count=await _inbox_count(here, caller), domain_count=len(here.mail.domains), created_at=since, updated_at=since
    )


@routes.get("/pods")
async def list_pods(here: Here, caller: Caller, page: Paged) -> ListPods:
    page.size()
    return ListPods(count=1, limit=page.limit, pods=[await _pod(here, caller)])


@routes.post("/pods")
async def create_pod(here: Here, caller: Caller, body: CreatePod | None = None) -> Pod:
    require_owner(caller, "create pods")
    raise Forbidden("this house has one pod", code="limit_exceeded", fix="use the pod that GET /v0/pods lists")


@routes.get("/pods/{pod_id:segment}")
async def get_pod(here: Here, caller: Caller, pod: InPod) -> Pod:
    return await _pod(here, caller)


@routes.delete("/pods/{pod_id:segment}", status_code=204)
async def delete_pod(here: Here, caller: Caller, pod: InPod) -> None:
    require_owner(caller, "delete pods")
    raise Forbidden("the one pod of this house cannot be deleted", code="cannot_delete", fix="delete its inboxes instead")


async def _pod(here: Door, caller: Principal) -> Pod:
    since = await _since(here, caller)
    return Pod(pod_id=caller.pod_id, created_at=since, updated_at=since)


async def _since(here: Door, caller: Principal) -> str:
    oldest = await here.mail.list_inboxes(caller, PageRequest(limit=1, ascending=True))
    return to_iso(oldest.items[0].created_at if oldest.items else here.clock.now_us())


async def _inbox_count(here: Door, caller: Principal) -> int:
    count, token = 0, None
    while True:
        page = await here.mail.list_inboxes(caller, PageRequest(limit=PAGE_MAX, page_token=token))
        count, token = count + len(page.items), page.next_page_token
        if token is None:
            return count
