"""`/api/agents`: an agent, its token and its inbox are made together, or not at all."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.access.queries import AgentInfo
from postroom.errors import Invalid, NotFound, PostroomError
from postroom.interfaces.api.rooms import Rooms
from postroom.interfaces.api.wire import agent_shape, answer, body_as, caller
from postroom.limits import PAGE_MAX
from postroom.model.mail import NewInbox
from postroom.model.paging import PageRequest
from postroom.model.principal import Principal


class NewAgent(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of POST. Without `inbox` it is NAME at the first domain."""

    name: str
    inbox: str | None = None
    profile: str = "correspondent"


def routes(rooms: Rooms) -> list[Route]:
    """The routes on agents."""

    async def listing(request: Request) -> Response:
        principal = caller(request)
        agents = await rooms.access.list_agents(principal)
        inboxes = await _inboxes_by_agent(rooms, principal)
        return answer({"agents": [agent_shape(info, inboxes.get(info.agent_id, [])) for info in agents]})

    async def add(request: Request) -> Response:
        principal = caller(request)
        new = await body_as(request, NewAgent)
        username, domain = _address(new)
        info, token = await rooms.access.add_agent(principal, new.name, new.profile)
        try:
            inbox_id = await _own_inbox(rooms, principal, info, username, domain or next(iter(rooms.mail.domains), None))
        except PostroomError:
            await rooms.access.remove(principal, info.name)
            raise
        return answer({**agent_shape(info, [inbox_id]), "inbox_id": inbox_id, "token": token}, 201)

    async def rotate(request: Request) -> Response:
        name = request.path_params["name"]
        return answer({"name": name, "token": await rooms.access.rotate(caller(request), name)})

    async def bridge(request: Request) -> Response:
        name = request.path_params["name"]
        return answer({"name": name, "token": await rooms.access.add_bridge(caller(request), name)}, 201)

    async def clear_reading(request: Request) -> Response:
        principal, name = caller(request), request.path_params["name"]
        known = {info.name: info.agent_id for info in await rooms.access.list_agents(principal)}
        if name not in known:
            raise NotFound("Agent not found", fix="list agents to see their names")
        return answer({"name": name, "cleared": await rooms.gate.clear_reading(principal, known[name])})

    async def remove(request: Request) -> Response:
        info = await rooms.access.remove(caller(request), request.path_params["name"])
        return answer({"agent_id": info.agent_id, "name": info.name, "removed": True})

    return [
        Route("/api/agents", listing, methods=["GET"]),
        Route("/api/agents", add, methods=["POST"]),
        Route("/api/agents/{name}/rotate", rotate, methods=["POST"]),
        Route("/api/agents/{name}/bridge", bridge, methods=["POST"]),
        Route("/api/agents/{name}/read-log", clear_reading, methods=["DELETE"]),
        Route("/api/agents/{name}", remove, methods=["DELETE"]),
    ]


async def _own_inbox(rooms: Rooms, principal: Principal, info: AgentInfo, username: str, domain: str | None) -> str:
    """The agent's inbox: made now, or there already because this agent was here before.

    Where no domain is the house's own (a hosted office), which inbox it is, is the office's to find.
    """
    if domain is None:
        return (await rooms.mail.create_inbox(principal, NewInbox(owner_agent=info.agent_id))).inbox_id
    new = NewInbox(username=username, domain=domain, owner_agent=info.agent_id)
    try:
        return (await rooms.mail.create_inbox(principal, new)).inbox_id
    except PostroomError as problem:
        if problem.code != "already_exists":
            raise
        found = await rooms.mail.get_inbox(principal, f"{username}@{domain}")
        if found.owner_agent != info.agent_id:
            raise
        return found.inbox_id


async def _inboxes_by_agent(rooms: Rooms, principal: Principal) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    page = PageRequest(limit=PAGE_MAX)
    while True:
        listed = await rooms.mail.list_inboxes(principal, page)
        for inbox in listed.items:
            if inbox.owner_agent is not None:
                found.setdefault(inbox.owner_agent, []).append(inbox.inbox_id)
        if listed.next_page_token is None:
            return found
        page = PageRequest(limit=PAGE_MAX, page_token=listed.next_page_token)


def _address(new: NewAgent) -> tuple[str, str | None]:
    if new.inbox is None:
        return new.name, None
    username, at, domain = new.inbox.rpartition("@")
    if not (at and username and domain):
        message = "an inbox is given as its address, name@domain"
        raise Invalid(message, errors=[{"path": ["inbox"], "message": message, "code": "invalid"}])
    return username, domain
