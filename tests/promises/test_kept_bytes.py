"""What waits for a person loses no byte, whatever else that has the same bytes is deleted meanwhile."""

import asyncio
import base64
from pathlib import Path
from urllib.parse import quote

import pytest

from engines import ENGINES, url_of
from houses import Living, living
from pace import PATIENCE_S
from postroom.config import Config, Storage
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.principal import SYSTEM
from postroom.office.intake import Envelope

SCOUT, OTHER = "scout@postroom.localhost", "other@postroom.localhost"
HERE = f"/v0/inboxes/{SCOUT}"
RAW = (
    b"From: Ada <ada@customer.example>\r\nTo: scout@postroom.localhost\r\nMessage-ID: <m1@customer.example>\r\n\r\n"
    + b"text\r\n" * 20000
)


async def arrive(home: Living) -> str:
    await home.house.office.intake.accept(Envelope(mail_from="ada@customer.example", rcpt_to=(SCOUT,)), RAW)
    async with asyncio.timeout(PATIENCE_S):
        while not (found := (await home.http.get(f"{HERE}/messages")).json()["messages"]):
            await home.house.store.events.wait(home.house.store.events.last_seq(), timeout_s=1)
    message_id: str = found[0]["message_id"]
    return message_id


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_held_mail_keeps_the_bytes_it_shares_with_what_is_deleted(tmp_path: Path, engine: str) -> None:
    with url_of(engine) as url:
        async with living(tmp_path / "house", Config(store=Storage(url=url))) as home:
            agent = home.client(await home.agent("scout"))
            await home.agent("other")
            message_id = await arrive(home)
            file = {"filename": "mail.eml", "content": base64.b64encode(RAW).decode()}
            draft = (await agent.post(f"{HERE}/drafts", json={"to": [OTHER], "text": "see", "attachments": [file]})).json()
            held = (await agent.post(f"{HERE}/drafts/{draft['draft_id']}/send", json={})).json()
            assert held["code"] == "held_for_approval"
            twin = (await agent.post(f"{HERE}/messages/send", json={"to": [OTHER], "text": "too", "attachments": [file]})).json()

            assert (await agent.delete(f"{HERE}/drafts/{draft['draft_id']}")).status_code == 204
            assert (await home.http.delete(f"{HERE}/messages/{quote(message_id, safe='')}")).status_code == 204
            assert (await home.http.post(f"/api/outgoing/{twin['approval_id']}/refuse", json={})).status_code == 200

            approve = f"/api/outgoing/{held['approval_id']}/approve"
            answer = await home.http.post(approve, json={"digest": held["digest"]})
            assert answer.json()["state"] in ("sending", "sent")
            assert await attached(home) == [RAW]


async def attached(home: Living) -> list[bytes]:
    """The files of what came to the other inbox."""
    mail = home.house.office.mail
    async with asyncio.timeout(PATIENCE_S):
        while not (found := (await mail.list_messages(SYSTEM, OTHER, MailFilter(), PageRequest())).items):
            await home.house.store.events.wait(home.house.store.events.last_seq(), timeout_s=1)
    (message,) = found
    whole = await mail.get_message(SYSTEM, OTHER, message.message_id)
    return [
        (await mail.get_attachment(SYSTEM, OTHER, message.message_id, entry.attachment_id))[1].content
        for entry in whole.attachments
    ]
