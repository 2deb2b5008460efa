"""Errors as the contract spells them: `{name, message, code, fix, errors}` and a status.

One table from `postroom.errors` to the wire; a test proves it total. The framework's own errors
(validation, unknown route, wrong method) leave in the same shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from postroom import errors
from postroom.interfaces.rest.absent import missing

# Most special first: the first class that matches decides.
BY_CLASS: Final[tuple[tuple[type[errors.PostroomError], int, str], ...]] = (
    (errors.Invalid, 400, "ValidationError"),
    (errors.Unauthorized, 401, "UnauthorizedError"),
    (errors.Forbidden, 403, "ForbiddenError"),
    (errors.Refused, 403, "MessageRejectedError"),
    (errors.NotFound, 404, "NotFoundError"),
    (errors.Conflict, 409, "ConflictError"),
    (errors.Busy, 429, "RateLimitError"),
    (errors.StorageFailure, 503, "ServiceUnavailableError"),
    (errors.InUse, 503, "ServiceUnavailableError"),
    (errors.TransportFailure, 503, "ServiceUnavailableError"),
    (errors.PostroomError, 500, "InternalServerError"),
)
# Codes the contract answers differently from their class. A 409 is retried by one official client,
# so a name already taken is not one.
BY_CODE: Final = {
    "already_exists": (403, "AlreadyExistsError"),
    "resource_taken": (403, "IsTakenError"),
    "limit_exceeded": (403, "LimitExceededError"),
    "unprocessable": (422, "UnprocessableError"),
}


def status_of(error: errors.PostroomError) -> tuple[int, str]:
    """HTTP status and the contract's name for `error`."""
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    return next((status, name) for kind, status, name in BY_CLASS if isinstance(error, kind))


def answer(error: errors.PostroomError) -> JSONResponse:
    """The response that tells `error`."""
    status, name = status_of(error)
    body: dict[str, Any] = {"name": name, "message": error.message, "code": error.code}
    if error.fix:
        body["fix"] = error.fix
    body.update((key, value) for key, value in error.details.items() if value or key not in ("errors", "addresses"))
    if status == 400 and "errors" not in body:
        body["errors"] = [{"path": [], "message": error.message, "code": error.code}]
    return JSONResponse(body, status, headers=_headers(error))


def install(app: FastAPI) -> None:
    """Make every way `app` can fail answer in the contract's shape."""
    app.add_exception_handler(errors.PostroomError, _on_ours)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_anything)


def _headers(error: errors.PostroomError) -> Mapping[str, str] | None:
    if isinstance(error, errors.Busy):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
    if isinstance(error, errors.Unauthorized):
        return {"WWW-Authenticate": "Bearer"}
    return None


async def _on_ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.PostroomError)  # noqa: S101  (what the handler is registered for)
    return answer(error)


async def _on_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101  (what the handler is registered for)
    rows = [
        {"path": list(row["loc"][1:]), "message": row["msg"].removeprefix("Value error, "), "code": row["type"]}
        for row in error.errors()
    ]
    first = rows[0]
    where = ".".join(str(part) for part in first["path"])
    return answer(errors.Invalid(f"{where}: {first['message']}" if where else str(first["message"]), errors=rows))


async def _on_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  (what the handler is registered for)
    if error.status_code in (404, 405):
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        absent = missing(path)
        if absent or error.status_code == 404:
            return answer(errors.NotFound(absent or "Route not found", fix="see /openapi.json for the routes offered here"))
    body = {"name": "HTTPError", "message": str(error.detail), "code": "method_not_allowed"}
    if error.status_code != 405:
        body["code"] = "validation_error" if error.status_code < 500 else "internal_error"
    if error.status_code == 400:
        return answer(errors.Invalid(str(error.detail)))
    return JSONResponse(body, error.status_code, headers=error.headers)


async def _on_anything(request: Request, error: Exception) -> JSONResponse:
    return answer(errors.PostroomError("something went wrong on our side; the log says what", code="internal_error"))
