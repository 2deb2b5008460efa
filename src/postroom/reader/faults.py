"""What can go wrong, as `MAIL_…` codes. A message holds the provider, the operation and the HTTP status:
never a token, a body, a query, an id or any text of the provider's.
"""

from __future__ import annotations

from postroom.errors import Busy, Conflict, Forbidden, Invalid, NotFound, PostroomError, TransportFailure
from postroom.wires.imap import ImapFailure
from postroom.wires.pinned import HttpFailure

_SERVER_ERROR = 500


def argument(name: str, message: str, fix: str | None = None) -> Invalid:
    """An argument is wrong."""
    errors = [{"path": [name], "message": message, "code": "invalid_argument"}]
    return Invalid(message, code="MAIL_ARGUMENT_INVALID", fix=fix, errors=errors)


def account_unknown() -> NotFound:
    """No such account, or not for this caller: the answer is the same."""
    fix = "the owner names accounts in [reader] of the config, and allows them: postroom agent allow NAME --account ID"
    return NotFound("there is no such mail account for you", code="MAIL_ACCOUNT_UNKNOWN", fix=fix)


def account_required(ids: list[str]) -> Invalid:
    """Several accounts, none named."""
    return Invalid(f"say which account: {', '.join(ids)}", code="MAIL_ACCOUNT_REQUIRED")


def authorization_required(account: str) -> Conflict:
    """The person has not let postroom in yet."""
    fix = f"the owner runs: postroom reader add {account}"
    return Conflict(f"the account {account} is not authorized yet", code="MAIL_AUTHORIZATION_REQUIRED", fix=fix)


def credential_missing(account: str, key: str) -> Conflict:
    """A reference of the config leads nowhere."""
    fix = f"the owner sets what {key} refers to in [reader] of the config"
    return Conflict(f"the {key} of account {account} cannot be resolved", code="MAIL_CREDENTIAL_MISSING", fix=fix)


def extra_missing(extra: str) -> Conflict:
    """An account needs a library that is not installed."""
    return Conflict(f"this account needs the extra {extra}", code="MAIL_CONFIG_INVALID", fix=f"pip install 'postroom[{extra}]'")


def oauth_failed(provider: str, operation: str, status: int | None = None, *, account: str) -> TransportFailure:
    """The grant or the client was not accepted."""
    seen = f" (HTTP {status})" if status else ""
    fix = f"if it stays so, the owner authorizes again: postroom reader add {account}"
    return _lasting(f"{provider} did not accept the {operation}{seen}", "MAIL_OAUTH_FAILED", fix)


def oauth_timeout(provider: str) -> TransportFailure:
    """Nobody finished the authorization in time."""
    return _lasting(f"{provider} authorization was not finished in time", "MAIL_OAUTH_TIMEOUT", "start it again")


def aborted(provider: str) -> Conflict:
    """The owner stopped it."""
    return Conflict(f"{provider} authorization was stopped", code="MAIL_ABORTED")


def login_failed(provider: str, operation: str) -> TransportFailure:
    """The mail server does not take the password."""
    fix = "the owner checks user and password in [reader] of the config"
    return _lasting(f"{provider} {operation} was refused", "MAIL_LOGIN_FAILED", fix)


def message_too_large(provider: str) -> Invalid:
    """One message over the bound."""
    fix = "read another message; the owner may raise reader.max_provider_response_bytes"
    return Invalid(f"this message is too large to be read from {provider}", code="MAIL_MESSAGE_TOO_LARGE", fix=fix)


def response_too_large(provider: str, operation: str) -> TransportFailure:
    """An answer over the bound; it was dropped before it was parsed."""
    fix = "ask for fewer messages; the owner may raise reader.max_provider_response_bytes"
    return _lasting(f"the answer to {provider} {operation} is too large", "MAIL_RESPONSE_TOO_LARGE", fix)


def response_invalid(provider: str, operation: str) -> TransportFailure:
    """Not what the provider documents."""
    return _lasting(f"the answer to {provider} {operation} cannot be understood", "MAIL_RESPONSE_INVALID")


def endpoint_forbidden(provider: str, operation: str) -> Forbidden:
    """A destination that is not on the list; nothing was sent."""
    return Forbidden(f"{provider} {operation} would have left the listed hosts", code="MAIL_ENDPOINT_FORBIDDEN")


def rate_limited(provider: str, operation: str, retry_after_s: float) -> PostroomError:
    """The provider asks to wait."""
    seconds = max(1, round(retry_after_s))
    return Busy(
        f"{provider} {operation}: too many requests", retry_after_s=seconds, code="MAIL_RATE_LIMITED", fix=f"wait {seconds} s"
    )


def not_found(provider: str, operation: str) -> NotFound:
    """The provider has no such message or folder."""
    return NotFound(f"{provider} {operation}: not found", code="MAIL_NOT_FOUND", fix="list messages and use an id from there")


def http_failed(provider: str, operation: str, status: int) -> TransportFailure:
    """Any other status."""
    kind = "temporary" if status >= _SERVER_ERROR else "permanent"
    details = {"status": status, "kind": kind}
    return TransportFailure(
        f"{provider} {operation} failed with HTTP {status}", kind=kind, code="MAIL_HTTP_FAILED", details=details
    )


def connection_failed(provider: str, operation: str) -> TransportFailure:
    """No connection, or it broke."""
    return TransportFailure(f"no connection for {provider} {operation}", kind="temporary", code="MAIL_CONNECTION_FAILED")


def timed_out(provider: str, operation: str) -> TransportFailure:
    """The deadline of one request passed."""
    return TransportFailure(f"{provider} {operation} took too long", kind="temporary", code="MAIL_TIMEOUT")


def of_http(failure: HttpFailure, provider: str, operation: str) -> PostroomError:
    """The error for an exchange that came to no answer."""
    if failure.reason == "too_large":
        return response_too_large(provider, operation)
    if failure.reason in ("forbidden", "redirect"):
        return endpoint_forbidden(provider, operation)
    if failure.reason == "encoding":
        return response_invalid(provider, operation)
    return timed_out(provider, operation) if failure.reason == "timeout" else connection_failed(provider, operation)


def of_imap(failure: ImapFailure, operation: str) -> PostroomError:
    """The same for IMAP."""
    match failure.reason:
        case "login":
            return login_failed("imap", "login")
        case "too_large":
            return response_too_large("imap", operation)
        case "timeout":
            return timed_out("imap", operation)
        case "connection":
            return connection_failed("imap", operation)
        case "not_installed":
            return extra_missing("imap")
        case "invalid":
            return response_invalid("imap", operation)


def _lasting(message: str, code: str, fix: str | None = None) -> TransportFailure:
    return TransportFailure(message, kind="permanent", code=code, fix=fix, details={"kind": "permanent"})
