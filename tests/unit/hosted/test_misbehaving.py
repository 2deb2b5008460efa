"""A hosted office that is wrong, slow, away or hostile: every caller gets a clear error, and nothing goes elsewhere."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostedkit import ADA, DOMAIN, EVE, Account, hosted_at, message_frame
from httppeer import Request, Response, peer
from postroom.errors import Busy, Conflict, Forbidden, Invalid, NotFound, PostroomError, Refused, TooLarge, TransportFailure
from postroom.hosted.api import Unexpected
from postroom.hosted.catchup import CatchUp
from postroom.model.mail import DraftFields, NewInbox
from postroom.model.paging import MailFilter, PageRequest
from postroom.model.principal import SYSTEM, Kind, Principal

OWNER = Principal(kind=Kind.OWNER)
INBOX, SECOND = f"ada@{DOMAIN}", f"ada2@{DOMAIN}"
ALL, FIRST = MailFilter(), PageRequest()


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (400, {"message": "bad", "code": "validation_error"}, Invalid, "validation_error"),
        (401, {"message": "no"}, TransportFailure, "transport_failure"),
        (403, {"code": "message_rejected"}, Refused, "message_rejected"),
        (403, {"code": "limit_exceeded"}, Forbidden, "limit_exceeded"),
        (403, {"code": "missing_permission"}, Forbidden, "forbidden"),
        (404, {}, NotFound, "not_found"),
        (409, {}, Conflict, "conflict"),
        (413, b"<html>", TooLarge, "too_large"),
        (418, b"", TransportFailure, "transport_failure"),
        (422, {"code": 7, "message": {"a": 1}}, Invalid, "unprocessable"),
        (429, {}, Busy, "rate_limit_exceeded"),
        (500, b"\xff\xfe", TransportFailure, "transport_failure"),
        (302, b"", TransportFailure, "transport_failure"),
    ],
)
async def test_each_status_is_one_of_our_errors(
    tmp_path: Path, status: int, body: Any, kind: type[PostroomError], code: str
) -> None:
    def answer(request: Request) -> Response:
        return Response(status=status, body=body, headers={"location": "http://127.0.0.1:9/"} if status == 302 else {})

    async with peer(answer) as service, hosted_at(tmp_path, service.url, key="am_the_key") as here:
        with pytest.raises(kind) as failed:
            await here.office.mail.get_message(OWNER, INBOX, "<a@b>")
        assert (type(failed.value), failed.value.code) == (kind, code)
        assert len(service.requests) == (3 if status in (429, 500) else 1)
        assert "am_the_key" not in f"{failed.value.message} {failed.value.details}"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'"x"', b"[" * 100_000, {"messages": "no"}, {"messages": [1]}, {"messages": [{}]}]
)
async def test_an_answer_outside_the_contract_is_said_to_be_one(tmp_path: Path, body: Any) -> None:
    async with peer(lambda request: Response(body=body)) as service, hosted_at(tmp_path, service.url) as here:
        if body == b"":
            assert (await here.office.mail.list_messages(OWNER, INBOX, ALL, FIRST)).items == ()
            return
        with pytest.raises(TransportFailure, match="does not keep to its contract"):
            await here.office.mail.list_messages(OWNER, INBOX, ALL, FIRST)


async def test_an_office_that_does_not_answer_or_is_away_is_given_up(tmp_path: Path) -> None:
    async def never(request: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    async with peer(never) as service, hosted_at(tmp_path, service.url, timeout_s=0.2, max_retries=1) as here:
        url = service.url
        with pytest.raises(TransportFailure, match="cannot be asked") as failed:
            await here.office.mail.list_inboxes(OWNER, FIRST)
        assert (failed.value.kind, len(here.pauses)) == ("temporary", 1)
    async with hosted_at(tmp_path, url) as here:
        with pytest.raises(TransportFailure, match="cannot connect"):
            await here.office.mail.list_inboxes(OWNER, FIRST)


async def test_an_endless_answer_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postroom.hosted.office.HTTP_SEND_BODY_BYTES", 50_000)
    endless = Response(body=b"x" * 10_000, chunks=100_000)
    async with peer(lambda request: endless) as service, hosted_at(tmp_path, service.url, max_retries=0) as here:
        with pytest.raises(TransportFailure, match="more than 50000 bytes"):
            await here.office.mail.list_inboxes(OWNER, FIRST)
        assert service.sent < 1_000_000_000


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/x", "https://169.254.169.254/latest", "file:///etc/passwd", "https://localhost/x", "", None, 7]
)
async def test_a_download_link_that_leads_inside_is_not_followed(tmp_path: Path, url: Any) -> None:
    def answer(request: Request) -> Response:
        return Response(body={"message_id": "<a@b>", "size": 1, "download_url": url})

    async with peer(answer) as service, hosted_at(tmp_path, service.url) as here:
        with pytest.raises(Unexpected, match="download_url"):
            await here.office.mail.get_raw(OWNER, INBOX, "<a@b>")


async def test_a_download_carries_no_key_and_follows_no_redirect(tmp_path: Path) -> None:
    def answer(request: Request) -> Response:
        if request.path == "/blob":
            return Response(status=302, headers={"location": f"{service.url}/elsewhere"})
        return Response(body={"message_id": "<a@b>", "size": 1, "download_url": f"{service.url}/blob"})

    async with peer(answer) as service, hosted_at(tmp_path, service.url, max_retries=0) as here:
        with pytest.raises(TransportFailure, match="answered with 302"):
            await here.office.mail.get_raw(OWNER, INBOX, "<a@b>")
        assert [(request.path, request.bearer != "") for request in service.requests[1:]] == [("/blob", False)]


async def test_a_list_without_end_stops_catching_up_with_an_error(tmp_path: Path) -> None:
    account = Account(INBOX)

    def answer(request: Request) -> Response:
        response = account(request)
        if "ascending" in request.query:
            response.body |= {"next_page_token": "0"}
        return response

    async with peer(answer) as service, hosted_at(tmp_path, service.url) as here:
        await here.own(INBOX)
        catch_up: CatchUp = here.office.inbound._catch_up
        await catch_up.all()
        account.add(INBOX, 1)
        with pytest.raises(Unexpected, match="no end"):
            await catch_up.all()
        assert len(await here.told()) == 1


async def test_an_inbox_deleted_there_keeps_no_other_from_being_read(tmp_path: Path) -> None:
    account = Account(INBOX, SECOND)
    async with peer(account) as service, hosted_at(tmp_path, service.url) as here:
        await here.own(INBOX)
        await here.own(SECOND)
        await here.office.inbound._catch_up.all()
        account.inboxes.remove(INBOX)
        account.add(SECOND, 1)
        assert await here.office.inbound._catch_up.all() == 1


async def test_routing_needs_nobody_there_and_another_agents_inbox_is_not_asked_about(tmp_path: Path) -> None:
    async with peer(Account(INBOX)) as service, hosted_at(tmp_path, service.url) as here:
        await here.own(INBOX)
        assert (await here.office.mail.get_inbox(SYSTEM, INBOX)).owner_agent == "agt_ada"
        with pytest.raises(NotFound):
            await here.office.mail.get_message(EVE, INBOX, "<a@b>")
        assert service.requests == []


async def test_ids_cannot_lead_to_another_route(tmp_path: Path) -> None:
    async with peer(Account(INBOX)) as service, hosted_at(tmp_path, service.url) as here:
        for message_id in ("..", ".", "../../lists", "a/b?c#d%2e"):
            with pytest.raises(NotFound):
                await here.office.mail.get_message(OWNER, INBOX, message_id)
        within = f"/v0/inboxes/ada%40{DOMAIN}/messages/"
        assert [request.target.removeprefix(within) for request in service.requests] == [
            "%2E%2E",
            "%2E",
            "..%2F..%2Flists",
            "a%2Fb%3Fc%23d%252e",
        ]


async def test_a_draft_the_service_would_send_by_itself_is_refused(tmp_path: Path) -> None:
    async with peer(Account(INBOX)) as service, hosted_at(tmp_path, service.url) as here:
        await here.own(INBOX)
        for attempt in (
            here.office.mail.create_draft(ADA, INBOX, DraftFields(text="x", send_at=1)),
            here.office.mail.update_draft(ADA, INBOX, "d", {"send_at": 1}),
        ):
            with pytest.raises(Invalid) as refused:
                await attempt
            assert refused.value.code == "not_scheduled"
        assert service.requests == []


async def test_threads_of_several_inboxes_come_as_one_list_newest_first(tmp_path: Path) -> None:
    def answer(request: Request) -> Response:
        inbox = request.path.split("/")[3]
        numbers = [9, 6, 5, 1] if inbox == INBOX else [8, 7, 2]
        start, limit = int(request.query.get("page_token", "0")), int(request.query["limit"])
        rows = [message_frame(inbox, number) | {"senders": [], "recipients": []} for number in numbers[start : start + limit]]
        more = {"next_page_token": str(start + limit)} if start + limit < len(numbers) else {}
        return Response(body={"threads": rows, **more})

    async with peer(answer) as service, hosted_at(tmp_path, service.url) as here:
        await here.own(INBOX)
        await here.own(SECOND)
        found, token = [], None
        while True:
            page = await here.office.mail.list_threads(ADA, None, ALL, PageRequest(limit=2, page_token=token))
            found += [row.thread_id for row in page.items]
            token = page.next_page_token
            if token is None:
                break
        assert found == [f"thread-{number}" for number in (9, 8, 7, 6, 5, 2, 1)]
        with pytest.raises(Invalid):
            await here.office.mail.list_threads(ADA, None, ALL, PageRequest(limit=3, page_token="AAAA"))


async def test_an_agents_named_inbox_is_taken_where_the_account_has_it_and_no_agent_does(tmp_path: Path) -> None:
    account = Account(INBOX)

    def answer(request: Request) -> Response:
        if request.method == "POST":
            return Response(status=403, body={"code": "already_exists", "message": "taken"})
        return account(request)

    async with peer(answer) as service, hosted_at(tmp_path, service.url) as here:
        made = await here.office.mail.create_inbox(OWNER, NewInbox(username="ada", domain=DOMAIN, owner_agent="agt_ada"))
        assert (made.inbox_id, made.owner_agent) == (INBOX, "agt_ada")
        with pytest.raises(Forbidden, match="already_exists"):
            await here.office.mail.create_inbox(OWNER, NewInbox(username="eve", domain=DOMAIN, owner_agent="agt_eve"))
