"""`/health`: to anyone whether the house is well; with a token also where its mailbox lives and whether the log is whole."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from postroom import __version__
from postroom.errors import PostroomError, Unauthorized
from postroom.interfaces.http.errors import send_error, send_json
from postroom.mailbox.container import container_of, warning_for
from postroom.mailbox.room import Mailbox
from postroom.model.principal import Principal

_PEERS = 50


class HealthDoor:
    """`authenticate` is given the request's scope; it raises for a bad token."""

    def __init__(
        self,
        mailbox: Mailbox,
        *,
        home: Path,
        accepting: Callable[[], bool],
        streams: Callable[[], int],
        authenticate: Callable[[Scope], Awaitable[Principal]],
    ) -> None:
        self._mailbox = mailbox
        self._home = str(home)
        self._accepting = accepting
        self._streams = streams
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, PostroomError("this is read with GET", code="method_not_allowed"))
            return
        fine = self._accepting()
        report: dict[str, Any] = {"status": "ok" if fine else "degraded", "version": __version__}
        if any(name == b"authorization" for name, _ in scope["headers"]):
            with contextlib.suppress(Unauthorized):  # whoever shows no good token is told what anyone is
                report |= await self._detail(await self._authenticate(scope))
        await send_json(send, 200 if fine else 503, report)

    async def _detail(self, principal: Principal) -> dict[str, Any]:
        peers = await self._mailbox.peers(principal)
        return {
            "ready": self._accepting(),
            "home": self._home,
            "virtualized": container_of(self._home) is not None,
            "container": container_of(self._home),
            "warning": warning_for(self._home),
            "streams": self._streams(),
            "waiting": self._mailbox.bells.count,
            "peers": [{"name": peer.name, "live": peer.live, "unread": peer.unread} for peer in peers[:_PEERS]],
            "integrity": await self._mailbox.integrity.health(),
        }
