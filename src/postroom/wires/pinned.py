"""Outbound HTTPS to a short fixed list of origins, and nowhere else.

Promises, each kept before a socket is opened: a URL whose parsed origin is not on the list is refused,
whoever supplied it (user names, ports, other schemes, a trailing dot and look-alikes are other origins);
the method is GET, but for the few whole URLs that take a form by POST (OAuth); a redirect is never
followed; the credential is attached after the check. The answer is read up to a bound and not beyond,
uncompressed, within one deadline. No proxy, cookie or setting of the environment plays a part.

httpx is loaded by the first `PinnedHttp`, so that a house without such accounts never pays for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from postroom import __version__

if TYPE_CHECKING:
    import httpx

_CONNECTIONS = 16
_URL_CHARS = 16_384

Reason = Literal["forbidden", "redirect", "too_large", "encoding", "timeout", "connection"]


class HttpFailure(Exception):
    """No usable answer, and why. Carries no text of the peer's and no part of the URL."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """`origins` (`scheme://host`) may be asked by GET; `posts` are the whole URLs that take a form."""

    origins: frozenset[str]
    posts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status, headers with lower-case names, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def origin_of(url: str) -> str | None:
    """`scheme://authority` exactly as written, or None for what is not plainly a URL with a path."""
    import httpx

    if len(url) > _URL_CHARS or not url.isascii() or any(char <= " " or char in "\\#\x7f" for char in url):
        return None
    try:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        seen = httpx.URL(url)  # the parser that decides where the socket goes must agree with ours
        agrees = f"{seen.scheme}://{seen.netloc.decode('ascii')}" == origin and not seen.userinfo
    except (ValueError, httpx.InvalidURL):
        return None
    return origin if agrees and url.startswith(f"{origin}/") else None


class PinnedHttp:
    """The only way out of the reader over HTTP. `close` ends its connections."""

    def __init__(self, allowed: Allowed, *, max_bytes: int, timeout_s: float) -> None:
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx

        self._allowed = allowed
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(
            headers={"User-Agent": f"postroom/{__version__}", "Accept": "application/json", "Accept-Encoding": "identity"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            trust_env=False,
            timeout=timeout_s,
            limits=httpx.Limits(max_connections=_CONNECTIONS),
        )

    async def get(self, url: str, *, bearer: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET from a listed origin. Raises `HttpFailure`."""
        if origin_of(url) not in self._allowed.origins:
            raise HttpFailure("forbidden")
        return await self._exchange("GET", url, {**(headers or {}), "Authorization": f"Bearer {bearer}"}, None)

    async def post_form(self, url: str, form: Mapping[str, str]) -> Answer:
        """POST a form to one of the listed URLs. Raises `HttpFailure`."""
        if url not in self._allowed.posts or origin_of(url) is None:
            raise HttpFailure("forbidden")
        return await self._exchange("POST", url, {}, form)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._client.aclose()

    async def _exchange(self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None) -> Answer:
        import httpx

        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream(method, url, headers=dict(headers), data=dict(form) if form else None) as response,
            ):
                if response.is_redirect:
                    raise HttpFailure("redirect")
                return Answer(status=response.status_code, headers=dict(response.headers), body=await self._body(response))
        except (TimeoutError, httpx.TimeoutException):
            raise HttpFailure("timeout") from None
        except httpx.HTTPError:
            raise HttpFailure("connection") from None

    async def _body(self, response: httpx.Response) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise HttpFailure("encoding")  # it was not asked for, and could unfold to any size
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._max_bytes:
                raise HttpFailure("too_large")
        return bytes(body)
