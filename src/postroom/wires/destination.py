"""Where an outbound HTTP request may go: URLs from callers, and the addresses behind their names.

A URL is taken apart once, here, and the request is built from the parts, so no second parser can
read another host into it. A name is resolved once and every address is looked at: one that is not
on the public internet refuses all of them, and the connection is made to an address that was looked
at (a name that changes its answer in between gains nothing). The owner may name exceptions, each as
`host:port`; plain `http` is for such exceptions on loopback only.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from postroom.errors import Invalid, TransportFailure

URL_CHARS: Final = 2048
WEBHOOK_HOSTS: Final = "office.webhook_hosts"  # where the exceptions for webhooks and for attachments stand
ATTACHMENT_HOSTS: Final = "office.attachment_hosts"
_PORTS: Final = {"https": 443, "http": 80}
_PLAIN: Final = re.compile(r"[!-\[\]-~]+")  # printable ASCII without space and backslash
_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IANA's special-purpose registries: what is not a host on the public internet (RFC 6890 and later).
_NOT_PUBLIC_4: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    ipaddress.IPv6Network(block) for block in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)  # the first and third carry IPv4 addresses inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL in parts. `excepted`: its host and port are among the owner's exceptions, which stand in `setting`."""

    scheme: str
    host: str
    port: int
    path: str
    excepted: bool
    setting: str

    @property
    def authority(self) -> str:
        """The Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def tls_name(self) -> str:
        """The name its certificate must have."""
        return self.host.rstrip(".")

    def at(self, address: str) -> str:
        """The URL with an address for its host."""
        return f"{self.scheme}://{f'[{address}]' if ':' in address else address}:{self.port}{self.path}"


def read_url(url: str, exceptions: Collection[str] = (), *, setting: str = WEBHOOK_HOSTS) -> Target:
    """Take a URL apart. Raises `Invalid` for one no request may go to, whatever its name resolves to."""
    if len(url) > URL_CHARS or not _PLAIN.fullmatch(url):
        raise _refused(f"a URL is 1 to {URL_CHARS} printable ASCII characters", "write other characters percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise _refused("that is no URL with a host and a port") from None
    if parts.scheme not in _PORTS:
        raise _refused("the URL must begin with https://")
    if "@" in parts.netloc:
        raise _refused("a URL with a user part is not taken", "use a custom header for credentials")
    if port == 0 or not (_NAME.fullmatch(host.removesuffix(".")) or _is_literal_6(host)):
        raise _refused("that is no host name or address", "write an international name in its ASCII form (xn--…)")
    target = Target(
        scheme=parts.scheme,
        host=host,
        port=port or _PORTS[parts.scheme],
        path=f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}",
        excepted=f"{f'[{host}]' if ':' in host else host}:{port or _PORTS[parts.scheme]}" in exceptions,
        setting=setting,
    )
    _check_name(target)
    return target


def check_addresses(target: Target, addresses: Sequence[str]) -> tuple[str, ...]:
    """The addresses, if the request may go to every one. Raises `TransportFailure`."""
    found = [_parsed(address) for address in addresses]
    if not found:
        raise TransportFailure("the host name has no address", kind="temporary")
    if target.excepted and target.scheme == "http" and not all(one.is_loopback for one in found):
        raise TransportFailure("http is for loopback only", kind="permanent", fix="use https")
    if not target.excepted and not all(is_public(one) for one in found):
        raise TransportFailure(
            "the host name leads to an address that is not public", kind="permanent", fix=f"see {target.setting} in the config"
        )
    return tuple(str(one) for one in found)


def is_public(address: Address) -> bool:
    """Is it a host on the public internet? An IPv4 address in IPv6 clothing is judged as what it is."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in block for block in _NOT_PUBLIC_4)
    return address in _GLOBAL_6 and not any(address in block for block in _NOT_PUBLIC_6)


def _check_name(target: Target) -> None:
    if target.excepted:
        return
    if target.scheme == "http":
        raise _refused("the URL must begin with https://", f"http is for hosts on loopback named in {target.setting}")
    name = target.tls_name
    literal = _literal(name)
    if name == "localhost" or name.endswith(".localhost") or (literal is not None and not is_public(literal)):
        raise _refused("the URL leads to an address that is not public", f"name its host and port in {target.setting}")


def _literal(name: str) -> Address | None:
    """The address a name spells, in any of the ways the resolver would read one (`0x7f.1`, `2130706433`)."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except OSError:
        return None


def _is_literal_6(host: str) -> bool:
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _parsed(address: str) -> Address:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        raise TransportFailure("the resolver's answer is no address", kind="temporary") from None


def _refused(message: str, fix: str | None = None) -> Invalid:
    return Invalid(message, fix=fix, errors=[{"path": ["url"], "message": message, "code": "invalid_url"}])
