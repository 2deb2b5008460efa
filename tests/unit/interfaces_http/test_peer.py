"""Whose the other end of a loopback connection is: asked of the kernel, or found in its table, with one answer."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from postroom.interfaces.http import peer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells whose a socket is")

Ends = tuple[socket.AddressFamily, peer.Address, peer.Address]


@pytest.fixture(params=[(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=["ipv4", "ipv6"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    family, host = request.param
    with closing(socket.socket(family)) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.xfail("a machine without this kind of address has no such connection to tell of")
        listener.listen()
        with closing(socket.create_connection(listener.getsockname()[:2])) as client, closing(listener.accept()[0]):
            yield family, client.getsockname()[:2], listener.getsockname()[:2]


def test_the_user_of_a_connection_is_the_same_asked_and_looked_up(ends: Ends) -> None:
    family, client, server = ends

    assert peer.peer_uid(client, server) == os.getuid()
    assert peer._looked_up(family, client, server) == os.getuid()


def test_a_connection_that_is_not_there_is_nobodys(ends: Ends) -> None:
    family, client, server = ends
    other = (client[0], 1)

    assert peer.peer_uid(other, server) is None
    assert peer._looked_up(family, other, server) is None
    with pytest.raises(OSError, match="no such socket"):
        peer._asked(family, other, server)


def test_a_kernel_that_does_not_answer_is_made_up_for_by_its_table(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError("no netlink here")

    monkeypatch.setattr(peer, "_asked", refuses)

    assert peer.peer_uid(ends[1], ends[2]) == os.getuid()


def test_a_caller_from_elsewhere_has_no_user_here() -> None:
    assert peer.peer_uid(("192.0.2.1", 5), ("192.0.2.2", 6)) is None
    assert peer.peer_uid(("not an address", 5), ("127.0.0.1", 6)) is None
    assert peer.peer_uid(None, ("127.0.0.1", 6)) is None
