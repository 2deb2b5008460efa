"""`postroom serve`: open a house, open its doors, say so in one line, and close cleanly on SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import uvloop

from postroom import __version__
from postroom import config as settings_of
from postroom.app.doors import http_app, mcp_door, socket_door
from postroom.app.house import House
from postroom.app.logs import configure
from postroom.app.reload import Reload
from postroom.cli.options import ServeOptions
from postroom.config import Config
from postroom.interfaces.http.server import HttpServer, bind
from postroom.store.endpoint import remove_endpoint, write_endpoint


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT; 0 when it ended as asked, 1 when a room failed."""
    os.umask(0o077)
    return uvloop.run(serve(options.data, partial(settings_of.load, options.config_path), options.http, options.smtp))


async def serve(folder: Path, read: Callable[[], Config], http: tuple[str, int], smtp: tuple[str, int] | None) -> int:
    """The whole life of one daemon. `read` gives the config, now and when it is told to read it again."""
    settings = read()
    listener = bind(*http)
    house = await House.open(folder, settings)
    house.reload = Reload(read, settings, waking=house.waking, sessions=house.sessions)
    configure(house.redactor, debug=bool(os.environ.get("POSTROOM_DEBUG")))
    house.address.http = listener.origin
    mcp = mcp_door(house)
    socket = socket_door(house)
    server = HttpServer(http_app(house, listener, mcp, socket), listener)
    stopping = stop_signals()
    try:
        if smtp is not None:
            await house.listen_smtp(*smtp)
        await house.work()
        await server.start()
        announce(house)
        return await until_told(house, stopping)
    finally:
        remove_endpoint(folder)
        await socket.close()
        await house.bridge.close()
        await server.stop()
        await mcp.close()
        await house.close()


def announce(house: House) -> None:
    """`endpoint.json` for other processes, and the ready line for whoever started this one."""
    address = house.address
    info = {"pid": os.getpid(), "http": address.http, "smtp": f"smtp://{address.smtp}", "version": __version__}
    write_endpoint(house.folder, info)
    sys.stdout.write(f"postroom ready {address.http} smtp://{address.smtp}\n")
    sys.stdout.flush()


async def until_told(house: House, stopping: asyncio.Event) -> int:
    """0 on a signal, 1 when a room failed."""
    waits = [asyncio.create_task(stopping.wait()), asyncio.create_task(house.failed())]
    done, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return 0 if waits[0] in done else 1


def stop_signals(which: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stopping = asyncio.Event()
    for name in which:
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    return stopping
