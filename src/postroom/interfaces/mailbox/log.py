"""`/mailbox/export`, `/mailbox/import`, `/mailbox/verify`: the log as a whole, the owner's alone."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from postroom.errors import Invalid
from postroom.interfaces.mailbox.wire import answer, caller, integer
from postroom.mailbox.room import Mailbox
from postroom.mailbox.transfer import Import, exported
from postroom.model.principal import require_owner


def log_routes(mailbox: Mailbox) -> list[Route]:
    """The routes on the log as a whole."""

    async def export(request: Request) -> Response:
        require_owner(caller(request), "export the log")
        return StreamingResponse(exported(mailbox, integer(request, "since", 0)), media_type="application/x-ndjson")

    async def take_in(request: Request) -> Response:
        require_owner(caller(request), "import a log")
        source = request.query_params.get("source", "mail.jsonl")
        if not source.isprintable() or len(source) > 100:
            raise Invalid("source is a short name for the file")
        return answer(asdict(await Import(mailbox, caller(request), source).run(await request.body())))

    async def verify(request: Request) -> Response:
        require_owner(caller(request), "verify the log")
        verdict = await mailbox.verify(request.query_params.getlist("witness"))
        fault = asdict(verdict.fault) if verdict.fault else None
        return answer({"size": verdict.size, "head": verdict.head.hex(), "valid": fault is None, "fault": fault})

    return [
        Route("/mailbox/export", export, methods=["GET"]),
        Route("/mailbox/import", take_in, methods=["POST"]),
        Route("/mailbox/verify", verify, methods=["GET"]),
    ]
