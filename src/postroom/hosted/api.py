"""One call of the AgentMail API: asked again where that helps, its answer checked, its errors made ours.

Retries live here and nowhere else: on 408, 429, 5xx, broken connections and answers that are no JSON object, after
a pause that doubles with jitter, or as long as `Retry-After` says. Every call may be repeated: whatever makes
something carries a client id or an idempotency key.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

import structlog

from postroom.errors import (
    Busy,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PostroomError,
    Refused,
    TooLarge,
    TransportFailure,
)
from postroom.safety.unicode import one_line
from postroom.wires.download import Downloader
from postroom.wires.origin import Origin, Reply, Unanswered

PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0
_SAID_CHARS: Final = 200
_CODE_CHARS: Final = 64
_FORBIDDEN: Final = frozenset({"already_exists", "resource_taken", "limit_exceeded"})

T = TypeVar("T")
Json: TypeAlias = dict[str, Any]
Pause: TypeAlias = Callable[[float], Awaitable[None]]
log = structlog.get_logger("postroom.hosted")


class Unexpected(TransportFailure):
    """The answer is not what the contract says."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the hosted office does not keep to its contract: {what}", kind="temporary", fix="try again later")


class _Passing(Exception):
    """A failure that may be gone when asked again, and when that is worth it."""

    def __init__(self, problem: PostroomError, retry_after_s: float | None = None) -> None:
        super().__init__()
        self.problem = problem
        self.retry_after_s = retry_after_s


class Api:
    """`call` it, `download` what it links to. `pause` waits between two attempts."""

    def __init__(self, origin: Origin, downloader: Downloader, *, max_retries: int, pause: Pause = asyncio.sleep) -> None:
        self._origin = origin
        self._downloader = downloader
        self._max_retries = max_retries
        self._pause = pause

    async def call(
        self, method: str, *path: str, query: Mapping[str, str] | None = None, body: Json | None = None, key: str | None = None
    ) -> Json:
        """The JSON object answered, {} for none. `path` are segments as they are; `key` makes a send happen once.

        Raises what the service's status means: `Invalid`, `NotFound`, `Forbidden`, `Refused`, `Conflict`, `Busy`,
        and `TransportFailure` when it could not be asked or does not keep to its contract.
        """
        where = "/v0/" + "/".join(_segment(part) for part in path)
        content = None if body is None else json.dumps(body).encode()
        headers = {"Idempotency-Key": key} if key else {}

        async def ask() -> Json:
            try:
                reply = await self._origin.ask(method, where, query=query, body=content, headers=headers)
            except Unanswered as broken:
                raise _Passing(_unreached(broken)) from None
            if reply.status in (408, 429) or reply.status >= 500:
                raise _Passing(_failure(reply), _retry_after(reply))
            return _object(reply)

        return await self._repeated(ask)

    async def download(self, said: Json) -> bytes:
        """What an answer's `download_url` leads to. Raises `TransportFailure`, `TooLarge`."""
        url = said.get("download_url")

        async def fetch() -> bytes:
            try:
                return await self._downloader.get(url if isinstance(url, str) else "")
            except Invalid:
                raise Unexpected("download_url leads where nothing is fetched from") from None
            except TransportFailure as broken:
                raise _Passing(broken) from None

        return await self._repeated(fetch)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._origin.close()
        await self._downloader.close()

    async def _repeated(self, once: Callable[[], Awaitable[T]]) -> T:
        """`once` until it answers, or has failed one time more than there are retries."""
        attempt = 0
        while True:
            try:
                return await once()
            except _Passing as passing:
                problem, wait_s = passing.problem, passing.retry_after_s
            attempt += 1
            if attempt > self._max_retries:
                raise problem
            log.info("hosted_retry", attempt=attempt, code=problem.code)
            await self._pause(_wait(attempt, wait_s))


def _segment(text: str) -> str:
    """A path segment that no client or server takes for another one."""
    return quote(text, safe="").replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def _wait(attempt: int, retry_after_s: float | None) -> float:
    if retry_after_s is not None:
        return min(PAUSE_MAX_S, retry_after_s)
    doubled: float = PAUSE_S * 2.0 ** (attempt - 1)
    return min(PAUSE_MAX_S, doubled * random.uniform(1.0, 1.25))  # noqa: S311 - spreads clients, keeps no secret


def _retry_after(reply: Reply) -> float | None:
    value = reply.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < 8 else None


def _object(reply: Reply) -> Json:
    if 300 <= reply.status < 400:
        raise TransportFailure("the hosted office redirects", kind="permanent", fix="set office.url to where it leads")
    if reply.status >= 400:
        raise _failure(reply)
    if not reply.body:
        return {}
    found = _parsed(reply.body)
    if not isinstance(found, dict):
        raise _Passing(Unexpected("the answer is no JSON object"))
    return found


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _unreached(broken: Unanswered) -> TransportFailure:
    return TransportFailure(f"the hosted office cannot be asked: {broken.why}", kind="temporary", fix="try again later")


def _failure(reply: Reply) -> PostroomError:
    said = _parsed(reply.body)
    said = said if isinstance(said, dict) else {}
    code = said["code"] if isinstance(said.get("code"), str) and said["code"].isidentifier() else ""
    return _error(reply.status, code[:_CODE_CHARS], _quoted(said.get("message")), _retry_after(reply) or PAUSE_S)


def _error(status: int, code: str, said: str, retry_after_s: float) -> PostroomError:
    told = f"the hosted office answered {status}{f' {code}' if code else ''}{said}"
    match status:
        case 400 | 422:
            return Invalid(told, code="unprocessable" if status == 422 else None)
        case 401:
            return TransportFailure(
                "the hosted office does not accept the key", kind="temporary", fix="check what office.key refers to"
            )
        case 403 if code in _FORBIDDEN:
            return Forbidden(told, code=code)
        case 403 if code in ("message_rejected", "held_for_approval"):
            return Refused(told, code=code)
        case 403:
            return Forbidden(told)
        case 404:
            return NotFound("Not found in the hosted office", fix="list what there is and use its ids")
        case 409:
            return Conflict(told)
        case 413:
            return TooLarge(told)
        case 429:
            return Busy("the hosted office asks to wait", retry_after_s=min(PAUSE_MAX_S, retry_after_s))
        case _ if status < 500 and status != 408:
            return TransportFailure(told, kind="permanent")
        case _:
            return TransportFailure(told, kind="temporary", fix="try again later")


def _quoted(text: Any) -> str:
    """What the service says, as a quotation: its words are not ours."""
    if not isinstance(text, str) or not text.strip():
        return ""
    shown = one_line(text, _SAID_CHARS).replace('"', "'")
    return f': "{shown}"'
