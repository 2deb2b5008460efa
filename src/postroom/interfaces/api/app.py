"""The application at `/api`. Errors pass through it to the surface, which tells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.errors import NotFound, PostroomError
from postroom.interfaces.api import agents, house, outgoing, reader, webhooks
from postroom.interfaces.api.rooms import Agents, Gate, Rooms, Sessions
from postroom.model.outgoing import Boundary
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.tools.reader import ReaderTools


def api_app(
    *,
    access: Agents,
    mail: Mail,
    gate: Gate,
    sessions: Sessions,
    accepting: Callable[[], bool],
    boundary: Callable[[Principal], tuple[Boundary, str]],
    queues: Callable[[], Awaitable[Mapping[str, int]]] | None = None,
    office: Callable[[], Mapping[str, str]] | None = None,
    reading: ReaderTools | None = None,
    hooks: webhooks.Webhooks | None = None,
    reload: Callable[[Principal], Awaitable[Mapping[str, Sequence[str]]]] | None = None,
) -> ASGIApp:
    """The routes of `/api`.

    `accepting`: does the store take writes; `boundary`: is the gate a wall or a rule for a caller,
    and why; `queues`: how much waits where, for the health report;
    `office`: which hosted office there is and how mail is heard of, for the same; `reading`: a person's mail accounts;
    `hooks`: webhooks and their deliveries; `reload`: read the config again, where there is one to read.
    """
    rooms = Rooms(
        access=access,
        mail=mail,
        gate=gate,
        sessions=sessions,
        accepting=accepting,
        boundary=boundary,
        queues=queues or _no_queues,
        office=office or dict,
        reload=reload,
    )
    routes = [*agents.routes(rooms), *outgoing.routes(rooms), *house.routes(rooms)]
    routes += reader.routes(reading, access) if reading is not None else []
    routes += webhooks.routes(hooks) if hooks is not None else []
    router = Router(routes, redirect_slashes=False, default=_unknown)

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # `app` makes the router raise for a wrong method instead of answering in plain text.
            await router({**scope, "app": api, "root_path": ""}, receive, send)
        except HTTPException as problem:
            raise PostroomError("this path does not take that method", code="method_not_allowed") from problem

    return api


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound("Route not found", fix="see / for what is offered here")


async def _no_queues() -> Mapping[str, int]:
    return {}
