"""Outbound HTTP to addresses strangers name: one POST, its status, nothing else.

Goes only where `destination` lets it: to an address that was checked, under the name that was asked
for (Host, SNI and certificate). Redirects are not followed, proxies of the environment not used,
connections not kept for another request, and the body of the answer is not read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from postroom import __version__
from postroom.errors import TransportFailure
from postroom.wires.destination import Target, check_addresses, read_url

if TYPE_CHECKING:
    import httpx

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
_ADDRESSES_TRIED = 3


async def resolve(host: str, port: int) -> Sequence[str]:
    """The system's resolver. Raises `TransportFailure`."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.rstrip("."), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise TransportFailure("the host name cannot be resolved", kind="temporary") from None
    return tuple(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))


class Poster:
    """`exceptions` are `host:port` that may be private; `trust` replaces the certificate store."""

    def __init__(
        self, *, exceptions: Collection[str] = (), timeout_s: float, resolver: Resolver = resolve, trust: Any = True
    ) -> None:
        self._exceptions = frozenset(exceptions)
        self._timeout_s = timeout_s
        self._resolver = resolver
        self._trust = trust
        self._client: httpx.AsyncClient | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer, whatever it is. Raises `Invalid` for the URL, `TransportFailure` for the rest."""
        target = read_url(url, self._exceptions)
        try:
            async with asyncio.timeout(self._timeout_s):
                addresses = check_addresses(target, await self._resolver(target.host, target.port))
                return await self._post_to(target, addresses[:_ADDRESSES_TRIED], body, headers)
        except TimeoutError:
            raise TransportFailure(f"no answer within {self._timeout_s:g} s", kind="temporary") from None

    async def close(self) -> None:
        """Let go of what was opened on first use."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _post_to(self, target: Target, addresses: Sequence[str], body: bytes, headers: Mapping[str, str]) -> int:
        import httpx

        for left, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
            try:
                return await self._exchange(target, address, body, headers)
            except httpx.ConnectError as problem:
                if not left:
                    raise TransportFailure("cannot connect", kind="temporary", details={"why": type(problem).__name__}) from None
            except (httpx.HTTPError, ValueError) as problem:
                raise TransportFailure(f"the exchange failed ({type(problem).__name__})", kind="temporary") from None
        raise TransportFailure("cannot connect", kind="temporary")

    async def _exchange(self, target: Target, address: str, body: bytes, headers: Mapping[str, str]) -> int:
        client = self._opened()
        request = client.build_request(
            "POST",
            target.at(address),
            content=body,
            headers={**headers, "Host": target.authority},
            extensions={"sni_hostname": target.tls_name},
        )
        response = await client.send(request, stream=True)
        await response.aclose()
        return response.status_code

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            # A connection belongs to the name it was made for, and the pool knows addresses only: none is kept.
            transport = httpx.AsyncHTTPTransport(verify=self._trust, limits=httpx.Limits(max_keepalive_connections=0))
            self._client = httpx.AsyncClient(
                transport=transport,
                trust_env=False,
                follow_redirects=False,
                timeout=self._timeout_s,
                headers={"User-Agent": f"postroom/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"},
            )
        return self._client
