"""What watches over the tests' own connections sees them, here and in the processes tests start."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from egress.egress_watch import FILE, node_environment

SPEAK = "import socket; s = socket.socket(); s.settimeout(1); s.connect(('192.0.2.1', 9))"
UVLOOP = """
import asyncio, uvloop
async def main():
    await asyncio.open_connection({host!r}, {port})
uvloop.run(main())
"""
DATAGRAM = """
import asyncio, uvloop
async def main():
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("192.0.2.1", 53))
uvloop.run(main())
"""


@pytest.fixture
def told():
    """What was told since, taken off the record."""
    told_in = Path(os.environ[FILE])
    start = told_in.stat().st_size

    def take() -> list[str]:
        with told_in.open(encoding="utf-8") as record:
            record.seek(start)
            lines = [line.split(" from ")[0] for line in record.read().splitlines()]
        os.truncate(told_in, start)
        return lines

    return take


@pytest.mark.parametrize("address", [("192.0.2.1", 25), ("2001:db8::1", 443, 0, 0)])
def test_a_connection_elsewhere_is_not_made_and_is_told(address, told):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as speaker, pytest.raises(PermissionError):
        speaker.connect(address)
    assert told() == [f"socket.connect {address[0]}"]


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (SPEAK, "socket.connect 192.0.2.1"),
        (UVLOOP.format(host="192.0.2.1", port=9), "create_connection 192.0.2.1"),
        (UVLOOP.format(host="mail.example", port=25), "create_connection mail.example"),
        (DATAGRAM, "create_datagram_endpoint 192.0.2.1"),
    ],
)
def test_nor_is_one_of_a_process_a_test_starts(program: str, line: str, told) -> None:
    done = run(program)
    assert "tests talk to this machine only" in done.stderr
    assert told() == [line]


async def test_a_process_may_talk_to_this_machine(told) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        done = await asyncio.to_thread(run, UVLOOP.format(host="127.0.0.1", port=server.sockets[0].getsockname()[1]))
    assert (done.returncode, done.stderr, told()) == (0, "", [])


NODE = {
    "tcp": "require('net').connect(9, '192.0.2.1')",
    "a name": "require('https').get('https://mail.example/')",
    "fetch": "fetch('http://192.0.2.1/').catch(problem => { console.error(problem.cause.message); process.exit(1) })",
    "datagram": "require('dgram').createSocket('udp4').send('x', 53, '192.0.2.1')",
    "a worker": "new (require('worker_threads').Worker)(\"require('net').connect(9, '192.0.2.1')\", {eval: true})",
}


@pytest.mark.parametrize("way", NODE)
def test_nor_is_one_of_a_node_a_test_starts(way: str, told) -> None:
    done = subprocess.run([node(), "-e", NODE[way]], capture_output=True, text=True, timeout=60, env=node_environment())
    assert done.returncode != 0
    assert "tests talk to this machine only" in done.stderr
    assert [line.split()[1] for line in told()] == ["mail.example" if way == "a name" else "192.0.2.1"]


async def test_a_node_may_talk_to_this_machine(told) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    program = f"require('net').connect({port}, '127.0.0.1').on('close', () => process.exit(0)).resume()"
    async with server:
        done = await asyncio.to_thread(subprocess.run, [node(), "-e", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, told()) == (0, "", [])


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node here")
    return found
