"""DNS: the one resolver of the house, on dnspython, with a cache of its own.

It answers for whoever asks with plain values, and tells nothing there from no answer: the first is an
empty tuple, the second a `TransportFailure`. How many questions one mail may cost is its asker's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias

from postroom.errors import TransportFailure

Kind: TypeAlias = Literal["A", "AAAA", "MX", "PTR", "TXT"]
Answer: TypeAlias = "str | bytes | tuple[int, str]"

QUESTION_S: Final = 5.0
CACHED: Final = 4096
SHORTEST_S: Final = 5.0
LONGEST_S: Final = 3600.0
NOTHING_S: Final = 60.0


class Lookup(Protocol):
    """Answers DNS questions: text of TXT as bytes, MX as (preference, name), the others as text; () when there is nothing."""

    async def lookup(self, name: str, kind: Kind) -> tuple[Answer, ...]: ...


class Resolver:
    """Asks the system's name servers, or the one at `server` (`HOST:PORT`)."""

    def __init__(self, server: str = "system", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._clock = clock
        self._resolver: Any = None
        self._cache: dict[tuple[str, Kind], tuple[float, tuple[Answer, ...]]] = {}

    async def lookup(self, name: str, kind: Kind) -> tuple[Answer, ...]:
        """The answers, from the cache where they are fresh. Raises `TransportFailure` when nobody answers."""
        asked = (name.lower().rstrip("."), kind)
        known = self._cache.get(asked)
        if known is not None and known[0] > self._clock():
            return known[1]
        answers, lasts = await self._ask(asked[0], kind)
        if len(self._cache) >= CACHED:
            self._cache.clear()
        self._cache[asked] = (self._clock() + lasts, answers)
        return answers

    async def _ask(self, name: str, kind: Kind) -> tuple[tuple[Answer, ...], float]:
        import dns.exception
        import dns.resolver

        try:
            found = await self._client().resolve(name, kind, raise_on_no_answer=False, lifetime=QUESTION_S, search=False)
        except dns.resolver.NXDOMAIN:
            return (), NOTHING_S
        except (dns.exception.DNSException, OSError, UnicodeError) as problem:
            raise TransportFailure("DNS did not answer", kind="temporary", code="dns_failure") from problem
        records = found.rrset or ()
        lasts = min(max(float(found.rrset.ttl), SHORTEST_S), LONGEST_S) if found.rrset else NOTHING_S
        return tuple(_plain(record, kind) for record in records), lasts

    def _client(self) -> Any:
        if self._resolver is None:
            import dns.asyncresolver

            self._resolver = dns.asyncresolver.Resolver(configure=self._server == "system")
            if self._server != "system":
                host, _, port = self._server.rpartition(":")
                self._resolver.nameservers = [host.strip("[]")]
                self._resolver.port = int(port)
        return self._resolver


def _plain(record: Any, kind: Kind) -> Answer:
    if kind == "TXT":
        return b"".join(record.strings)
    if kind == "MX":
        return int(record.preference), str(record.exchange.to_text(omit_final_dot=True))
    return str(record.target.to_text(omit_final_dot=True)) if kind == "PTR" else str(record.address)
