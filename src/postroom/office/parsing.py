"""Where a mail is read: small ones at once, large ones in a worker process with a time and memory limit.

The worker is started when the first large mail comes, and again after it died or ran out of time; how
long it takes to start on a busy machine is no mail's fault and counts against none.
A failure here is an exception for `ingest` to count; the process that answers SMTP and HTTP is not
touched by what a mail does to its reader.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final, Protocol

from postroom.limits import MIB, PARSE_WORKER_BYTES, PARSE_WORKER_S
from postroom.office.content import Content, read_content

_WORKER_MEMORY: Final = 2048 * MIB
_START_S: Final = 300.0  # for the worker's own start
Work = Callable[[bytes], Content]


class ContentReader(Protocol):
    """Reads a mail's bytes; any exception is a failed attempt."""

    async def read(self, raw: bytes) -> Content: ...

    def close(self) -> None: ...


class ParseFailure(Exception):
    """The worker died, or did not answer in time."""


class SplitReader:
    """Reads small mails here and large ones in the worker, both by `work`."""

    def __init__(self, *, limit: int = PARSE_WORKER_BYTES, timeout_s: float = PARSE_WORKER_S, work: Work = read_content) -> None:
        self._work = work
        self._limit = limit
        self._timeout_s = timeout_s
        self._worker: _Worker | None = None
        self._turn = asyncio.Lock()  # the worker answers one mail at a time

    async def read(self, raw: bytes) -> Content:
        if len(raw) <= self._limit:
            return self._work(raw)
        async with self._turn:
            if self._worker is None:
                self._worker = _Worker(self._work)
            try:
                return await asyncio.to_thread(self._worker.read, raw, self._timeout_s)
            except BaseException:
                self.close()  # also when we are cancelled: its late answer would be taken for the next mail's
                raise

    def close(self) -> None:
        """End the worker, if there is one; the next large mail starts another."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


class _Worker:
    """One process that answers one mail at a time over a pipe."""

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._pipe: Connection = ours
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, work), daemon=True, name="postroom-parse")
        self._process.start()
        theirs.close()
        self._started = False
        self._reading = threading.Lock()

    def read(self, raw: bytes, timeout_s: float) -> Content:
        """Blocking: call in a thread."""
        with self._reading:
            return self._read(raw, timeout_s)

    def close(self) -> None:
        """At once. The pipe is closed when nobody reads from it any more: its number is soon another pipe's."""
        self._process.kill()
        with self._reading:
            self._process.join()
            self._pipe.close()

    def _read(self, raw: bytes, timeout_s: float) -> Content:
        try:
            if not self._started and not self._pipe.poll(_START_S):
                raise ParseFailure(f"the worker did not start within {_START_S:g} s")
            if not self._started:
                self._started = bool(self._pipe.recv())
            self._pipe.send_bytes(raw)
            if not self._pipe.poll(timeout_s):
                raise ParseFailure(f"no answer within {timeout_s:g} s")
            answer = self._pipe.recv()
        except (EOFError, OSError) as problem:
            raise ParseFailure("the worker died") from problem
        if isinstance(answer, Content):
            return answer
        raise ParseFailure(str(answer))


def _serve(pipe: Connection, work: Work) -> None:
    """The worker's main loop: a word that it is there, then bytes in, `Content` or the name of what went wrong out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    resource.setrlimit(resource.RLIMIT_AS, (_WORKER_MEMORY, _WORKER_MEMORY))
    pipe.send(True)
    while True:
        try:
            raw = pipe.recv_bytes()
        except EOFError:
            return
        try:
            answer: Content | str = work(raw)
        except Exception as problem:  # noqa: BLE001 - whatever the mail does is the answer
            answer = type(problem).__name__
        pipe.send(answer)
