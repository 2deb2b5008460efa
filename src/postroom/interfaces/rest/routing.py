"""The routers' common ground: strict JSON in, answers without empty fields, the errors each operation may give."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.convertors import register_url_convertor

from postroom.interfaces.rest.paths import Segment
from postroom.interfaces.rest.shapes import Problem

register_url_convertor("segment", Segment())  # before any route names it

PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Problem, "description": "The request is not valid"},
    401: {"model": Problem, "description": "No key, or not a good one"},
    403: {"model": Problem, "description": "Not allowed, held for approval, or refused"},
    404: {"model": Problem, "description": "Not there, or not for this key"},
    409: {"model": Problem, "description": "Contradicts the present state"},
    422: {"model": Problem, "description": "Understood, but cannot be done"},
    429: {"model": Problem, "description": "Not now; see Retry-After"},
    500: {"model": Problem, "description": "A fault of ours"},
    502: {"model": Problem, "description": "A remote server failed"},
    503: {"model": Problem, "description": "The store cannot take it now"},
}


class _Strict(Request):
    """A request whose JSON is UTF-8 and Unicode only: half a character (a lone surrogate) can be stored nowhere."""

    async def json(self) -> Any:
        try:
            return msgspec.json.decode(await self.body())
        except (msgspec.DecodeError, RecursionError) as problem:
            raise json.JSONDecodeError(str(problem), "", 0) from None  # the one error the framework tells as the caller's


class Route(APIRoute):
    """A route that reads JSON strictly and omits empty fields."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        options["response_model_exclude_none"] = True
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler over our request."""
        handler = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handler(_Strict(request.scope, request.receive))

        return strictly


def router(prefix: str, tag: str) -> APIRouter:
    """A router for one resource."""
    return APIRouter(prefix=prefix, tags=[tag], route_class=Route)
