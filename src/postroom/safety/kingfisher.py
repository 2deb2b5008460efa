"""MongoDB's secret scanner beside our own rules, where its package is installed and the owner asked for it.

Scanning is offline: the package's parts that would call a provider with what was found are never
constructed. Compiling its rules takes seconds the first time; they are kept in a folder of ours. Only what
it is sure of counts, because a finding refuses a mail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from postroom.errors import Invalid
from postroom.safety.redact import Span


class Kingfisher:
    """The engine over a folder for its compiled rules. Raises `Invalid` when the package is not installed."""

    def __init__(self, folder: Path) -> None:
        try:
            from kingfisher_sdk import Rules, Scanner
        except ImportError:
            raise Invalid(
                "view.kingfisher is on, and its package is not installed", fix="pip install 'postroom[kingfisher]'"
            ) from None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._scanner = Scanner(Rules(confidence="high", cache_dir=folder))

    def find(self, data: bytes) -> Iterator[Span]:
        """What it finds, in bytes; of something encoded, the whole encoded word."""
        for finding in self._scanner.scan(data):
            place = finding.location
            start, end = place["start_offset"], min(place["end_offset"], len(data))
            if finding.visible and start < end:
                yield Span(start, end, finding.rule_id.rpartition(".")[2])
