"""The HTTP origin: every door mounted on one application, behind the surface's guards."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from postroom.app.house import House, boundary_of
from postroom.app.lazy import Lazy
from postroom.app.waiting import Everything
from postroom.errors import NotFound
from postroom.gate.dialog import Dialog
from postroom.interfaces.a2a.app import A2ADoor
from postroom.interfaces.a2a.cards import CardDoor, agent_card, legacy_card
from postroom.interfaces.api.app import api_app
from postroom.interfaces.bridge.app import BridgeDoor
from postroom.interfaces.http.compose import build
from postroom.interfaces.http.download import Downloads
from postroom.interfaces.http.hosts import Names
from postroom.interfaces.http.server import Listener
from postroom.interfaces.http.surface import Surface, token_of
from postroom.interfaces.mailbox.app import mailbox_app
from postroom.interfaces.mailbox.health import HealthDoor
from postroom.interfaces.mailbox.log import log_routes
from postroom.interfaces.mcp.app import McpDoor, mcp_app
from postroom.interfaces.stream.mailbox import StreamDoor
from postroom.mailbox.notices import Notices
from postroom.model.principal import Principal
from postroom.tools.email import EmailTools
from postroom.tools.mailbox import MailboxTools
from postroom.tools.mailbox_commands import MailboxCommands
from postroom.tools.reader import ReaderTools
from postroom.tools.toolset import Joined


def email_tools(house: House) -> EmailTools:
    """The email tools over this house's rooms."""
    return EmailTools(
        house.mail,
        house.gate,
        house.config,
        redactor=house.redactor,
        clock=house.store.clock,
        opened=house.sessions.opened,
    )


def reader_tools(house: House) -> ReaderTools:
    """The tool over this house's reader."""
    return ReaderTools(house.reader, redactor=house.redactor)


def http_app(house: House, listener: Listener, mcp: McpDoor, socket: Lazy) -> ASGIApp:
    """The application of the whole origin."""
    mail, gate = house.mail, house.gate
    v0 = Lazy(lambda: email_api(house))
    sessions = Everything(house.sessions, Notices(house.mailbox))
    api = api_app(
        access=house.access,
        mail=mail,
        gate=gate,
        sessions=sessions,
        accepting=lambda: house.store.accepting,
        boundary=lambda principal: boundary_of(house.folder, principal),
        reading=reader_tools(house),
        hooks=None if house.hosted else mail,
        office=house.hosted.report if house.hosted else None,
        reload=house.reload,
    )
    streams = StreamDoor(house.mailbox, limit=house.config.mailbox.stream_limit)
    origin = build(
        {
            "v0": v0,
            "mcp": mcp,
            "api": api,
            "mailbox": mailbox_app(house.mailbox, *log_routes(house.mailbox)),
            "a2a": A2ADoor(house.mailbox, listener.origin),
            "bridge": bridge_door(house, sessions),
            "dl": Downloads(house.signer, mail),
        },
        accepting=lambda: house.store.accepting,
        exact={
            "/openapi.json": OpenApi(v0),
            "/stream": streams,
            "/health": health_door(house, streams),
            "/.well-known/agent-card.json": CardDoor(agent_card(listener.origin)),
            "/.well-known/agent.json": CardDoor(legacy_card(listener.origin)),
        },
        sockets={"/v0": socket},
    )
    return Surface(origin, access=house.access, names=Names(listener.host, listener.port))


def health_door(house: House, streams: StreamDoor) -> HealthDoor:
    """`/health`."""

    async def authenticate(scope: Scope) -> Principal:
        return await house.access.authenticate(token_of(scope))

    return HealthDoor(
        house.mailbox,
        home=house.folder,
        accepting=lambda: house.store.accepting,
        streams=lambda: streams.open,
        authenticate=authenticate,
    )


def bridge_door(house: House, sessions: Everything) -> BridgeDoor:
    """`/bridge`: harnesses that people run and connect."""
    dialog = Dialog(
        house.store,
        house.gate,
        mode=house.config.gate.harness_approvals,
        boundary=lambda principal: boundary_of(house.folder, principal),
    )
    email = email_tools(house)
    return BridgeDoor(
        host=house.bridge,
        sessions=sessions,
        tools=Joined([email, MailboxTools(house.mailbox), reader_tools(house)]),
        email=email,
        dialog=dialog,
        commands=MailboxCommands(house.mailbox),
        prefix=house.config.sessions.prefix,
    )


def email_api(house: House) -> Any:
    """`/v0`."""
    if house.hosted is not None:
        return Elsewhere(house.hosted.url)
    from postroom.interfaces.rest.app import v0_app

    return v0_app(
        mail=house.mail,
        gate=house.gate,
        access=house.access,
        signer=house.signer,
        clock=house.store.clock,
        domains=house.config.office.domains,
    )


def socket_door(house: House) -> Lazy:
    """The WebSocket at `/v0`."""

    async def authorize(scope: Scope) -> Principal:
        return await house.access.authenticate(token_of(scope))

    def make() -> Any:
        if house.hosted is not None:
            return Elsewhere(house.hosted.url)
        from postroom.interfaces.rest.frames import Frames
        from postroom.interfaces.stream.socket import SocketDoor

        return SocketDoor(house.store.events, house.mail, Frames(house.mail), authorize)

    return Lazy(make)


def mcp_door(house: House) -> McpDoor:
    """`/mcp` and a path for each set of tools; loads its protocol library on first use."""
    return mcp_app(email=email_tools(house), mailbox=MailboxTools(house.mailbox), reader=reader_tools(house))


class Elsewhere:
    """`/v0` and its WebSocket where the email is at a hosted office: they say so, and where."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise self._answer()

    def openapi(self) -> Any:
        """There is no document of it here either."""
        raise self._answer()

    async def close(self) -> None:
        """Nothing was opened."""

    def _answer(self) -> NotFound:
        return NotFound(
            f"this post room uses the hosted office at {self._url}; its email API is there",
            code="hosted_office",
            fix="agents use /mcp here, under the owner's rules; programs with a key of that office ask it directly",
        )


class OpenApi:
    """`/openapi.json`: what `/v0` offers, made on first use."""

    def __init__(self, v0: Lazy) -> None:
        self._v0 = v0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import JSONResponse

        await JSONResponse((await self._v0.app()).openapi())(scope, receive, send)
