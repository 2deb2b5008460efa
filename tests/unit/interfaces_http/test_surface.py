"""What a request must pass, in process: token, method, open paths, body caps, faults of an application."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from postroom.access.token import read_token, unknown_key
from postroom.errors import NotFound, Refused
from postroom.interfaces.http.compose import build
from postroom.interfaces.http.hosts import Names
from postroom.interfaces.http.surface import Cut, Surface
from postroom.model.principal import Kind, Principal

TOKEN = f"am_key_{'0' * 32}_{'0' * 48}"
HOST = (b"host", b"127.0.0.1:4470")
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())


class OneKey:
    """Knows one token."""

    async def authenticate(self, text: str | None) -> Principal:
        read_token(text)
        if text != TOKEN:
            raise unknown_key()
        return Principal(kind=Kind.OWNER, key_id="key_1")


async def whoami(scope, receive, send):
    principal = scope["state"]["principal"]
    await answer(send, {"key": principal.key_id, "uid": principal.peer_uid, "root": scope["root_path"], "path": scope["path"]})


async def count(scope, receive, send):
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    await answer(send, {"size": size})


async def swallow(scope, receive, send):
    """An application that catches whatever reading the body raises, as frameworks do."""
    try:
        await count(scope, receive, send)
    except Exception:
        await answer(send, {"message": "could not read"}, 400)


async def broken(scope, receive, send):
    raise RuntimeError("secret " + scope["path"])


async def late(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise RuntimeError("too late")


async def missing(scope, receive, send):
    raise NotFound("no such thing", fix="look elsewhere")


async def refused(scope, receive, send):
    raise Refused("held", code="held_for_approval", details={"approval_id": "out_1"})


async def answer(send, body: Any, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


APPS = {
    "who": whoami,
    "count": count,
    "v0": count,
    "swallow": swallow,
    "broken": broken,
    "late": late,
    "missing": missing,
    "no": refused,
}


@pytest.fixture
def surface() -> Surface:
    origin = build(APPS, accepting=lambda: True)
    return Surface(origin, access=OneKey(), names=Names("127.0.0.1", 4470), body_caps={b"/v0": 20})


class Exchange:
    """One request through an application: `status`, `headers`, `body`."""

    def __init__(self, chunks: Sequence[bytes] = (b"",)) -> None:
        self._chunks = list(chunks)
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if not self._chunks:
            return {"type": "http.disconnect"}
        chunk = self._chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(self._chunks)}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> Any:
        return json.loads(b"".join(message.get("body", b"") for message in self.sent[1:]))


async def ask(
    surface: Surface,
    path: str,
    *headers: tuple[bytes, bytes],
    method: str = "GET",
    chunks: Sequence[bytes] = (b"",),
    state: Any = None,
) -> Exchange:
    exchange = Exchange(chunks)
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [HOST, *headers],
        "server": ("127.0.0.1", 4470),
        "state": state or {},
    }
    await surface(scope, exchange.receive, exchange.send)
    return exchange


async def test_a_good_token_gives_the_application_its_principal(surface: Surface):
    class Peer:
        def identify(self, principal: Principal) -> Principal:
            return dataclasses.replace(principal, peer_uid=1234)

    got = await ask(surface, "/who/am/i", BEARER, state={"peer": Peer()})
    assert (got.status, got.body) == (200, {"key": "key_1", "uid": 1234, "root": "/who", "path": "/who/am/i"})
    assert (await ask(surface, "/who", BEARER)).body["uid"] is None


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], "missing_authorization"),
        ([(b"authorization", b"Bearer ")], "missing_authorization"),
        ([(b"authorization", b"Basic b3duZXI6")], "invalid_token_type"),
        ([(b"authorization", TOKEN.encode())], "invalid_token_type"),
        ([(b"authorization", b"Bearer sk-1")], "invalid_token_type"),
        ([(b"authorization", b"Bearer am_\xff")], "unknown_api_key"),
        ([(b"authorization", f"Bearer {TOKEN[:-1]}1".encode())], "unknown_api_key"),
        ([BEARER, BEARER], "invalid_token_type"),
    ],
)
async def test_without_a_good_token_it_is_401_with_a_code(surface: Surface, headers, code: str):
    got = await ask(surface, "/who", *headers)
    assert (got.status, got.body["code"], got.headers[b"www-authenticate"]) == (401, code, b"Bearer")


async def test_a_token_in_the_query_is_for_web_sockets_only(surface: Surface):
    exchange = Exchange()
    scope = {"type": "http", "method": "GET", "path": "/who", "raw_path": b"/who", "headers": [HOST]}
    await surface({**scope, "query_string": f"api_key={TOKEN}".encode()}, exchange.receive, exchange.send)
    assert exchange.status == 401


@pytest.mark.parametrize("path", ["/", "/health"])
async def test_health_and_descriptor_are_open(surface: Surface, path: str):
    assert (await ask(surface, path)).status == 200


async def test_health_without_a_token_says_status_and_version_only(surface: Surface):
    assert set((await ask(surface, "/health")).body) == {"status", "version"}


@pytest.mark.parametrize(
    "path", ["/health/", "//", "/..", "/health/..", "/who/../health", "/%68ealth", "/dl", "/dl/a/b", "/dl/a%2fb", "/openapi.json"]
)
async def test_no_spelling_of_an_open_path_opens_another(surface: Surface, path: str):
    assert (await ask(surface, path)).status == 401


@pytest.mark.parametrize("path", ["//", "/..", "/nothing", "//who", "/health/", "/who%2f"])
async def test_unknown_paths_are_404_in_json(surface: Surface, path: str):
    got = await ask(surface, path, BEARER)
    assert (got.status, got.body["code"]) == (404, "not_found")


async def test_methods_nobody_uses_are_405(surface: Surface):
    assert [(await ask(surface, "/who", BEARER, method=method)).status for method in ("TRACE", "CONNECT", "PROPFIND")] == [
        405
    ] * 3
    assert (await ask(surface, "/health", method="POST")).status == 405


@pytest.mark.parametrize(("path", "cap"), [("/v0/x", 20), ("/v0", 20)])
async def test_a_body_at_the_cap_passes_and_one_byte_more_is_413(surface: Surface, path: str, cap: int):
    passed = await ask(surface, path, BEARER, chunks=[b"x" * (cap - 1), b"x"])
    assert (passed.status, passed.body) == (200, {"size": cap})
    over = await ask(surface, path, BEARER, chunks=[b"x" * cap, b"x", b"rest"])
    assert (over.status, over.body["code"], over.headers[b"connection"]) == (413, "too_large", b"close")


async def test_a_declared_length_over_the_cap_is_refused_unread(surface: Surface):
    over = await ask(surface, "/v0", BEARER, (b"content-length", b"21"), chunks=[])
    assert over.status == 413


async def test_the_cap_of_a_prefix_is_for_whole_segments(surface: Surface):
    assert (await ask(surface, "/count", BEARER, chunks=[b"x" * 21])).body == {"size": 21}


async def test_an_application_that_catches_the_refusal_does_not_change_the_answer():
    surface = Surface(
        build(APPS, accepting=lambda: True), access=OneKey(), names=Names("127.0.0.1", 4470), body_caps={b"/swallow": 3}
    )
    got = await ask(surface, "/swallow", BEARER, chunks=[b"four"])
    assert (got.status, got.body["code"]) == (413, "too_large")


async def test_errors_of_ours_are_told_with_their_details(surface: Surface):
    assert (await ask(surface, "/missing", BEARER)).body == {
        "name": "NotFoundError",
        "message": "no such thing",
        "code": "not_found",
        "fix": "look elsewhere",
    }
    got = await ask(surface, "/no", BEARER)
    assert (got.status, got.body["approval_id"]) == (403, "out_1")


async def test_a_fault_is_500_and_says_nothing_of_itself(surface: Surface, capsys: pytest.CaptureFixture[str]):
    got = await ask(surface, "/broken/secret-id", BEARER)
    assert (got.status, got.body["code"]) == (500, "internal_error")
    assert "secret" not in json.dumps(got.body)
    logged = capsys.readouterr().out
    assert "request_failed" in logged
    assert TOKEN not in logged


async def test_a_fault_after_the_answer_began_leaves_it_cut(surface: Surface):
    with pytest.raises(Cut):
        await ask(surface, "/late", BEARER)


async def test_a_store_that_takes_no_writes_shows_in_health():
    surface = Surface(build({}, accepting=lambda: False), access=OneKey(), names=Names("127.0.0.1", 4470))
    got = await ask(surface, "/health")
    assert (got.status, got.body["status"]) == (503, "degraded")
