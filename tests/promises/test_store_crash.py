"""Promise: acknowledged means on disk. A killed writer loses nothing it said was stored."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from pace import PATIENCE_S
from postroom.store.engine import Store

CYCLES = 4
ACKNOWLEDGED = 150  # per cycle, before the kill

WRITER = """
import asyncio, sys
from pathlib import Path
from postroom.store.engine import Store

async def main(folder, cycle):
    store = await Store.open(Path(folder))

    async def client(number):
        at = 0
        while True:
            ref = f"{cycle}/{number}/{at}"
            data = ref.encode() * (12000 if at % 20 == 0 else 10)
            sha = await store.blobs.put(data)

            def keep(tx):
                store.blobs.link(tx, sha, data)
                event = tx.emit("kept", ref, at=1, snapshot={"sha": sha})
                store.events.set_cursor(tx, "c", event.seq)

            await store.write(keep)
            print(ref, flush=True)
            at += 1

    await asyncio.gather(*(client(number) for number in range(8)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def one_cycle(folder: Path, cycle: int) -> list[str]:
    """Start a writer, kill it while it writes; answers what it acknowledged."""
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(cycle)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = [child.stdout.readline().strip() for _ in range(ACKNOWLEDGED)]
    os.kill(child.pid, signal.SIGKILL)
    rest = child.stdout.read().splitlines(keepends=True)
    child.stdout.close()
    child.wait(PATIENCE_S)
    return told + [line.strip() for line in rest if line.endswith("\n")]


async def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    told: set[str] = set()
    position = 0
    for cycle in range(CYCLES):
        told.update(await asyncio.to_thread(one_cycle, tmp_path, cycle))
        store = await Store.open(tmp_path)
        try:
            kept = await store.events.after(0, limit=1_000_000)
            cursor = await store.events.cursor("c")
            whole = {event.ref for event in kept if await store.blobs.get(event.snapshot["sha"])}
            soundness = store.read_now(lambda reader: reader.connection.execute("PRAGMA integrity_check").fetchone())
        finally:
            await store.close()

        assert told <= whole
        assert len(whole) == len(kept)  # nothing twice
        assert cursor == kept[-1].seq >= position
        assert soundness == ("ok",)
        position = cursor
