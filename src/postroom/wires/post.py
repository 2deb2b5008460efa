"""Outbound HTTP to addresses strangers name: one POST, its status, nothing else.

Goes only where `destination` lets it, as `outward` says; the body of the answer is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from postroom.errors import TransportFailure
from postroom.wires.destination import WEBHOOK_HOSTS
from postroom.wires.outward import Outward, Resolver, resolve


class Poster:
    """`exceptions` are `host:port` that may be private; `trust` replaces the certificate store."""

    def __init__(
        self, *, exceptions: Collection[str] = (), timeout_s: float, resolver: Resolver = resolve, trust: Any = True
    ) -> None:
        self._timeout_s = timeout_s
        self._outward = Outward(exceptions=exceptions, setting=WEBHOOK_HOSTS, resolver=resolver, trust=trust, timeout_s=timeout_s)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer, whatever it is. Raises `Invalid` for the URL, `TransportFailure` for the rest."""
        target = self._outward.target(url)
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._outward.open("POST", target, headers, body)
                await response.aclose()
        except TimeoutError:
            raise TransportFailure(f"no answer within {self._timeout_s:g} s", kind="temporary") from None
        return response.status_code

    async def close(self) -> None:
        """Let go of what was opened on first use."""
        await self._outward.close()
