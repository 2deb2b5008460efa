"""Who, in the operating system's eyes, is at the other end of a loopback connection.

Linux lists every TCP socket with the user that owns it; the entry whose local end is our peer's
address is the caller's. Anywhere else, and for callers from other machines, the answer is None.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from pathlib import Path

Address = tuple[str, int]
_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_UID = 4  # columns of the kernel's table between the two ends and the user's number


def peer_uid(client: Address | None, server: Address | None) -> int | None:
    """The uid that owns the client's end of the connection between two addresses of this machine."""
    if client is None or server is None or not _is_loopback(client[0]):
        return None
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    try:
        table = _TABLES[family].read_bytes()
    except OSError:
        return None
    ends = b" %b %b " % (_entry(family, client), _entry(family, server))
    _, found, rest = table.partition(ends)  # thousands of rows on a busy machine: none is taken apart but ours
    return int(rest.split(maxsplit=_UID + 1)[_UID]) if found else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _entry(family: socket.AddressFamily, address: Address) -> bytes:
    """`address` as the kernel prints it: each 32-bit word in the machine's byte order."""
    packed = socket.inet_pton(family, address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return ("".join(f"{word:08X}" for word in words) + f":{address[1]:04X}").encode()
