"""Outbound HTTP to a link a service handed out: one GET without a credential, its body up to a bound.

Goes only where `destination` lets it, as `outward` says: https to a public address that was checked, or the
`host:port` of the service its owner named. Redirects are not followed, nothing is uncompressed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from postroom.errors import TooLarge, TransportFailure
from postroom.wires.outward import Outward, Resolver, broken, resolve


class Downloader:
    """`service` is the `host:port` that may be private, the one `setting` names."""

    def __init__(self, *, service: str, setting: str, timeout_s: float, max_bytes: int, resolver: Resolver = resolve) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._outward = Outward(exceptions=(service,), setting=setting, resolver=resolver, timeout_s=timeout_s)

    async def get(self, url: str) -> bytes:
        """What is there. Raises `Invalid` for the URL, `TooLarge`, `TransportFailure` for the rest."""
        target = self._outward.target(url)
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._outward.open("GET", target, {})
        except TimeoutError:
            raise self._late() from None
        try:
            if response.status_code != 200 or response.headers.get("content-encoding", "identity") != "identity":
                raise TransportFailure(f"the download was answered with {response.status_code}", kind="temporary")
            async with asyncio.timeout(self._timeout_s):
                return await self._body(response.aiter_raw())
        except TimeoutError:
            raise self._late() from None
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Let go of what was opened on first use."""
        await self._outward.close()

    async def _body(self, chunks: AsyncIterator[bytes]) -> bytes:
        import httpx

        body = bytearray()
        try:
            async for chunk in chunks:
                body += chunk
                if len(body) > self._max_bytes:
                    raise TooLarge(f"the download has more than {self._max_bytes} bytes")
        except httpx.HTTPError as problem:
            raise broken(problem) from None
        return bytes(body)

    def _late(self) -> TransportFailure:
        return TransportFailure(f"the download took more than {self._timeout_s:g} s", kind="temporary")
