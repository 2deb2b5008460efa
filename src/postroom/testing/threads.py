"""The sink for programs without a loop of their own: it runs in a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from postroom.testing.smtp import SinkMail, SmtpSink


class ThreadedSink:
    """An `SmtpSink` as a plain context manager. `host` and `port` are where it listens, `received` what it got."""

    def __init__(self, sink: SmtpSink | None = None) -> None:
        self.sink = sink or SmtpSink()
        self.host, self.port = "", 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="smtp sink", daemon=True)

    @property
    def received(self) -> list[SinkMail]:
        """Mails in the order they were taken."""
        return list(self.sink.mails)

    def __enter__(self) -> Self:
        self._thread.start()
        self.host, self.port = asyncio.run_coroutine_threadsafe(self.sink.start(), self._loop).result(5)
        return self

    def __exit__(self, *problem: object) -> None:
        asyncio.run_coroutine_threadsafe(self.sink.stop(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
