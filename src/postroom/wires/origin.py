"""Outbound HTTP to one service its owner named, with the key that belongs to it.

Every request goes to that origin and no other: the path is joined to it, a redirect is not followed, and no
proxy, cookie or setting of the environment plays a part. The answer is read up to a bound and not beyond,
uncompressed, within one deadline. Whether to ask again is the caller's business: a failure says whether the
service may have heard the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from postroom import __version__

if TYPE_CHECKING:
    import httpx

_CONNECTIONS = 16


class Unanswered(Exception):
    """No usable answer. `heard`: the service may have acted on the request. Carries no text of the peer's."""

    def __init__(self, why: str, *, heard: bool) -> None:
        super().__init__(why)
        self.why = why
        self.heard = heard


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Status, headers with lower-case names, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Origin:
    """`url` is `scheme://host[:port]`; `bearer` goes with every request."""

    def __init__(self, url: str, bearer: str, *, timeout_s: float, max_bytes: int) -> None:
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx

        self._url = url
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._client = httpx.AsyncClient(
            headers={
                "Authorization": f"Bearer {bearer}",
                "User-Agent": f"postroom/{__version__}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            trust_env=False,
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=_CONNECTIONS),
        )

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One exchange; `path` begins with a slash and is percent-encoded. Raises `Unanswered`."""
        import httpx

        given = {**(headers or {}), **({} if body is None else {"Content-Type": "application/json"})}
        url = httpx.URL(f"{self._url}{path}", params=dict(query) if query else None)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(method, url, content=body, headers=given) as response,
            ):
                return Reply(status=response.status_code, headers=dict(response.headers), body=await self._body(response))
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise Unanswered("cannot connect", heard=False) from None
        except (TimeoutError, httpx.TimeoutException):
            raise Unanswered(f"no answer within {self._timeout_s:g} s", heard=True) from None
        except httpx.HTTPError as problem:
            raise Unanswered(f"the exchange broke off ({type(problem).__name__})", heard=True) from None

    async def close(self) -> None:
        """Let go of every connection."""
        await self._client.aclose()

    async def _body(self, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Unanswered("the answer is compressed, which was not asked for", heard=True)
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._max_bytes:
                raise Unanswered(f"the answer has more than {self._max_bytes} bytes", heard=True)
        return bytes(body)
