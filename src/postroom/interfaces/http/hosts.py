"""Which Host and Origin values are ours: exact lists, so a rebound name or a foreign page gets nothing.

Host names are compared without regard to case (RFC 9110 §4.2.3) and otherwise as they stand: no
user part, no trailing dot, no other port.
"""

from __future__ import annotations

from postroom.errors import Forbidden, Invalid

ODD_HOST = "invalid_host"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WILDCARDS = frozenset({"0.0.0.0", "[::]"})
_HTTP_PORT = 80


def bracketed(host: str) -> str:
    """An IPv6 literal in brackets, anything else as it is."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class Names:
    """The names of one listening address."""

    def __init__(self, host: str, port: int) -> None:
        listen = bracketed(host.lower())
        names = {*_LOOPBACK, listen} - _WILDCARDS
        hosts = {f"{name}:{port}" for name in names} | (names if port == _HTTP_PORT else set())
        self._hosts = frozenset(name.encode() for name in hosts)
        self._origins = frozenset(b"http://" + name for name in self._hosts)
        self._wild = listen in _WILDCARDS

    def check(self, headers: list[tuple[bytes, bytes]], arrived_at: tuple[str, int | None] | None) -> None:
        """Raise `Invalid` without exactly one Host of ours, `Forbidden` for an Origin that is not.

        `arrived_at` is the local end of the connection: who listens on every interface answers to
        the literal address a request came to (a literal cannot be rebound).
        """
        hosts = [value for name, value in headers if name == b"host"]
        own = self._own(arrived_at)
        if len(hosts) != 1 or not (hosts[0].lower() in self._hosts or hosts[0].lower() == own):
            raise _odd_host()
        for name, value in headers:
            if name == b"origin" and value not in self._origins and (own is None or value != b"http://" + own):
                raise Forbidden("requests from pages of other origins are not answered", code="forbidden_origin")

    def _own(self, arrived_at: tuple[str, int | None] | None) -> bytes | None:
        if not self._wild or arrived_at is None:
            return None
        return f"{bracketed(arrived_at[0])}:{arrived_at[1]}".encode()


def _odd_host() -> Invalid:
    return Invalid(
        "the Host header is missing or does not name this service",
        code=ODD_HOST,
        fix="use one of the addresses the service printed when it was ready",
        errors=[{"path": ["host"], "message": "not one of this service's names", "code": ODD_HOST}],
    )
