"""Connections to anywhere but this machine are not made, and are told: in the tests' process and in its Python children.

(In Node children `egress_watch.cjs` does the same; a program that is neither is only watched where a test says so.)
Children get this by `sitecustomize` beside it, on the path `conftest` gives them. What they try is a line in
the file named by FILE. An audit hook sees Python's own sockets; uvloop's never pass there, so its ways out
are wrapped as soon as it is loaded. Only the standard library is used.
"""

import contextlib
import functools
import ipaddress
import os
import sys
from pathlib import Path

FILE = "TESTS_ELSEWHERE"  # of the environment; tests take out what begins with POSTROOM_
_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_LOOP_VERBS = {"create_connection": 1, "create_datagram_endpoint": None, "sock_connect": 1, "sock_sendto": 2}


def node_environment():
    """What a Node with an environment of its own must be given to be watched too."""
    return {name: os.environ[name] for name in (FILE, "NODE_OPTIONS") if name in os.environ}


def is_here(host):
    """Is this name or address this machine?"""
    try:
        return host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def check(what, address):
    """Write down and refuse an address elsewhere; a path is a local socket."""
    host = address[0] if isinstance(address, tuple) else address
    if host is None or isinstance(address, int) or (not isinstance(address, tuple) and what in _EVENTS) or is_here(str(host)):
        return
    with contextlib.suppress(OSError, KeyError), Path(os.environ[FILE]).open("a", encoding="utf-8") as told:
        told.write(f"{what} {host} from {sys.argv[:3]}\n")
    raise PermissionError(f"tests talk to this machine only, not to {host}")


def watch():
    """From now on, in this process."""
    wrapped = []

    def hook(event, arguments):
        if event in _EVENTS:
            check(event, arguments[1])
        elif not wrapped and event != "import" and hasattr(sys.modules.get("uvloop"), "Loop"):
            wrapped.append(True)
            _wrap(sys.modules["uvloop"].Loop)

    sys.addaudithook(hook)


def _wrap(loop):
    for verb, place in _LOOP_VERBS.items():
        setattr(loop, verb, _checked(verb, getattr(loop, verb), place))


def _checked(verb, original, place):
    @functools.wraps(original)
    async def checked(self, *arguments, **named):
        address = named.get("remote_addr") if place is None else arguments[place] if len(arguments) > place else named.get("host")
        if address is not None:
            check(verb, address)
        return await original(self, *arguments, **named)

    return checked
