"""The official SDK's asynchronous client against a house in the same process, with the app's real surface."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agentmail import AgentMailEnvironment, AsyncAgentMail
from agentmail.core.api_error import ApiError
from agentmail.messages.errors import MessageRejectedError

from engines import ENGINES, url_of
from houses import Living, living
from pace import PATIENCE_S
from postroom.config import Config, Storage


@pytest.fixture(params=ENGINES)
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Living]:
    with url_of(request.param) as url:
        async with living(tmp_path / "house", Config(store=Storage(url=url))) as opened:
            yield opened


def sdk(house: Living, token: str) -> AsyncAgentMail:
    environment = AgentMailEnvironment(http=house.listener.origin, websockets=house.listener.origin)
    return AsyncAgentMail(environment=environment, api_key=token, httpx_client=house.client(token))


async def test_an_agent_writes_the_owner_approves_and_the_mail_arrives(house: Living) -> None:
    await house.inbox("nora")
    agent = sdk(house, await house.agent("scout"))
    owner = sdk(house, house.owner_key)
    with pytest.raises(MessageRejectedError) as caught:
        await agent.inboxes.messages.send("scout@postroom.localhost", to="nora@postroom.localhost", subject="hi", text="x")
    held = caught.value.body
    assert held.code == "held_for_approval"
    approved = await house.http.post(f"/api/outgoing/{held.approval_id}/approve", json={"digest": held.digest})
    assert approved.status_code == 200
    async with asyncio.timeout(PATIENCE_S):
        while not (page := await owner.inboxes.messages.list("nora@postroom.localhost")).messages:
            await house.house.store.events.wait(house.house.store.events.last_seq(), timeout_s=0.05)
    assert (page.messages[0].subject, page.messages[0].preview.strip()) == ("hi", "x")


async def test_a_409_may_be_asked_three_times(house: Living) -> None:
    """The Python client retries conflicts: the handler is safe to call again, and no mail leaves by it."""
    owner = sdk(house, house.owner_key)
    await house.inbox("nora")
    send = owner.inboxes.messages.send
    await send("nora@postroom.localhost", to="nora@postroom.localhost", text="one", idempotency_key="k")
    for _ in range(3):
        with pytest.raises(ApiError) as caught:
            await send(
                "nora@postroom.localhost",
                to="nora@postroom.localhost",
                text="two",
                idempotency_key="k",
                request_options={"max_retries": 0},
            )
        assert caught.value.status_code == 409
    rows = await owner.inboxes.messages.list("nora@postroom.localhost", labels=["sent"])
    assert [row.preview.strip() for row in rows.messages] == ["one"]


async def test_nulls_as_an_adapter_of_the_toolkit_sends_them(house: Living) -> None:
    await house.inbox("nora")
    body = {
        "to": ["nora@postroom.localhost"],
        "cc": None,
        "bcc": None,
        "subject": "nulls",
        "text": "x",
        "html": None,
        "labels": None,
        "attachments": [{"filename": "x.txt", "content_type": None, "content_id": None, "content": "eA==", "url": None}],
    }
    answer = await house.http.post("/v0/inboxes/nora@postroom.localhost/messages/send", json=body)
    assert answer.status_code == 200, answer.text
    message = await sdk(house, house.owner_key).inboxes.messages.get("nora@postroom.localhost", answer.json()["message_id"])
    assert [(row.filename, row.size) for row in message.attachments] == [("x.txt", 1)]
