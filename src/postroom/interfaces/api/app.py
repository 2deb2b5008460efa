"""The application at `/api`. Errors pass through it to the surface, which tells them."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.errors import NotFound, PostroomError
from postroom.interfaces.api import agents, house, outgoing
from postroom.interfaces.api.rooms import Rooms


def build(rooms: Rooms) -> ASGIApp:
    """The routes of `/api` over the rooms given."""
    router = Router(
        [*agents.routes(rooms), *outgoing.routes(rooms), *house.routes(rooms)], redirect_slashes=False, default=_unknown
    )

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # `app` makes the router raise for a wrong method instead of answering in plain text.
            await router({**scope, "app": api, "root_path": ""}, receive, send)
        except HTTPException as problem:
            raise PostroomError("this path does not take that method", code="method_not_allowed") from problem

    return api


async def _unknown(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound("Route not found", fix="see / for what is offered here")
