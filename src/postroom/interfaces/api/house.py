"""`/api/sessions`, `/api/audit`, `/api/health`, `/api/reload`: what goes on in the house."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom import __version__
from postroom.clock import to_iso
from postroom.errors import Invalid, NotFound
from postroom.interfaces.api.rooms import Rooms
from postroom.interfaces.api.wire import answer, caller, integer, notice_shape, session_shape, waiting_shape

WAIT_S: Final = 50  # one long poll; clients ask again
CLIENT_CHARS: Final = 128


def routes(rooms: Rooms) -> list[Route]:
    """The routes on sessions, audit and health."""

    async def sessions(request: Request) -> Response:
        return answer({"sessions": [session_shape(row) for row in await rooms.sessions.list(caller(request))]})

    async def pending(request: Request) -> Response:
        notices = await rooms.sessions.pending(caller(request), request.path_params["id"], integer(request, "ack"))
        return answer({"session_id": request.path_params["id"], "notices": [notice_shape(notice) for notice in notices]})

    async def waiting(request: Request) -> Response:
        client = request.query_params.get("client", "")[:CLIENT_CHARS]
        again = request.query_params.get("again") != "0"
        wait_s = min(integer(request, "wait") or 0, WAIT_S)
        found = await rooms.sessions.waiting(caller(request), client=client, again=again, wait_s=wait_s)
        return answer({"waiting": [waiting_shape(one) for one in found]})

    async def wake(request: Request) -> Response:
        return answer({"woken": await rooms.sessions.wake(caller(request), request.path_params["id"])})

    async def audit(request: Request) -> Response:
        outgoing_id = request.query_params.get("outgoing")
        if not outgoing_id:
            message = "say whose history: ?outgoing=out_…"
            raise Invalid(message, errors=[{"path": ["outgoing"], "message": message, "code": "missing"}])
        entries = await rooms.gate.history(caller(request), outgoing_id)
        return answer({"entries": [{**entry, "at": to_iso(entry["at"])} for entry in entries]})

    async def health(request: Request) -> Response:
        fine = rooms.accepting()
        boundary, why = rooms.boundary(caller(request))
        report: dict[str, object] = {"status": "ok" if fine else "degraded", "version": __version__, "accepting": fine}
        if office := dict(rooms.office()):
            report["office"] = office
        return answer(report | {"boundary": boundary, "boundary_reason": why, "queues": dict(await rooms.queues())})

    async def reload(request: Request) -> Response:
        if rooms.reload is None:
            raise NotFound("this house has no config to read again")
        return answer({name: list(keys) for name, keys in (await rooms.reload(caller(request))).items()})

    return [
        Route("/api/sessions", sessions, methods=["GET"]),
        Route("/api/waiting", waiting, methods=["GET"]),
        Route("/api/sessions/{id}/pending", pending, methods=["GET"]),
        Route("/api/sessions/{id}/wake", wake, methods=["POST"]),
        Route("/api/audit", audit, methods=["GET"]),
        Route("/api/health", health, methods=["GET"]),
        Route("/api/reload", reload, methods=["POST"]),
    ]
