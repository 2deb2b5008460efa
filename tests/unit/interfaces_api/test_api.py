"""`/api` behind the real surface, over rooms that answer as told."""

import dataclasses
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest

from postroom import __version__
from postroom.access.access import Access
from postroom.errors import Conflict, Forbidden, NotFound
from postroom.interfaces.api.app import api_app
from postroom.interfaces.http.compose import build
from postroom.interfaces.http.hosts import Names
from postroom.interfaces.http.surface import Surface
from postroom.model.mail import Inbox, NewInbox
from postroom.model.outgoing import Outgoing, State
from postroom.model.paging import Page, PageRequest
from postroom.model.principal import DEFAULT_POD, Principal, require_owner
from postroom.model.session import Notice, SessionRow
from postroom.store.engine import Store

NOW = 1_767_225_600_123_000  # 2026-01-01T00:00:00.123Z
MAIL = Outgoing(
    outgoing_id="out_1",
    state=State.HELD,
    inbox_id="scout@postroom.localhost",
    agent="scout",
    session_id=None,
    mail_from="scout@postroom.localhost",
    to=("ada@example.org",),
    cc=(),
    bcc=("eve@example.org",),
    subject="Hello",
    text="Dear Ada",
    attachments=(("a.txt", 3),),
    size=900,
    digest="d" * 64,
    message_id="<1@postroom.localhost>",
    thread_id=None,
    in_reply_to=None,
    reasons=("approval is always asked",),
    boundary="rule",
    boundary_reason="the caller's OS user is not known",
    created_at=NOW,
    expires_at=NOW + 1_000_000,
)


class Inboxes:
    """Just enough of `Mail`."""

    domains = ("postroom.localhost", "other.example")

    def __init__(self) -> None:
        self.rows: dict[str, Inbox] = {}

    async def create_inbox(self, principal: Principal, new: NewInbox) -> Inbox:
        address = f"{new.username}@{new.domain}"
        if new.domain not in self.domains:
            raise NotFound("no such domain")
        if address in self.rows:
            raise Forbidden("taken", code="already_exists")
        self.rows[address] = Inbox(inbox_id=address, pod_id=DEFAULT_POD, owner_agent=new.owner_agent)
        return self.rows[address]

    async def get_inbox(self, principal: Principal, inbox_id: str) -> Inbox:
        return self.rows[inbox_id]

    async def list_inboxes(self, principal: Principal, page: PageRequest) -> Page[Inbox]:
        return Page(items=tuple(self.rows.values()))


class Gate:
    """One held mail."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def list(self, principal: Principal, *, states: Sequence[State] = (), page: PageRequest) -> Page[Outgoing]:
        self.calls.append((tuple(states), page.limit, page.page_token))
        return Page(items=(MAIL,), next_page_token="next")

    async def show(self, principal: Principal, outgoing_id: str) -> Outgoing:
        if outgoing_id != MAIL.outgoing_id:
            raise NotFound("Outgoing mail not found")
        return MAIL

    async def raw(self, principal: Principal, outgoing_id: str) -> bytes:
        return b"Subject: Hello\r\n\r\n"

    async def history(self, principal: Principal, outgoing_id: str) -> Sequence[dict[str, Any]]:
        return [{"at": NOW, "verb": "held", "actor": "scout"}]

    async def approve(self, principal: Principal, outgoing_id: str, digest: str) -> Outgoing:
        require_owner(principal, "approve mail")
        if digest != MAIL.digest:
            raise Conflict("this is not the digest of the held mail", code="digest_mismatch")
        return dataclasses.replace(MAIL, state=State.SENDING, decided_by="owner", decided_at=NOW)

    async def refuse(self, principal: Principal, outgoing_id: str, comment: str = "") -> Outgoing:
        return dataclasses.replace(MAIL, state=State.REFUSED, comment=comment)


class Sessions:
    """One session with one notice."""

    def __init__(self) -> None:
        self.acks: list[int | None] = []

    async def list(self, principal: Principal) -> Sequence[SessionRow]:
        row = SessionRow(
            session_id="agentmail-1",
            thread_id="1",
            inbox_id="i",
            agent_id="agt_1",
            host="",
            pending=1,
            offered=0,
            taken=0,
            updated_at=NOW,
        )
        return [row]

    async def pending(self, principal: Principal, session_id: str, ack: int | None = None) -> Sequence[Notice]:
        self.acks.append(ack)
        return [Notice(seq=7, event_id="evt_1", kind="message.received", text="fenced", message_id="<1@x>", thread_id="1")]

    async def wake(self, principal: Principal, session_id: str) -> bool:
        require_owner(principal, "wake sessions")
        return True


class Api:
    """The API with an owner's and an agent's hands on it."""

    def __init__(self, access: Access, owner: str) -> None:
        self.owner = owner
        self.access = access
        self.gate = Gate()
        self.sessions = Sessions()
        self.mail = Inboxes()
        app = api_app(
            access=access,
            mail=self.mail,
            gate=self.gate,
            sessions=self.sessions,
            accepting=lambda: True,
            boundary=lambda principal: ("rule", f"uid {principal.peer_uid}"),
        )
        surface = Surface(build({"api": app}, accepting=lambda: True), access=access, names=Names("127.0.0.1", 4470))
        self._transport = httpx.ASGITransport(surface)

    async def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None, content: bytes | None = None):
        headers = {"Authorization": f"Bearer {token or self.owner}"}
        given = {"json": body} if body is not None else {"content": content}
        async with httpx.AsyncClient(transport=self._transport, base_url="http://127.0.0.1:4470") as client:
            answer = await client.request(method, path, headers=headers, **given)
        return answer.status_code, answer.json() if answer.content and "json" in answer.headers[
            "content-type"
        ] else answer.content


@pytest.fixture
async def api(tmp_path) -> AsyncIterator[Api]:
    store = await Store.open(tmp_path / "house")
    access = Access(store)
    await access.ensure_owner_key(tmp_path)
    yield Api(access, (tmp_path / "owner.key").read_text().strip())
    await store.close()


async def test_an_agent_gets_a_token_and_an_inbox_of_its_name_at_the_first_domain(api: Api):
    status, made = await api.ask("POST", "/api/agents", {"name": "scout"})
    assert (status, made["inbox_id"], made["profile"]) == (201, "scout@postroom.localhost", "correspondent")
    assert (await api.access.authenticate(made["token"])).agent_id == made["agent_id"]
    _, listed = await api.ask("GET", "/api/agents")
    assert [(row["name"], row["inboxes"]) for row in listed["agents"]] == [("scout", ["scout@postroom.localhost"])]
    assert "token" not in listed["agents"][0]


async def test_an_inbox_of_its_own_choice_and_a_profile(api: Api):
    _, made = await api.ask("POST", "/api/agents", {"name": "scout", "inbox": "desk@other.example", "profile": "clerk"})
    assert (made["inbox_id"], made["profile"]) == ("desk@other.example", "clerk")


@pytest.mark.parametrize(
    ("body", "status", "path"),
    [
        ({}, 400, []),
        ({"name": 1}, 400, ["name"]),
        ({"name": "Scout"}, 400, ["name"]),
        ({"name": "scout", "profile": "king"}, 400, ["profile"]),
        ({"name": "scout", "inbox": "nowhere"}, 400, ["inbox"]),
        ({"name": "scout", "more": 1}, 400, []),
        ([], 400, []),
        ({"name": "scout", "inbox": "a@elsewhere.example"}, 404, None),
    ],
)
async def test_a_wrong_agent_is_refused_and_leaves_nothing(api: Api, body: Any, status: int, path: list[str] | None):
    got, answer = await api.ask("POST", "/api/agents", body)
    assert got == status
    assert path is None or answer["errors"][0]["path"] == path
    assert (await api.ask("GET", "/api/agents"))[1] == {"agents": []}


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b'{"name": "\\ud800"}'])
async def test_what_is_not_json_is_said(api: Api, content: bytes):
    status, answer = await api.ask("POST", "/api/agents", content=content)
    assert (status, answer["name"]) == (400, "ValidationError")


async def test_a_taken_inbox_makes_no_agent_and_a_removed_agent_comes_back_to_its_own(api: Api):
    _, first = await api.ask("POST", "/api/agents", {"name": "scout"})
    status, answer = await api.ask("POST", "/api/agents", {"name": "other", "inbox": "scout@postroom.localhost"})
    assert (status, answer["code"]) == (403, "already_exists")
    assert [info.name for info in await api.access.list_agents(await api.access.authenticate(api.owner))] == ["scout"]
    assert (await api.ask("DELETE", "/api/agents/scout"))[1] == {"agent_id": first["agent_id"], "name": "scout", "removed": True}
    status, again = await api.ask("POST", "/api/agents", {"name": "scout"})
    assert (status, again["agent_id"], again["inbox_id"]) == (201, first["agent_id"], first["inbox_id"])


async def test_rotating_gives_another_token(api: Api):
    _, made = await api.ask("POST", "/api/agents", {"name": "scout"})
    _, rotated = await api.ask("POST", "/api/agents/scout/rotate")
    assert rotated["token"] != made["token"]
    assert (await api.ask("GET", "/api/health", token=made["token"]))[0] == 401
    assert (await api.ask("GET", "/api/health", token=rotated["token"]))[0] == 200
    assert (await api.ask("POST", "/api/agents/nobody/rotate"))[0] == 404


async def test_an_agents_token_manages_no_agents_and_approves_nothing(api: Api):
    _, made = await api.ask("POST", "/api/agents", {"name": "scout"})
    asked = [
        ("GET", "/api/agents", None),
        ("POST", "/api/agents", {"name": "other"}),
        ("POST", "/api/agents/scout/rotate", None),
        ("DELETE", "/api/agents/scout", None),
        ("POST", "/api/outgoing/out_1/approve", {"digest": MAIL.digest}),
        ("POST", "/api/sessions/agentmail-1/wake", None),
    ]
    assert [(await api.ask(*request, token=made["token"]))[0] for request in asked] == [403] * len(asked)


async def test_the_approver_sees_hidden_recipients_first_and_everything_it_says(api: Api):
    _, shown = await api.ask("GET", "/api/outgoing/out_1")
    keys = list(shown)
    assert keys.index("bcc") < keys.index("to") < keys.index("cc")
    assert shown["bcc"] == ["eve@example.org"]
    assert (shown["text"], shown["html"], shown["digest"], shown["boundary"]) == ("Dear Ada", None, MAIL.digest, "rule")
    assert shown["attachments"] == [{"filename": "a.txt", "size": 3}]
    assert (shown["created_at"], shown["expires_at"]) == ("2026-01-01T00:00:00.123Z", "2026-01-01T00:00:01.123Z")
    assert (await api.ask("GET", "/api/outgoing/out_2"))[0] == 404


async def test_outgoing_mail_is_listed_by_state_and_page(api: Api):
    _, listed = await api.ask("GET", "/api/outgoing?state=held,approved&limit=3&page_token=abc")
    assert (listed["count"], listed["next_page_token"]) == (1, "next")
    assert "text" not in listed["outgoing"][0]
    assert api.gate.calls == [((State.HELD, State.APPROVED), 3, "abc")]
    for query, path in (("state=lost", "state"), ("limit=x", "limit"), ("limit=-1", "limit"), ("limit=" + "9" * 400, "limit")):
        status, answer = await api.ask("GET", f"/api/outgoing?{query}")
        assert (status, answer["errors"][0]["path"]) == (400, [path])


async def test_approving_takes_the_digest_and_another_is_409(api: Api):
    _, done = await api.ask("POST", "/api/outgoing/out_1/approve", {"digest": MAIL.digest})
    assert (done["state"], done["decided_by"], done["decided_at"]) == ("sending", "owner", "2026-01-01T00:00:00.123Z")
    status, answer = await api.ask("POST", "/api/outgoing/out_1/approve", {"digest": "0" * 64})
    assert (status, answer["code"]) == (409, "digest_mismatch")
    assert (await api.ask("POST", "/api/outgoing/out_1/approve"))[0] == 400


async def test_refusing_takes_a_comment_or_none(api: Api):
    assert (await api.ask("POST", "/api/outgoing/out_1/refuse", {"comment": "no"}))[1]["comment"] == "no"
    assert (await api.ask("POST", "/api/outgoing/out_1/refuse"))[1]["state"] == "refused"


async def test_the_exact_bytes_are_there_to_see(api: Api):
    assert await api.ask("GET", "/api/outgoing/out_1/raw") == (200, b"Subject: Hello\r\n\r\n")


async def test_a_mails_history_is_read_by_its_id(api: Api):
    _, answer = await api.ask("GET", "/api/audit?outgoing=out_1")
    assert answer == {"entries": [{"at": "2026-01-01T00:00:00.123Z", "verb": "held", "actor": "scout"}]}
    assert (await api.ask("GET", "/api/audit"))[0] == 400


async def test_pending_notices_are_pulled_and_acknowledged(api: Api):
    _, answer = await api.ask("GET", "/api/sessions/agentmail-1/pending?ack=6")
    assert [notice["seq"] for notice in answer["notices"]] == [7]
    await api.ask("GET", "/api/sessions/agentmail-1/pending")
    assert api.sessions.acks == [6, None]
    assert (await api.ask("POST", "/api/sessions/agentmail-1/wake"))[1] == {"woken": True}
    assert (await api.ask("GET", "/api/sessions"))[1]["sessions"][0]["session_id"] == "agentmail-1"


async def test_health_says_what_the_gate_is_for_whoever_asks(api: Api):
    assert (await api.ask("GET", "/api/health"))[1] == {
        "status": "ok",
        "version": __version__,
        "accepting": True,
        "boundary": "rule",
        "boundary_reason": "uid None",
        "queues": {},
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api", 404),
        ("GET", "/api/", 404),
        ("GET", "/api/agents/", 404),
        ("GET", "/api/nothing", 404),
        ("DELETE", "/api/agents", 405),
        ("GET", "/api/agents/scout", 405),
        ("PUT", "/api/outgoing/out_1", 405),
        ("GET", "/api/outgoing/a%2Fb", 404),
    ],
)
async def test_unknown_paths_and_methods_are_answered_in_json(api: Api, method: str, path: str, status: int):
    got, answer = await api.ask(method, path)
    assert (got, set(answer) >= {"name", "message", "code"}) == (status, True)
