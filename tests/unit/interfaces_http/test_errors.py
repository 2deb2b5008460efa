"""The table from errors to HTTP is total, and every body has the contract's shape."""

import inspect

import pytest

from postroom import errors
from postroom.interfaces.http.errors import BY_CLASS, BY_CODE, body_of, headers_of, internal_error, status_of

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.PostroomError)]
MORE = {errors.TransportFailure: {"kind": "temporary"}}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_has_its_own_row_and_a_whole_body(kind: type[errors.PostroomError]):
    assert kind in {row[0] for row in BY_CLASS}
    error = kind("what happened", fix="what to do", **MORE.get(kind, {}))
    status, name = status_of(error)
    body = body_of(error)
    assert 400 <= status <= 599
    assert (body["name"], body["message"], body["code"], body["fix"]) == (name, "what happened", kind.code, "what to do")
    assert ("errors" in body) == (status == 400)


def test_the_first_matching_row_is_the_most_special():
    for row, (kind, *_) in enumerate(BY_CLASS):
        assert not any(issubclass(kind, earlier) for earlier, *_ in BY_CLASS[:row])


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (errors.Invalid("m"), 400, "ValidationError"),
        (errors.Unauthorized("m", code="missing_authorization"), 401, "UnauthorizedError"),
        (errors.Refused("m", code="held_for_approval"), 403, "MessageRejectedError"),
        (errors.NotFound("m"), 404, "NotFoundError"),
        (errors.Conflict("m"), 409, "ConflictError"),
        (errors.Conflict("m", code="already_exists"), 403, "AlreadyExistsError"),
        (errors.TooLarge("m"), 413, "PayloadTooLargeError"),
        (errors.Busy("m"), 429, "RateLimitError"),
        (internal_error(), 500, "InternalServerError"),
        (errors.StorageFailure("m"), 503, "ServiceUnavailableError"),
    ],
)
def test_the_contracts_statuses_and_names(error: errors.PostroomError, status: int, name: str):
    assert status_of(error) == (status, name)


def test_details_stand_beside_the_contracts_keys_and_never_replace_them():
    error = errors.Refused("m", details={"addresses": ["a@example.org"], "message": "other", "code": "other", "name": "other"})
    assert body_of(error) == {
        "name": "MessageRejectedError",
        "message": "m",
        "code": "message_rejected",
        "addresses": ["a@example.org"],
    }


def test_busy_says_when_to_come_back_and_401_how_to_authenticate():
    assert headers_of(errors.Busy("m", retry_after_s=1.2)) == [(b"retry-after", b"2")]
    assert headers_of(errors.Unauthorized("m")) == [(b"www-authenticate", b"Bearer")]


def test_codes_with_a_status_of_their_own_are_words():
    assert all(code.isidentifier() and code.islower() for code in BY_CODE)
