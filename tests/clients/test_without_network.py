"""The clients' own tests once more where there is no network: a namespace with nothing but loopback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pace import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
RUN_S = 2400  # a minute or two on a quiet machine
# Brings loopback up (SIOCGIFFLAGS, SIOCSIFFLAGS with IFF_UP), sees that it is alone, and becomes pytest.
INSIDE = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    flags = struct.unpack("16xH", fcntl.ioctl(any_socket, 0x8913, struct.pack("16sH14x", b"lo", 0))[:18])[0]
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))
up = [name for _, name in socket.if_nameindex() if name == "lo" or open(f"/sys/class/net/{name}/operstate").read() == "up\\n"]
assert up == ["lo"], up
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[1:]])
"""


@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.parametrize("tests", [["test_claude_code.py", "-k", "pypi"], ["test_codex.py"]], ids=["claude", "codex"])
def test_with_nothing_but_loopback_all_is_as_with_a_network(tests, tmp_path):
    alone = ["unshare", "--net", sys.executable]
    if os.getuid() != 0 or subprocess.run([*alone, "-c", ""], capture_output=True, timeout=PATIENCE_S).returncode != 0:
        pytest.skip("needs root: no network namespace can be made here")
    done = subprocess.run(
        [*alone, "-c", INSIDE, "--rootdir=.", f"tests/clients/{tests[0]}", *tests[1:], f"--basetemp={tmp_path / 'inside'}"],
        cwd=ROOT, capture_output=True, text=True, timeout=RUN_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
