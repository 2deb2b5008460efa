"""Every way a request can fail, in the one shape of the HTTP origin's error table.

The framework's own errors (validation, unknown route, wrong method) become ours here. A mail over
the size limit is the caller's 400 in this contract, not a 413.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from postroom.errors import Invalid, NotFound, PostroomError, TooLarge
from postroom.interfaces.http.errors import body_of, headers_of, internal_error, status_of
from postroom.interfaces.rest.absent import missing

_METHODS = ("GET", "POST", "PATCH", "DELETE")
_ROUTES = "see /openapi.json for the routes offered here"


def install(app: FastAPI) -> None:
    """Make every way `app` can fail answer in the contract's shape."""
    app.add_exception_handler(PostroomError, _on_ours)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_fault)


def answer(error: PostroomError) -> JSONResponse:
    """The response that tells `error`."""
    if isinstance(error, TooLarge):
        error = Invalid(error.message, code=error.code, fix=error.fix)
    headers = {name.decode(): value.decode() for name, value in headers_of(error)}
    return JSONResponse(body_of(error), status_of(error)[0], headers)


def invalid_request(error: RequestValidationError) -> Invalid:
    """The framework's findings, one entry per wrong field. What was sent is not repeated."""
    rows = [
        {"path": list(row["loc"][1:]), "message": row["msg"].removeprefix("Value error, "), "code": row["type"]}
        for row in error.errors()
    ]
    where = ".".join(str(part) for part in rows[0]["path"])
    return Invalid(f"{where}: {rows[0]['message']}" if where else rows[0]["message"], errors=rows)


async def _on_ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PostroomError)  # noqa: S101  (what the handler is registered for)
    return answer(error)


async def _on_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101  (what the handler is registered for)
    return answer(invalid_request(error))


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  (what the handler is registered for)
    absent = missing(request.scope["path"])
    if error.status_code == 404 or (error.status_code == 405 and absent):
        return answer(NotFound(absent or "Route not found", fix=_ROUTES))
    if error.status_code == 405:
        response = answer(PostroomError("this route does not have this method", code="method_not_allowed", fix=_ROUTES))
        response.headers["Allow"] = ", ".join(_allowed(request))
        return response
    return answer(Invalid(str(error.detail)) if error.status_code < 500 else internal_error())


def _allowed(request: Request) -> list[str]:
    """Methods that some route has for this path; the framework names those of the first route only."""
    routes = request.app.router.routes
    return [method for method in _METHODS if any(_fits(route, {**request.scope, "method": method}) for route in routes)]


def _fits(route: BaseRoute, scope: Scope) -> bool:
    return route.matches(scope)[0] is Match.FULL


async def _on_fault(request: Request, error: Exception) -> JSONResponse:
    return answer(internal_error())
