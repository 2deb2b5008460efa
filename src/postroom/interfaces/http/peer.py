"""Who, in the operating system's eyes, is at the other end of a loopback connection.

Linux knows the user that owns a TCP socket, and tells it of one socket when asked by its two ends
(the kernel's socket diagnosis, `sock_diag(7)`), or in a table of all of them, which takes ten
milliseconds to read. The entry whose local end is our peer's address is the caller's. Anywhere else,
and for callers from other machines, the answer is None.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from pathlib import Path
from typing import Final

Address = tuple[str, int]
_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_UID = 4  # columns of the kernel's table between the two ends and the user's number

_SOCK_DIAG: Final = 4  # of netlink's families
_BY_FAMILY: Final = 20  # the one question: and the type of its answer
_REQUEST: Final = 1
_HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, number, port
_QUESTION: Final = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_ENDS: Final = struct.Struct("!HH16s16s")  # ports and addresses of the socket asked about
_ANY_COOKIE: Final = bytes(4) + b"\xff" * 8  # any interface, any cookie
_UID_AT: Final = _HEADER.size + 4 + _ENDS.size + len(_ANY_COOKIE) + 12
_ANSWER_BYTES: Final = 4096
_WAIT_S: Final = 0.1  # the kernel answers at once or not at all


def peer_uid(client: Address | None, server: Address | None) -> int | None:
    """The uid that owns the client's end of the connection between two addresses of this machine."""
    if client is None or server is None or not _is_loopback(client[0]):
        return None
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    try:
        return _asked(family, client, server)
    except OSError:
        return _looked_up(family, client, server)


def _asked(family: socket.AddressFamily, client: Address, server: Address) -> int | None:
    """By the kernel's own look-up. Raises OSError where there is none, or it knows no such socket."""
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("no netlink here")
    addresses = [socket.inet_pton(family, each[0]).ljust(16, b"\0") for each in (client, server)]
    ends = _ENDS.pack(client[1], server[1], *addresses) + _ANY_COOKIE
    body = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.settimeout(_WAIT_S)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 0, 0) + body)
        answer = kernel.recv(_ANSWER_BYTES)
    if len(answer) < _UID_AT + 4 or _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        raise OSError("the kernel knows no such socket")
    uid: int = struct.unpack_from("=I", answer, _UID_AT)[0]
    return uid


def _looked_up(family: socket.AddressFamily, client: Address, server: Address) -> int | None:
    try:
        table = _TABLES[family].read_bytes()
        ends = b" %b %b " % (_entry(family, client), _entry(family, server))
    except OSError:
        return None
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
