"""The one error tree.

Every error a person or a client can meet is one of these. `code` is stable and scripted against;
`message` says what happened in words a person can act on; `fix` names the next step. No text that
came from outside (mail, remote servers, arguments) goes into a message unquoted: an error is read
by models too. Each interface maps `code` to its own status in one table; tests prove it total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class PostroomError(Exception):
    """Base of every error postroom raises on purpose.

    `code` is a stable snake_case word, `fix` a next step for the reader, `details` structured
    facts for machines (paths of invalid fields, refused addresses, …).
    """

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        fix: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.fix = fix
        self.details: Mapping[str, Any] = details or {}


class Invalid(PostroomError):
    """The caller's input is wrong; repeating it unchanged cannot work.

    `errors` is a list of `{path: [...], message, code}`, one per wrong field.
    """

    code = "validation_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        fix: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message, code=code, fix=fix, details={"errors": list(errors)})


class TooLarge(Invalid):
    """Input over a limit of `limits`; nothing of it was stored."""

    code = "too_large"


class Unauthorized(PostroomError):
    """No credential, or one that is unknown, revoked or malformed."""

    code = "unauthorized"


class Forbidden(PostroomError):
    """The credential is good but does not allow this verb."""

    code = "forbidden"


class NotFound(PostroomError):
    """It does not exist, or it lies outside what the caller may see (the answer is the same)."""

    code = "not_found"


class Conflict(PostroomError):
    """The present state contradicts the request (a key reused with other content, a name taken)."""

    code = "conflict"


class Refused(PostroomError):
    """The owner's policy does not let this leave. `details["addresses"]` names the recipients."""

    code = "message_rejected"


class Busy(PostroomError):
    """Not now: over a rate or concurrency cap. `retry_after_s` is in seconds."""

    code = "rate_limit_exceeded"

    def __init__(self, message: str, *, retry_after_s: float = 1.0, code: str | None = None, fix: str | None = None) -> None:
        super().__init__(message, code=code, fix=fix, details={"retry_after_s": retry_after_s})
        self.retry_after_s = retry_after_s


class StorageFailure(PostroomError):
    """The disk or the database cannot take a write; nothing was acknowledged."""

    code = "service_unavailable"


class InUse(PostroomError):
    """Another process owns the data folder, or an address is taken."""

    code = "in_use"


class TransportFailure(PostroomError):
    """A remote peer failed. `kind` is `temporary`, `permanent` or `uncertain` (it may have taken it)."""

    code = "transport_failure"

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        code: str | None = None,
        fix: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, fix=fix, details=details)
        self.kind = kind
