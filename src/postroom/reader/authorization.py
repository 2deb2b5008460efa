"""One authorization from start to end: the person's browser or device on one side, the code's exchange on the other.

At most one runs per account; starting anew stops the one before. It ends as authorized, or as failed with
the error that says why, and in every case its listener is closed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import structlog

from postroom.errors import PostroomError
from postroom.reader import faults
from postroom.reader.grants import Grant
from postroom.reader.loopback import Loopback
from postroom.reader.oauth import Access, Device, OAuth, new_pkce

Keep: TypeAlias = Callable[[Grant, Access], Awaitable[None]]
_SLOWER_S = 5.0  # RFC 8628 §3.5
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What the person is to do: open `url`, and type `user_code` there if there is one."""

    url: str
    user_code: str = ""


@dataclass(slots=True, kw_only=True)
class Authorization:
    """A running or ended authorization."""

    state: Literal["pending", "authorized", "failed"] = "pending"
    problem: PostroomError | None = None
    prompt: asyncio.Future[Prompt] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Flow:
    """Runs one authorization of one account."""

    def __init__(self, oauth: OAuth, keep: Keep, *, provider: str, account: str, timeout_s: float) -> None:
        self._oauth = oauth
        self._keep = keep
        self._provider = provider
        self._account = account
        self._timeout_s = timeout_s

    def start(self, *, device: bool) -> Authorization:
        """Begin; `prompt` is set as soon as the person can act."""
        running = Authorization()
        running.task = asyncio.create_task(self._run(running, device=device), name=f"authorize-{self._account}")
        return running

    async def _run(self, running: Authorization, *, device: bool) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                grant, access = await (self._by_device(running) if device else self._by_browser(running))
            await self._keep(grant, access)
            running.state = "authorized"
        except asyncio.CancelledError:
            self._fail(running, faults.aborted(self._provider))
            raise
        except TimeoutError:
            self._fail(running, faults.oauth_timeout(self._provider))
        except PostroomError as problem:
            self._fail(running, problem)
        except Exception as problem:  # noqa: BLE001 - it must end, and be told as ended
            log.error("authorization_failed", account=self._account, kind=type(problem).__name__)  # noqa: TRY400 - a traceback could show a token
            self._fail(running, faults.oauth_failed(self._provider, "authorization", account=self._account))
        finally:
            running.ended.set()

    def _fail(self, running: Authorization, problem: PostroomError) -> None:
        running.state, running.problem = "failed", problem
        if not running.prompt.done():
            running.prompt.set_exception(problem)
            running.prompt.exception()  # whoever asks is told; nobody has to

    async def _by_browser(self, running: Authorization) -> tuple[Grant, Access]:
        state, pkce = secrets.token_urlsafe(32), new_pkce()
        async with Loopback(state) as listener:
            # Microsoft matches `localhost` registrations without the port, Google the address.
            redirect_uri = f"http://{'localhost' if self._provider == 'outlook' else '127.0.0.1'}:{listener.port}"
            running.prompt.set_result(Prompt(url=self._oauth.authorize_url(redirect_uri, state, pkce.challenge)))
            given = await listener.redirected()
        if given is None or "error" in given or not given.get("code"):
            raise faults.oauth_failed(self._provider, "authorization", account=self._account)
        return await self._oauth.exchange(given["code"], pkce.verifier, redirect_uri)

    async def _by_device(self, running: Authorization) -> tuple[Grant, Access]:
        device = await self._oauth.start_device()
        running.prompt.set_result(Prompt(url=device.verification_uri, user_code=device.user_code))
        async with asyncio.timeout(device.expires_s):
            return await self._polled(device)

    async def _polled(self, device: Device) -> tuple[Grant, Access]:
        interval_s = device.interval_s
        while True:
            await asyncio.sleep(interval_s)
            found = await self._oauth.poll_device(device)
            if not isinstance(found, str):
                return found
            interval_s += _SLOWER_S if found == "slow_down" else 0
