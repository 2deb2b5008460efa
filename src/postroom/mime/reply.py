"""The new text of a reply: what its author wrote, without what was quoted and without the signature.

Line-based and linear. Losing new text is the worse error: where a rule would leave nothing, the whole
text is the answer. Also the two blocks that quote a mail in an answer or a forward.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from postroom.clock import MICROS

_ATTRIBUTION: Final = re.compile(r"^On\b.{1,300}\bwrote:\s*$")
_SEPARATOR: Final = re.compile(r"^-{2,}\s*(?:Original Message|Forwarded message)\s*-{2,}", re.IGNORECASE)


def new_text(text: str) -> str:
    """What is new in `text`; never empty where `text` is not."""
    lines = text.split("\n")
    kept: list[str] = []
    for line in lines:
        if line.startswith(">") or _ATTRIBUTION.match(line) or _SEPARATOR.match(line) or line in {"--", "-- "}:
            break
        kept.append(line)
    return "\n".join(kept).strip() or text.strip()


def quote(text: str, author: str, at_us: int) -> str:
    """`text` as an answer quotes it: an attribution line, then every line behind `> `."""
    lines = text.rstrip("\n").split("\n")
    quoted = "\n".join(">" + line if line.startswith(">") else f"> {line}".rstrip() for line in lines)
    return f"On {_moment(at_us)} {author} wrote:\n\n{quoted}\n"


def forward_block(text: str, *, author: str, at_us: int, subject: str, to: str) -> str:
    """`text` as a forward carries it: a header of four lines, then the text unchanged."""
    head = f"From: {author}\nDate: {_moment(at_us)}\nSubject: {subject}\nTo: {to}"
    return f"---------- Forwarded message ----------\n{head}\n\n{text}"


def _moment(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us // MICROS, UTC):%a, %d %b %Y at %H:%M UTC}"
