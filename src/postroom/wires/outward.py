"""One HTTP exchange with a host a caller named: where it goes is checked, what comes back is left to the caller.

The connection is made to an address `destination` looked at, under the name that was asked for (Host,
SNI and certificate). Redirects are not followed, proxies of the environment not used, connections not
kept for another request, and no compressed answer is asked for. `post` and `fetch` build on it.
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


class Outward:
    """`exceptions` are the `host:port` that may be private, as `setting` lists them; `trust` replaces the certificate store."""

    def __init__(
        self, *, exceptions: Collection[str], setting: str, resolver: Resolver = resolve, trust: Any = True, timeout_s: float
    ) -> None:
        self._exceptions = frozenset(exceptions)
        self._setting = setting
        self._resolver = resolver
        self._trust = trust
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None

    def target(self, url: str) -> Target:
        """The URL in parts. Raises `Invalid` for one no request may go to."""
        return read_url(url, self._exceptions, setting=self._setting)

    async def open(self, method: str, target: Target, headers: Mapping[str, str], body: bytes = b"") -> httpx.Response:
        """The answer's head, its body unread; the caller closes it. Raises `TransportFailure`."""
        import httpx

        addresses = check_addresses(target, await self._resolver(target.host, target.port))[:_ADDRESSES_TRIED]
        for left, address in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
            try:
                return await self._exchange(method, target, address, headers, body)
            except httpx.ConnectError as problem:
                if not left:
                    raise TransportFailure("cannot connect", kind="temporary", details={"why": type(problem).__name__}) from None
            except (httpx.HTTPError, ValueError) as problem:
                raise broken(problem) from None
        raise TransportFailure("cannot connect", kind="temporary")

    async def close(self) -> None:
        """Let go of what was opened on first use."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _exchange(
        self, method: str, target: Target, address: str, headers: Mapping[str, str], body: bytes
    ) -> httpx.Response:
        client = self._opened()
        request = client.build_request(
            method,
            target.at(address),
            content=body or None,
            headers={**headers, "Host": target.authority},
            extensions={"sni_hostname": target.tls_name},
        )
        return await client.send(request, stream=True)

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


def broken(problem: Exception) -> TransportFailure:
    """What a foreign error in the middle of an exchange means."""
    return TransportFailure(f"the exchange failed ({type(problem).__name__})", kind="temporary")
