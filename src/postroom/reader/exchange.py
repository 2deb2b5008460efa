"""One GET of a provider's API: token, pinned transport, one retry, JSON; every failure as a `MAIL_…` error.

A 401 is answered by one new token and one more try; a request to wait is honoured once when it is short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

import msgspec

from postroom.errors import PostroomError
from postroom.reader import faults
from postroom.wires.pinned import Answer, HttpFailure, PinnedHttp

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _GONE, _TOO_MANY, _UNAVAILABLE = 200, 401, 403, 404, 410, 429, 503
_WAIT_S: Final = 10.0  # a longer wait is the caller's to decide
_GUESS_S: Final = 2.0
_LIMIT_REASONS: Final = ("rateLimitExceeded", "userRateLimitExceeded")


class TokenSource(Protocol):
    """Where tokens come from."""

    async def current(self) -> str: ...
    async def instead_of(self, refused: str) -> str: ...


class Exchange:
    """GETs of one account. `base` is the API's root from the endpoint table."""

    def __init__(
        self,
        *,
        provider: str,
        account: str,
        base: str,
        http: PinnedHttp,
        tokens: TokenSource,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._provider = provider
        self._account = account
        self._base = base
        self._http = http
        self._tokens = tokens
        self._sleep = sleep

    async def get(
        self,
        segments: tuple[str, ...],
        params: Mapping[str, str | list[str]],
        operation: str,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        """The JSON object at this path. Every segment is percent-encoded whole."""
        url = "/".join((self._base, *(quote(segment, safe="") for segment in segments)))
        if params:
            url += "?" + urlencode(params, doseq=True, quote_via=quote)
        answer = await self._tried(url, operation, headers or {})
        try:
            body: Mapping[str, Any] = msgspec.json.decode(answer.body, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise faults.response_invalid(self._provider, operation) from None
        return body

    async def _tried(self, url: str, operation: str, headers: Mapping[str, str]) -> Answer:
        token = await self._tokens.current()
        renewed = waited = False
        while True:
            answer = await self._once(url, token, operation, headers)
            if answer.status == _OK:
                return answer
            pause_s = _pause(answer)
            if answer.status == _UNAUTHORIZED and not renewed:
                renewed, token = True, await self._tokens.instead_of(token)
            elif pause_s is not None and pause_s <= _WAIT_S and not waited:
                waited = True
                await self._sleep(pause_s)
            else:
                raise self._failed(answer, operation, pause_s)

    async def _once(self, url: str, token: str, operation: str, headers: Mapping[str, str]) -> Answer:
        try:
            return await self._http.get(url, bearer=token, headers=headers)
        except HttpFailure as failure:
            raise faults.of_http(failure, self._provider, operation) from None

    def _failed(self, answer: Answer, operation: str, pause_s: float | None) -> PostroomError:
        if answer.status == _UNAUTHORIZED:
            return faults.oauth_failed(self._provider, operation, answer.status, account=self._account)
        if pause_s is not None:
            return faults.rate_limited(self._provider, operation, pause_s)
        if answer.status in (_NOT_FOUND, _GONE):
            return faults.not_found(self._provider, operation)
        return faults.http_failed(self._provider, operation, answer.status)


def _pause(answer: Answer) -> float | None:
    """How long the provider wants us to wait; None if that is not what it says."""
    limited = answer.status == _TOO_MANY or (answer.status == _FORBIDDEN and _is_rate_limit(answer.body))
    if not limited and not (answer.status == _UNAVAILABLE and "retry-after" in answer.headers):
        return None
    try:
        return max(0.0, float(answer.headers.get("retry-after", _GUESS_S)))
    except ValueError:  # a date (RFC 9110 §10.2.3): longer than we wait
        return _WAIT_S + 1


def _is_rate_limit(body: bytes) -> bool:
    return any(f'"{reason}"'.encode() in body[:4096] for reason in _LIMIT_REASONS)
