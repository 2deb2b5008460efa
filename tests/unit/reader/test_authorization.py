"""The way to a grant: PKCE over a loopback listener that takes one redirect, and closes whichever way it ends."""

import asyncio
import base64
import hashlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from httppeer import Request, Response, peer
from pace import PATIENCE_S
from postroom.errors import PostroomError
from postroom.reader.oauth import SCOPES, new_pkce
from readerkit import AGENT, CLIENT_ID, CLIENT_SECRET, GMAIL, OUTLOOK, OWNER, Kit, kit


class Identity:
    """Exchanges one code; notes the forms it was sent."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.status = 200

    def handle(self, request: Request) -> Response:
        self.forms.append(request.form)
        if self.status != 200:
            return Response(self.status, {"error": "invalid_grant", "error_description": "secret words"})
        return Response(200, {"access_token": "access-token-1", "refresh_token": "refresh-1", "expires_in": 3600})


class Stage:
    """A reader, its identity provider, and a person's browser."""

    def __init__(self, made: Kit, identity: Identity, browser: httpx.AsyncClient) -> None:
        self.kit, self.reader, self.identity, self.browser = made, made.reader, identity, browser
        self.asked: dict[str, str] = {}

    async def begin(self, account=GMAIL) -> None:
        prompt = await self.reader.authorize(OWNER, account.id, device=False)
        assert prompt is not None
        self.asked = {name: values[0] for name, values in parse_qs(urlsplit(prompt.url).query).items()}

    @property
    def port(self) -> int:
        return int(urlsplit(self.asked["redirect_uri"]).port or 0)

    async def visit(self, path: str = "/", method: str = "GET", headers: dict[str, str] | None = None, **query: str) -> int:
        target = f"http://127.0.0.1:{self.port}{path}" + (f"?{urlencode(query)}" if query else "")
        return (await self.browser.request(method, target, headers=headers)).status_code

    async def end(self, account=GMAIL) -> str:
        try:
            return await self.reader.authorization(OWNER, account.id, 5)
        except PostroomError as problem:
            return problem.code

    def is_closed(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) != 0


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    identity = Identity()
    async with peer(identity.handle) as running, httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
        made = kit(tmp_path, running.url, GMAIL, OUTLOOK)
        yield Stage(made, identity, browser)
        await made.reader.close()


def test_c19_a_verifier_is_long_fresh_and_hashed():
    first, second = new_pkce(), new_pkce()
    assert first.verifier != second.verifier
    assert 43 <= len(first.verifier) <= 128
    wanted = base64.urlsafe_b64encode(hashlib.sha256(first.verifier.encode()).digest()).decode().rstrip("=")
    assert first.challenge == wanted


async def test_c18_c19_one_redirect_with_our_state_is_exchanged_with_the_same_redirect_uri(stage: Stage):
    await stage.begin()
    assert await stage.visit("/favicon.ico") == 404
    assert await stage.visit("/", code="x", state="y", headers={"Host": "evil.example"}) == 404
    assert await stage.visit("/", method="POST", code="x", state="y") == 404
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
    writer.write(b"GET http://[bad/ HTTP/1.1\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    assert await stage.visit("/", code="the-code", state=stage.asked["state"]) == 200
    assert await stage.end() == "authorized"
    (form,) = stage.identity.forms
    challenge = base64.urlsafe_b64encode(hashlib.sha256(form.pop("code_verifier").encode()).digest()).decode().rstrip("=")
    assert challenge == stage.asked["code_challenge"]
    assert form == {
        "grant_type": "authorization_code",
        "code": "the-code",
        "redirect_uri": stage.asked["redirect_uri"],
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
    }
    assert stage.is_closed()
    assert stage.reader.accounts(OWNER)[0].state == "ready"


async def test_c19_a_public_client_sends_no_secret_and_microsoft_is_redirected_to_localhost(stage: Stage):
    await stage.begin(OUTLOOK)
    assert urlsplit(stage.asked["redirect_uri"]).hostname == "localhost"
    await stage.visit("/", code="the-code", state=stage.asked["state"])
    assert await stage.end(OUTLOOK) == "authorized"
    assert "client_secret" not in stage.identity.forms[0]


async def test_c20_the_scopes_are_reading_only(stage: Stage):
    assert SCOPES == {
        "gmail": "https://www.googleapis.com/auth/gmail.readonly",
        "outlook": "https://graph.microsoft.com/Mail.Read offline_access",
    }
    await stage.begin()
    assert (stage.asked["scope"], stage.asked["access_type"], stage.asked["prompt"]) == (SCOPES["gmail"], "offline", "consent")
    await stage.begin(OUTLOOK)
    assert stage.asked["scope"] == SCOPES["outlook"]


@pytest.mark.parametrize("given", [{"code": "c", "state": "wrong"}, {"code": "c"}, {"error": "access_denied"}])
async def test_c19_a_wrong_state_or_a_refusal_ends_it_with_the_listener_closed(stage: Stage, given: dict[str, str]):
    await stage.begin()
    if "error" in given:
        given = {**given, "state": stage.asked["state"]}
    await stage.visit("/", **given)
    assert await stage.end() == "MAIL_OAUTH_FAILED"
    assert stage.identity.forms == []
    assert stage.is_closed()


async def test_c19_a_second_redirect_finds_nobody(stage: Stage):
    await stage.begin()
    await stage.visit("/", code="the-code", state=stage.asked["state"])
    await stage.end()
    with pytest.raises(httpx.ConnectError):
        await stage.visit("/", code="another", state=stage.asked["state"])
    assert len(stage.identity.forms) == 1


async def test_a_connection_a_browser_opened_ahead_holds_nothing_up(stage: Stage):
    await stage.begin()
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
    await stage.visit("/", code="the-code", state=stage.asked["state"])
    assert await asyncio.wait_for(stage.end(), PATIENCE_S) == "authorized"
    assert await reader.read() == b""
    writer.close()


async def test_c21_nobody_answers_in_time(tmp_path: Path):
    made = kit(tmp_path, "http://127.0.0.1:9", GMAIL, authorization_timeout_s=0.05)
    prompt = await made.reader.authorize(OWNER, GMAIL.id, device=False)
    with pytest.raises(PostroomError) as caught:
        await made.reader.authorization(OWNER, GMAIL.id, PATIENCE_S)
    assert caught.value.code == "MAIL_OAUTH_TIMEOUT"
    port = urlsplit(parse_qs(urlsplit(prompt.url).query)["redirect_uri"][0]).port
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    await made.reader.close()


async def test_c21_the_owner_stops_it(stage: Stage):
    await stage.begin()
    await stage.reader.stop(OWNER, GMAIL.id)
    assert await stage.end() == "MAIL_ABORTED"
    assert stage.is_closed()


async def test_c21_a_code_the_provider_does_not_take(stage: Stage):
    stage.identity.status = 400
    await stage.begin()
    await stage.visit("/", code="the-code", state=stage.asked["state"])
    with pytest.raises(PostroomError) as caught:
        await stage.reader.authorization(OWNER, GMAIL.id, PATIENCE_S)
    assert caught.value.code == "MAIL_OAUTH_FAILED"
    assert "secret words" not in f"{caught.value.message} {caught.value.fix}"


async def test_starting_again_ends_the_one_before(stage: Stage):
    await stage.begin()
    first = stage.port
    await stage.begin()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", first)) != 0
    assert stage.reader.accounts(OWNER)[0].state == "authorizing"


async def test_only_the_owner_authorizes_and_google_gives_devices_no_mail(stage: Stage):
    with pytest.raises(PostroomError) as caught:
        await stage.reader.authorize(AGENT, GMAIL.id, device=False)
    assert caught.value.code == "forbidden"
    with pytest.raises(PostroomError) as caught:
        await stage.reader.authorize(OWNER, GMAIL.id, device=True)
    assert caught.value.code == "MAIL_ARGUMENT_INVALID"


async def test_the_page_a_person_sees_repeats_nothing_of_the_request(stage: Stage):
    await stage.begin()
    answer = await stage.browser.get(f"http://127.0.0.1:{stage.port}/?code=<script>&state=x")
    assert "script" not in answer.text
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    await asyncio.sleep(0)
