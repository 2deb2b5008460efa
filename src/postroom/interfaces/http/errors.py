"""The one table from errors to HTTP, and the body every failure has: `{name, message, code, fix?, …}`.

Names are those of the AgentMail API. A test proves the table total over `postroom.errors`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.types import Send

from postroom import errors

Header = tuple[bytes, bytes]

# Most special first: the first class that matches decides.
BY_CLASS: Final[tuple[tuple[type[errors.PostroomError], int, str], ...]] = (
    (errors.TooLarge, 413, "PayloadTooLargeError"),
    (errors.Invalid, 400, "ValidationError"),
    (errors.Unauthorized, 401, "UnauthorizedError"),
    (errors.Forbidden, 403, "ForbiddenError"),
    (errors.Refused, 403, "MessageRejectedError"),
    (errors.NotFound, 404, "NotFoundError"),
    (errors.Conflict, 409, "ConflictError"),
    (errors.Busy, 429, "RateLimitError"),
    (errors.StorageFailure, 503, "ServiceUnavailableError"),
    (errors.InUse, 503, "ServiceUnavailableError"),
    (errors.TransportFailure, 502, "BadGatewayError"),
    (errors.PostroomError, 500, "InternalServerError"),
)
# Codes answered differently from their class. A 409 is retried by one official client, so a name
# that is taken is not one.
BY_CODE: Final = {
    "already_exists": (403, "AlreadyExistsError"),
    "resource_taken": (403, "IsTakenError"),
    "limit_exceeded": (403, "LimitExceededError"),
    "unprocessable": (422, "UnprocessableError"),
    "request_timeout": (408, "RequestTimeoutError"),
    "method_not_allowed": (405, "MethodNotAllowedError"),
    "header_too_large": (431, "HeaderTooLargeError"),
}

_OWN_KEYS = frozenset({"name", "message", "code", "fix"})


def internal_error() -> errors.PostroomError:
    """What a caller is told of a fault of ours; the log has the rest."""
    return errors.PostroomError("something went wrong on our side; the log says what", code="internal_error")


def status_of(error: errors.PostroomError) -> tuple[int, str]:
    """HTTP status and the contract's name of `error`."""
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    return next((status, name) for kind, status, name in BY_CLASS if isinstance(error, kind))


def body_of(error: errors.PostroomError) -> dict[str, Any]:
    """The body that tells `error`. Details stand beside the contract's own keys."""
    status, name = status_of(error)
    body: dict[str, Any] = {"name": name, "message": error.message, "code": error.code}
    if error.fix:
        body["fix"] = error.fix
    body.update((key, value) for key, value in error.details.items() if key not in _OWN_KEYS and value not in ((), []))
    if status == 400:
        body.setdefault("errors", [{"path": [], "message": error.message, "code": error.code}])
    return body


def headers_of(error: errors.PostroomError) -> list[Header]:
    """Headers that belong to the answer beside its body's."""
    if isinstance(error, errors.Busy):
        return [(b"retry-after", str(max(1, math.ceil(error.retry_after_s))).encode())]
    if isinstance(error, errors.Unauthorized):
        return [(b"www-authenticate", b"Bearer")]
    return []


async def send_json(send: Send, status: int, body: Any, headers: Sequence[Header] = (), *, more: bool = False) -> None:
    """Answer with JSON. `more` keeps the exchange open after a complete body (to read off what still comes)."""
    content = msgspec.json.encode(body)
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": content, "more_body": more})


async def send_error(send: Send, error: errors.PostroomError, *, close: bool = False) -> None:
    """Answer with `error`; `close` ends the connection after it."""
    headers = headers_of(error)
    if close:
        headers.append((b"connection", b"close"))
    await send_json(send, status_of(error)[0], body_of(error), headers)
