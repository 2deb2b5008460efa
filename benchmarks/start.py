"""Start and idle memory of `postroom serve`, beside a bare aiosmtpd and uvicorn in one process."""

from __future__ import annotations

import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RUNS = 5
BARE = """
import asyncio
from aiosmtpd.smtp import SMTP
import uvicorn
from starlette.applications import Starlette
async def main():
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: SMTP(object()), "127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(Starlette(), port=0, log_level="critical", loop="uvloop"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    print("postroom ready", flush=True)
    await serving
import uvloop
uvloop.run(main())
"""


def measure(command: list[str]) -> tuple[float, float]:
    """Seconds until the ready line, and resident MB a second later."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        select.select([process.stdout], [], [], 30)
        line = process.stdout.readline()
        took = time.perf_counter() - begin
        assert line.startswith("postroom ready"), line
        time.sleep(1.0)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        resident = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmRSS"))
        return took, resident / 1024
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def rows() -> list[dict[str, Any]]:
    """Medians of five runs, in turn."""
    ours: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            addresses = ["--data", folder, "--http", "127.0.0.1:0", "--smtp", "127.0.0.1:0"]
            ours.append(measure([sys.executable, "-m", "postroom.cli.main", "serve", *addresses]))
        bare.append(measure([sys.executable, "-c", BARE]))
    out = []
    for column, name, unit in [(0, "start to ready", "s"), (1, "memory idle", "MB")]:
        value, reference = (statistics.median(row[column] for row in runs) for runs in (ours, bare))
        about = {"reference": "bare aiosmtpd + uvicorn + Starlette", "reference_value": reference, "ratio": value / reference}
        out.append({"name": name, "value": value, "unit": unit, **about})
    quoted = "mcp_agent_mail 5.5 s, 225 MiB (quoted, not in this run)"
    out.append(
        {"name": "start to ready, beside a full agent mailbox", "value": out[0]["value"], "unit": "s", "reference": quoted}
    )
    return out
