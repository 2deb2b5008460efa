"""The reference plugin's behaviours of a hosted office, each under its id (docs/reference/parity.md), over real sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hostedkit import (
    ADA,
    DOMAIN,
    EVE,
    POLL_S,
    Account,
    Here,
    SocketPeer,
    fall_silent,
    hosted_at,
    leave,
    message_frame,
    received_frame,
    say,
    socket_peer,
    stay,
    vanish,
)
from httppeer import Peer, Response, peer
from postroom.errors import Invalid, StorageFailure, TransportFailure
from postroom.hosted.inbound import ATTEMPTS, POLLS
from postroom.hosted.place import EU, US, place_of
from postroom.hosted.tables import hosted_seen
from postroom.model.event import BOUNCED, COMPLAINED, RECEIVED, REJECTED, Event
from postroom.model.mail import NewInbox
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.principal import Kind, Principal
from postroom.store.statement import sql

OWNER = Principal(kind=Kind.OWNER)
FIRST = PageRequest()
INBOX = f"ada@{DOMAIN}"


@contextlib.asynccontextmanager
async def at_account(folder: Path, account: Account, **more: Any) -> AsyncIterator[tuple[Here, Peer]]:
    async with peer(account) as service, hosted_at(folder, service.url, **more) as here:
        yield here, service


@contextlib.asynccontextmanager
async def with_socket(folder: Path, account: Account, *script: Any, **more: Any) -> AsyncIterator[tuple[Here, SocketPeer]]:
    async with socket_peer(*script) as socket, at_account(folder, account, socket=socket, **more) as (here, _):
        await here.own(INBOX)
        yield here, socket


def asked(service: Peer) -> list[str]:
    return [f"{request.method} {request.target}" for request in service.requests]


def refs(events: list[Event]) -> list[str]:
    return [event.ref for event in events]


def test_a07_each_region_of_agentmail_has_its_own_hosts_and_another_office_its_one_origin() -> None:
    assert (place_of(US, "am_1").api, place_of(US, "am_1").socket) == (US, "wss://ws.agentmail.to/v0")
    assert (place_of(f"{EU}/", "am_eu_1").api, place_of(EU, "am_eu_1").socket) == (EU, "wss://ws.agentmail.eu/v0")
    assert place_of("https://post.example:8443", "am_1").socket == "wss://post.example:8443/v0"
    with pytest.raises(Invalid, match="region EU"):
        place_of(US, "am_eu_1")


async def test_a07_requests_carry_the_key_and_snake_case_and_are_asked_again_only_where_that_helps(tmp_path: Path) -> None:
    account = Account(INBOX)
    account.first = [Response(status=429, headers={"retry-after": "1"}), Response(status=503)]
    async with at_account(tmp_path, account, key="am_secret") as (here, service):
        wanted = MailFilter(labels=("todo",), after=1)
        await here.office.mail.list_messages(OWNER, INBOX, wanted, PageRequest(limit=2, page_token="0"))
        assert len(service.requests) == 3
        last = service.requests[-1]
        assert (last.path, last.bearer) == (f"/v0/inboxes/{INBOX}/messages", "am_secret")
        assert last.query == {"limit": "2", "page_token": "0", "labels": '["todo"]', "after": "1970-01-01T00:00:00.000001Z"}
        assert here.pauses[0] == 1.0
        assert 2.0 <= here.pauses[1] <= 2.5

        account.first = [Response(status=400, body={"name": "ValidationError", "message": "no", "code": "validation_error"})]
        with pytest.raises(Invalid, match='answered 400 validation_error: "no"'):
            await here.office.mail.list_inboxes(OWNER, FIRST)
        assert len(service.requests) == 4

        account.first = [Response(status=429, headers={"retry-after": "3600"})] * 3
        with pytest.raises(Exception, match="asks to wait"):
            await here.office.mail.list_inboxes(OWNER, FIRST)
        assert here.pauses[2:] == [60.0, 60.0]


async def test_a09_a_configured_inbox_is_used_without_a_request(tmp_path: Path) -> None:
    async with at_account(tmp_path, Account(), inbox=INBOX) as (here, service):
        assert [inbox.inbox_id for inbox in (await here.office.mail.list_inboxes(ADA, FIRST)).items] == [INBOX]
        assert asked(service) == []


async def test_a09_the_only_inbox_of_the_account_is_taken(tmp_path: Path) -> None:
    async with at_account(tmp_path, Account(INBOX)) as (here, service):
        made = await here.office.mail.create_inbox(OWNER, NewInbox(owner_agent="agt_ada"))
        assert (made.inbox_id, made.owner_agent) == (INBOX, "agt_ada")
        assert asked(service) == ["GET /v0/inboxes?limit=100"]


async def test_a09_an_account_without_inboxes_gets_one_if_that_is_allowed(tmp_path: Path) -> None:
    async with at_account(tmp_path / "auto", Account()) as (here, service):
        assert (await here.office.mail.create_inbox(OWNER, NewInbox(owner_agent="agt_ada"))).inbox_id == f"made-1@{DOMAIN}"
        assert json.loads(service.requests[-1].body) == {"client_id": "postroom-first-inbox"}
    async with at_account(tmp_path / "not", Account(), auto_create_inbox=False) as (here, service):
        with pytest.raises(Invalid) as refused:
            await here.office.mail.create_inbox(OWNER, NewInbox(owner_agent="agt_ada"))
        assert "office.auto_create_inbox" in refused.value.message
        assert "office.inbox" in str(refused.value.fix)
        assert asked(service) == ["GET /v0/inboxes?limit=100"]


async def test_a10_the_answer_is_remembered_and_a_failure_is_not(tmp_path: Path) -> None:
    account = Account(INBOX)
    account.first = [Response(status=500)]
    async with at_account(tmp_path, account, max_retries=0) as (here, service):
        with pytest.raises(TransportFailure):
            await here.office.mail.list_inboxes(ADA, FIRST)
        for _ in range(3):
            assert len((await here.office.mail.list_inboxes(ADA, FIRST)).items) == 1
        assert asked(service) == ["GET /v0/inboxes?limit=100"] * 2


async def test_a11_ten_first_calls_at_once_make_one_inbox(tmp_path: Path) -> None:
    async with at_account(tmp_path, Account()) as (here, service):
        found = await asyncio.gather(*(here.office.mail.list_inboxes(ADA, FIRST) for _ in range(10)))
        assert {page.items[0].inbox_id for page in found} == {f"made-1@{DOMAIN}"}
        assert [line for line in asked(service) if line.startswith("POST")] == ["POST /v0/inboxes"]


async def test_a11_several_free_inboxes_are_not_guessed_among_and_another_agents_is_not_given_away(tmp_path: Path) -> None:
    account = Account(INBOX, f"other@{DOMAIN}")
    async with at_account(tmp_path, account) as (here, service):
        with pytest.raises(Invalid, match=f"{INBOX}, other@{DOMAIN}"):
            await here.office.mail.create_inbox(OWNER, NewInbox(owner_agent="agt_ada"))
        assert (await here.office.mail.list_inboxes(ADA, FIRST)).items == ()
        await here.own(INBOX)
        assert (await here.office.mail.create_inbox(OWNER, NewInbox(owner_agent="agt_eve"))).inbox_id == f"other@{DOMAIN}"
        with pytest.raises(Invalid, match="belongs to another agent"):
            await here.own(INBOX, EVE)
        assert [line for line in asked(service) if line.startswith("POST")] == []


async def test_a44_every_connection_subscribes_once_in_the_wires_spelling(tmp_path: Path) -> None:
    async with with_socket(tmp_path, Account(INBOX), leave, vanish, stay) as (here, socket), here.running():
        await socket.connections(3)
    assert [len(frames) for frames in socket.subscribed] == [1, 1, 1]
    wanted = {"type": "subscribe", "inbox_ids": [INBOX], "event_types": [RECEIVED, BOUNCED, COMPLAINED, REJECTED]}
    assert all(frames == [wanted] for frames in socket.subscribed)


async def test_a45_the_event_type_alone_says_what_a_frame_is(tmp_path: Path) -> None:
    camel = {"messageId": "<n2@example.com>", "inboxId": INBOX, "threadId": "thread-2", "labels": ["received"]}
    frames = (
        {"type": "subscribed", "inbox_ids": [INBOX], "organization_id": "o"},
        {"type": "message_received", "message": message_frame(INBOX, 9, "received")},
        "{not json",
        [],
        {"type": "event", "event_type": RECEIVED},
        {"type": "event", "event_type": RECEIVED, "message": {"inbox_id": INBOX, "labels": ["received"]}},
        {"type": "event", "event_type": "calendar.event.created", "calendar_event": {}},
        received_frame("stranger@elsewhere.example", 8),
        received_frame(INBOX, 1),
        {"type": "event", "eventType": RECEIVED, "eventId": "e2", "message": camel | {"timestamp": "2030-01-01T00:00:02Z"}},
    )
    async with with_socket(tmp_path, Account(INBOX), say(*frames)) as (here, _), here.running():
        told = await here.told(count=2)
    assert [(event.ref, event.thread_id, event.agent_id) for event in told] == [
        ("<n1@example.com>", "thread-1", "agt_ada"),
        ("<n2@example.com>", "thread-2", "agt_ada"),
    ]


@pytest.mark.parametrize("end", [leave, vanish])
async def test_a46_after_any_end_a_new_connection_is_made_and_hears_on(tmp_path: Path, end: Any) -> None:
    script = (say(received_frame(INBOX, 1), then=end), say(received_frame(INBOX, 2)))
    async with with_socket(tmp_path, Account(INBOX), *script) as (here, socket), here.running():
        assert refs(await here.told(count=2)) == ["<n1@example.com>", "<n2@example.com>"]
        assert len(socket.subscribed) == 2
        assert here.office.inbound.state == "open"


async def test_a46_a_connection_that_cannot_be_made_is_tried_again_and_our_own_stop_is_the_end(tmp_path: Path) -> None:
    async with with_socket(tmp_path, Account(INBOX), stay) as (here, socket):
        working, socket.url = socket.url, "ws://127.0.0.1:9/v0"
        async with here.running():
            await here.paused(1)
            socket.url = working
            await socket.connections(1)
        assert here.pauses[0] == 1.0
        assert len(socket.subscribed) == 1


async def test_a46_a_handler_that_throws_ends_neither_the_stream_nor_the_mail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(INBOX)
    async with with_socket(tmp_path, account, say(received_frame(INBOX, 1)), say(received_frame(INBOX, 2))) as (here, socket):
        take, thrown = here.office.inbound._arrivals.take, []

        async def once(*arguments: Any, **named: Any) -> int:
            if arguments[1] and not thrown:
                account.add(INBOX, 1)
                thrown.append(1)
                raise StorageFailure("full")
            return await take(*arguments, **named)

        async with here.running():
            await socket.connections(1)
            monkeypatch.setattr(here.office.inbound._arrivals, "take", once)
            assert refs(await here.told(count=2)) == ["<n1@example.com>", "<n2@example.com>"]
        assert thrown == [1]


async def test_a47_a_connection_that_is_open_before_anybody_looks_still_subscribes(tmp_path: Path) -> None:
    """The library's connect answers with a connection that is open; subscribing is the next thing done with it."""
    async with with_socket(tmp_path, Account(INBOX), say(received_frame(INBOX, 1))) as (here, socket), here.running():
        await here.told(count=1)
        assert [frames[0]["type"] for frames in socket.subscribed] == ["subscribe"]


async def test_a48_clean_closes_spread_over_days_never_use_up_the_attempts(tmp_path: Path) -> None:
    async with with_socket(tmp_path, Account(INBOX)) as (here, socket):

        async def a_day_later(connection: Any) -> None:
            await connection.send(json.dumps(received_frame(INBOX, len(socket.subscribed))))
            await here.told(count=len(socket.subscribed))
            here.clock.advance(86_400)
            await connection.close(1000)

        socket.script = [a_day_later] * (ATTEMPTS + 1) + [stay]
        async with here.running():
            await socket.connections(ATTEMPTS + 2)
        assert here.pauses == [1.0] * (ATTEMPTS + 1)


async def test_a48_a_silent_peer_is_found_out_by_pings(tmp_path: Path) -> None:
    script = (fall_silent, say(received_frame(INBOX, 1)))
    async with with_socket(tmp_path, Account(INBOX), *script, ping_s=0.2) as (here, socket), here.running():
        await here.told(count=1)
        assert len(socket.subscribed) >= 2


async def test_a48_when_no_connection_holds_polling_takes_over_and_the_socket_is_tried_again(tmp_path: Path) -> None:
    account = Account(INBOX)
    script = (*[leave] * ATTEMPTS, say(received_frame(INBOX, 2)))
    async with with_socket(tmp_path, account, *script) as (here, socket), here.running():
        await here.paused(1, POLL_S)
        assert (here.office.inbound.state, len(socket.subscribed)) == ("polling", ATTEMPTS)
        account.add(INBOX, 1)
        here.tick.set()
        assert refs(await here.told(count=1)) == ["<n1@example.com>"]
        for polls in range(2, POLLS + 1):
            await here.paused(polls, POLL_S)
            here.tick.set()
        assert refs(await here.told(count=2)) == ["<n1@example.com>", "<n2@example.com>"]
        assert here.office.inbound.state == "open"


async def test_a49_failures_are_always_asked_for_and_each_report_is_told_once(tmp_path: Path) -> None:
    ids = {"inbox_id": INBOX, "thread_id": "thread-1", "message_id": "<out@x>", "timestamp": "2030-01-01T00:00:01Z"}
    first = {"recipients": [{"address": "a@b.example", "status": "5.1.1"}], "type": "Permanent", "sub_type": "General"}
    second = {"recipients": ["c@d.example"], "reason": "policy"}
    frames = (
        {"type": "event", "event_type": BOUNCED, "event_id": "e1", "bounce": ids | first},
        {"type": "event", "event_type": BOUNCED, "event_id": "e2", "bounce": ids | second},
        {"type": "event", "event_type": BOUNCED, "event_id": "e1", "bounce": ids | first},
        {"type": "event", "event_type": REJECTED, "event_id": "e3", "reject": ids | {"reason": "virus"}},
    )
    script = say(*frames, received_frame(INBOX, 1))
    inbound = {"event_types": ("message.received",)}
    async with with_socket(tmp_path, Account(INBOX), script, inbound=inbound) as (here, socket), here.running():
        await here.told(count=1)
        told = await here.told(BOUNCED, COMPLAINED, REJECTED)
    assert {BOUNCED, COMPLAINED, REJECTED} <= set(socket.subscribed[0][0]["event_types"])
    assert [(event.kind, event.snapshot["recipients"], event.snapshot["reason"]) for event in told] == [
        (BOUNCED, ["a@b.example"], "Permanent General"),
        (BOUNCED, ["c@d.example"], "policy"),
        (REJECTED, [], "virus"),
    ]


async def test_a49_polling_finds_failures_by_their_labels_unless_the_socket_told_of_them(tmp_path: Path) -> None:
    account = Account(INBOX)
    async with at_account(tmp_path, account, inbound={"mode": "poll"}) as (here, _):
        await here.own(INBOX)
        await here.office.inbound._catch_up.all()
        account.add(INBOX, 1, "sent", "bounced")
        account.add(INBOX, 2, "sent", "delivered")
        for _ in range(2):
            await here.office.inbound._catch_up.all()
        (bounced,) = await here.told(BOUNCED, COMPLAINED, REJECTED)
        assert (bounced.ref, bounced.snapshot["recipients"]) == ("<n1@example.com>", [INBOX])


async def test_a50_one_message_heard_of_live_by_backfill_and_by_polling_is_told_once(tmp_path: Path) -> None:
    account = Account(INBOX)
    twice = (received_frame(INBOX, 1), received_frame(INBOX, 1))
    script = (say(*twice, then=leave), say(received_frame(INBOX, 1), received_frame(INBOX, 2)))
    async with with_socket(tmp_path, account, *script) as (here, _):
        await here.office.inbound._catch_up.all()
        account.add(INBOX, 1)
        async with here.running():
            await here.told(count=2)
        await here.office.inbound._catch_up.all()
        assert refs(await here.told()) == ["<n1@example.com>", "<n2@example.com>"]


async def test_a50_what_could_not_be_written_down_is_told_when_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(INBOX)
    async with at_account(tmp_path, account) as (here, _):
        await here.own(INBOX)
        await here.office.inbound._catch_up.all()
        account.add(INBOX, 1)

        async def full(*arguments: Any) -> None:
            raise StorageFailure("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(here.store, "write", full)
            with pytest.raises(StorageFailure):
                await here.office.inbound._catch_up.all()
        assert await here.told() == []
        for _ in range(2):
            await here.office.inbound._catch_up.all()
        assert refs(await here.told()) == ["<n1@example.com>"]


async def test_a51_mail_that_came_while_nobody_listened_is_told_once_to_the_last_page(tmp_path: Path) -> None:
    account = Account(INBOX)
    async with peer(account) as service:
        for arrived in (1, 120):
            async with hosted_at(tmp_path, service.url, inbound={"mode": "poll"}) as here:
                await here.own(INBOX)
                await here.office.inbound._catch_up.all()
                if arrived == 1:
                    for number in range(1, 121):
                        account.add(INBOX, number)
                    continue
                await here.office.inbound._catch_up.all()
                assert refs(await here.told()) == [f"<n{number}@example.com>" for number in range(1, 121)]


async def test_a52_the_first_look_tells_of_no_old_mail_and_never_of_our_own(tmp_path: Path) -> None:
    account = Account(INBOX)
    for number in range(1, 51):
        account.add(INBOX, number)
    async with at_account(tmp_path, account, inbound={"mode": "poll"}) as (here, _):
        await here.own(INBOX)
        async with here.running():
            for polls in range(1, 4):
                await here.paused(polls, POLL_S)
                if polls == 1:
                    account.add(INBOX, 60, sent=True)
                    account.add(INBOX, 61)
                here.tick.set()
            assert refs(await here.told()) == ["<n61@example.com>"]


async def test_a50_what_was_told_long_ago_and_lies_behind_is_forgotten(tmp_path: Path) -> None:
    account = Account(INBOX)
    async with at_account(tmp_path, account) as (here, _):
        await here.own(INBOX)
        await here.office.inbound._catch_up.all()
        account.add(INBOX, 1)
        account.add(INBOX, 20_000)
        await here.office.inbound._catch_up.all()
        here.clock.advance(6 * 365 * 86_400)  # beyond the account's mail, which is dated years ahead of this clock
        account.add(INBOX, 20_001)["timestamp"] = "2030-02-02T00:00:00Z"
        await here.office.inbound._catch_up.all()
        account.add(INBOX, 20_002)["timestamp"] = "2030-02-02T00:00:01Z"
        await here.office.inbound._catch_up.all()
        kept = here.store.read_now(lambda reader: reader.all(sql(select(hosted_seen.c.ref).order_by(hosted_seen.c.id))))
        assert [ref for (ref,) in kept] == ["<n20001@example.com>", "<n20002@example.com>"]
        assert len(await here.told()) == 4


async def test_a52_with_mode_off_nothing_is_asked(tmp_path: Path) -> None:
    async with at_account(tmp_path, Account(INBOX), inbound={"mode": "off"}) as (here, service):
        await here.own(INBOX)
        await here.office.run()
        assert (here.office.inbound.state, asked(service)) == ("off", [])
