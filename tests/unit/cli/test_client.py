"""Finding the daemon, and telling its errors as they were."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom import errors
from postroom.client import Client, connect

from .canned import Canned, owning, serving


@pytest.fixture
def daemon() -> Iterator[Canned]:
    with serving() as canned:
        canned.answers["GET", "/api/health"] = (200, {"status": "ok"})
        yield canned


def test_the_environment_names_the_daemon_and_the_token(daemon: Canned, tmp_path: Path):
    client = connect(tmp_path, {"POSTROOM_URL": daemon.url + "/", "POSTROOM_TOKEN": "am_agent"})
    assert client.get("/api/health") == {"status": "ok"}
    assert daemon.asked == [("GET", "/api/health", None, "am_agent")]


def test_else_the_data_folder_does_with_the_owners_key(daemon: Canned, tmp_path: Path):
    with owning(tmp_path, daemon.url):
        connect(tmp_path, {}).get("/api/health")
        connect(None, {"POSTROOM_DATA": str(tmp_path)}).get("/api/health")
        connect(tmp_path, {"POSTROOM_TOKEN": "am_agent"}).get("/api/health")
    assert [token for *_, token in daemon.asked] == ["am_owner", "am_owner", "am_agent"]


def test_whoever_took_a_dead_daemons_port_is_not_given_the_key(daemon: Canned, tmp_path: Path):
    with owning(tmp_path, daemon.url):
        pass
    with pytest.raises(errors.TransportFailure, match="not running"):
        connect(tmp_path, {})
    assert daemon.asked == []


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"http": 1}'])
def test_no_daemon_is_said_with_the_command_that_starts_one(tmp_path: Path, content: str | None):
    if content is not None:
        (tmp_path / "endpoint.json").write_text(content)
    with pytest.raises(errors.TransportFailure) as failed:
        connect(tmp_path, {})
    assert (failed.value.kind, failed.value.fix) == ("temporary", "start it with: postroom serve")


def test_a_url_alone_is_not_given_the_owners_key(daemon: Canned, tmp_path: Path):
    with owning(tmp_path, daemon.url), pytest.raises(errors.Unauthorized, match="POSTROOM_TOKEN"):
        connect(tmp_path, {"POSTROOM_URL": daemon.url})


def test_a_token_read_from_a_file_may_end_its_line(daemon: Canned):
    daemon.answers["GET", "/x"] = (200, {})
    Client(daemon.url, " am_key_1_2\n").get("/x")
    assert daemon.asked[-1][3] == "am_key_1_2"


@pytest.mark.parametrize("token", ["am_1\nX-Odd: 1", "\u65e5", "a b"])
def test_a_token_that_cannot_be_one_is_never_sent(daemon: Canned, token: str):
    with pytest.raises(errors.Invalid, match="characters that no token has"):
        Client(daemon.url, token)


@pytest.mark.parametrize(
    "url",
    ["localhost:4470", "ftp://x", "http://", "x", "http://h:99999", "http://h:x", "http://[::1", "http://a b", "http://\u00e9"],
)
def test_what_is_no_address_is_said(url: str):
    with pytest.raises(errors.Invalid, match="not a URL"):
        Client(url, "am_1")


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (400, "ValidationError", errors.Invalid),
        (401, "UnauthorizedError", errors.Unauthorized),
        (403, "ForbiddenError", errors.Forbidden),
        (403, "MessageRejectedError", errors.Refused),
        (404, "NotFoundError", errors.NotFound),
        (409, "ConflictError", errors.Conflict),
        (413, "PayloadTooLargeError", errors.TooLarge),
        (422, "UnprocessableError", errors.Invalid),
        (429, "RateLimitError", errors.Busy),
        (500, "InternalServerError", errors.PostroomError),
        (502, "BadGatewayError", errors.TransportFailure),
        (503, "ServiceUnavailableError", errors.StorageFailure),
    ],
)
def test_an_error_comes_back_as_what_it_was(daemon: Canned, status: int, name: str, kind: type[errors.PostroomError]):
    body = {"name": name, "message": "what happened", "code": "a_code", "fix": "do this", "errors": [], "approval_id": "out_1"}
    daemon.answers["POST", "/api/x"] = (status, body)
    with pytest.raises(errors.PostroomError) as failed:
        Client(daemon.url, "am_1").post("/api/x", {"a": 1})
    assert (type(failed.value), failed.value.message, failed.value.fix) == (kind, "what happened", "do this")
    if kind in (errors.Refused, errors.Conflict):
        assert (failed.value.code, failed.value.details["approval_id"]) == ("a_code", "out_1")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null"])
def test_an_answer_in_no_shape_we_know_is_still_an_error(daemon: Canned, body: bytes):
    daemon.answers["GET", "/api/x"] = (500, body)
    with pytest.raises(errors.PostroomError, match="the service answered 500"):
        Client(daemon.url, "am_1").get("/api/x")


def test_query_parameters_without_a_value_are_left_out(daemon: Canned):
    daemon.answers["GET", "/api/outgoing?limit=5&state=a+b"] = (200, {})
    assert Client(daemon.url, "am_1").get("/api/outgoing", limit=5, page_token=None, state="a b") == {}


def test_a_service_that_is_not_there_and_one_that_hangs_up_can_be_tried_again(tmp_path: Path):
    with serving() as gone:
        url = gone.url
    with pytest.raises(errors.TransportFailure, match="not running"):
        Client(url, "am_1").get("/")
