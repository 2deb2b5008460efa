"""`/api/outgoing`: what wanted to leave, and a person's yes or no to it."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.errors import Invalid
from postroom.interfaces.api.rooms import Rooms
from postroom.interfaces.api.wire import answer, body_as, caller, outgoing_shape, page_of
from postroom.model.outgoing import State


class Approval(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The digest of what the approver has seen."""

    digest: str


class Refusal(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why not; told to the agent."""

    comment: str = ""


def routes(rooms: Rooms) -> list[Route]:
    """The routes on outgoing mail."""
    gate = rooms.gate

    async def listing(request: Request) -> Response:
        page = await gate.list(caller(request), states=_states(request), page=page_of(request))
        body = {"count": len(page.items), "outgoing": [outgoing_shape(mail, whole=False) for mail in page.items]}
        return answer(body | ({"next_page_token": page.next_page_token} if page.next_page_token else {}))

    async def show(request: Request) -> Response:
        return answer(outgoing_shape(await gate.show(caller(request), request.path_params["id"]), whole=True))

    async def raw(request: Request) -> Response:
        content = await gate.raw(caller(request), request.path_params["id"])
        return Response(content, media_type="message/rfc822", headers={"content-disposition": "attachment"})

    async def approve(request: Request) -> Response:
        digest = (await body_as(request, Approval)).digest
        return answer(outgoing_shape(await gate.approve(caller(request), request.path_params["id"], digest), whole=True))

    async def refuse(request: Request) -> Response:
        comment = (await body_as(request, Refusal)).comment
        return answer(outgoing_shape(await gate.refuse(caller(request), request.path_params["id"], comment), whole=True))

    return [
        Route("/api/outgoing", listing, methods=["GET"]),
        Route("/api/outgoing/{id}", show, methods=["GET"]),
        Route("/api/outgoing/{id}/raw", raw, methods=["GET"]),
        Route("/api/outgoing/{id}/approve", approve, methods=["POST"]),
        Route("/api/outgoing/{id}/refuse", refuse, methods=["POST"]),
    ]


def _states(request: Request) -> tuple[State, ...]:
    names = [name for value in request.query_params.getlist("state") for name in value.split(",") if name]
    try:
        return tuple(State(name) for name in names)
    except ValueError:
        message = f"state is one of {', '.join(State)}"
        raise Invalid(message, errors=[{"path": ["state"], "message": message, "code": "invalid"}]) from None
