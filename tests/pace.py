"""How long work takes a machine, in the machine's own terms: a guard against work that never ends, not a measurement.

A bound in plain seconds fails on a slow or busy machine although nothing is wrong. Here only the calling thread's
own time counts, in units of a fixed piece of work timed beside it, with a margin, and a breach must repeat to
count. Work that grows out of all bounds misses the bound by far more than the margin.

A test waits for what must come, never for a while: with `PATIENCE_S`, which only something broken ever uses up.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 240.0  # what must come has come by then, on any machine; a test that needs it all is red
_UNIT_S = 0.05  # what `_unit` takes an ordinary machine
_TRIES = 3
_MARGIN = 4  # memory may be slower than the processor that shares it


def _unit() -> None:
    total = 0
    for number in range(1_000_000):
        total += number & 7


def slowness() -> float:
    """How many times slower than an ordinary machine this one is just now; at least 1."""
    begin = time.thread_time()
    _unit()
    return max(1.0, (time.thread_time() - begin) / _UNIT_S)


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`, which must take this thread less than `seconds` of an ordinary machine's time."""
    for _ in range(_TRIES):
        begin = time.thread_time()
        result = work()
        taken = time.thread_time() - begin
        if taken < seconds or taken < seconds * _MARGIN * slowness():
            return result
    raise AssertionError(f"took {taken:.2f} s of its own; the bound is {seconds} s on an ordinary machine")
