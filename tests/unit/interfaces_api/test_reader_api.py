"""`/api/reader` over a real house: an authorization from start to end, and what each failure is to HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from houses import Living, living
from httppeer import Peer, Request, Response, peer
from pace import PATIENCE_S
from postroom.config import Config, Reader
from readerkit import GMAIL, local


class Google:
    """One code, one token, one message; `status` other than 200 refuses the code."""

    status = 200

    def handle(self, request: Request) -> Response:
        if request.path == "/oauth2/token":
            if self.status != 200:
                return Response(self.status, {"error": "invalid_grant"})
            return Response(200, {"access_token": "access-token-1", "refresh_token": "refresh-1", "expires_in": 3600})
        return Response(200, {"messages": []})


@pytest.fixture
async def google() -> AsyncIterator[tuple[Google, Peer]]:
    answers = Google()
    async with peer(answers.handle) as running:
        yield answers, running


@pytest.fixture
async def house(google: tuple[Google, Peer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Living]:
    monkeypatch.setenv("ID", "client-id-of-the-test")
    monkeypatch.setenv("SECRET", "client-secret-of-the-test")
    async with living(tmp_path / "house", Config(reader=Reader(accounts=(GMAIL,)))) as opened:
        opened.house.reader._endpoints = local(google[1].url)
        yield opened


ACCOUNT = "/api/reader/accounts/personal-gmail"


async def redirect(url: str) -> None:
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
        await browser.get(f"{asked['redirect_uri']}/", params={"code": "the-code", "state": asked["state"]})


async def test_an_account_is_authorized_checked_read_and_revoked(house: Living):
    assert (await house.http.get("/api/reader/mail")).status_code == 409
    begun = await house.http.post(f"{ACCOUNT}/authorization", json={})
    assert (begun.status_code, begun.json()["state"], begun.json()["user_code"]) == (201, "pending", "")
    assert (await house.http.get("/api/reader/accounts")).json()["accounts"][0]["state"] == "authorizing"
    await redirect(begun.json()["url"])
    assert (await house.http.get(f"{ACCOUNT}/authorization?wait_s=5")).json()["state"] == "authorized"
    assert (await house.http.post(f"{ACCOUNT}/check")).json()["state"] == "ready"
    assert (await house.http.get("/api/reader/mail?unreadOnly=true&limit=3")).json() == {
        "account": "personal-gmail",
        "trust": "untrusted_external_content",
        "limit": 3,
        "truncated": False,
        "messages": [],
    }
    assert (await house.http.request("DELETE", f"{ACCOUNT}/grant")).json()["revoked"] is True
    assert (await house.http.post(f"{ACCOUNT}/check")).json()["code"] == "MAIL_AUTHORIZATION_REQUIRED"


async def test_a_refused_code_and_a_stop_are_told(house: Living, google: tuple[Google, Peer]):
    google[0].status = 400
    begun = await house.http.post(f"{ACCOUNT}/authorization", json={})
    await redirect(begun.json()["url"])
    failed = await house.http.get(f"{ACCOUNT}/authorization?wait_s=5")
    assert (failed.status_code, failed.json()["code"]) == (502, "MAIL_OAUTH_FAILED")
    await house.http.post(f"{ACCOUNT}/authorization", json={})
    await house.http.request("DELETE", f"{ACCOUNT}/authorization")
    stopped = await house.http.get(f"{ACCOUNT}/authorization")
    assert (stopped.status_code, stopped.json()["code"]) == (409, "MAIL_ABORTED")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("unreadOnly=perhaps", 400, "validation_error"),
        ("limit=-1", 400, "validation_error"),
        ("after=soon", 400, "MAIL_ARGUMENT_INVALID"),
        ("account=nobody", 404, "MAIL_ACCOUNT_UNKNOWN"),
        ("url=https://evil.example", 400, "validation_error"),
    ],
)
async def test_a_wrong_query_is_told(house: Living, query: str, status: int, code: str):
    answer = await house.http.get(f"/api/reader/mail?{query}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_device_code_for_gmail_and_an_unknown_field_are_refused(house: Living):
    answer = await house.http.post(f"{ACCOUNT}/authorization", json={"device": True})
    assert (answer.status_code, answer.json()["code"]) == (400, "MAIL_ARGUMENT_INVALID")
    assert (await house.http.post(f"{ACCOUNT}/authorization", json={"tokenEndpoint": "x"})).status_code == 400
