"""The suite's own guard: a test that connects elsewhere is stopped and told."""

import socket

import pytest
from tests.conftest import ELSEWHERE


@pytest.mark.parametrize("address", [("192.0.2.1", 25), ("2001:db8::1", 25)])
def test_a_connection_to_another_machine_is_not_made(address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as peer, pytest.raises(PermissionError, match="this machine only"):
        peer.connect(address)
    assert ELSEWHERE.pop() == f"socket.connect {address[0]}"
