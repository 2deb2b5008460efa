"""Message-IDs: reading them, which of them decide a thread, and which a reply carries (RFC 5322 §3.6.4).

A thread is chosen at arrival from these candidates and never changes; that choice is the office's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from postroom.limits import MESSAGE_ID_BYTES

if TYPE_CHECKING:
    from postroom.mime.parse import Parsed

_ID: Final = re.compile(r"<([^<>]*)>")
_REFERENCES_KEPT: Final = 100
_REFERENCES_BYTES: Final = 8000


def message_ids(header: str) -> tuple[str, ...]:
    """The ids of an identification field, with brackets, first mention first; words around them are skipped."""
    found = ["<" + "".join(inner.split()) + ">" for inner in _ID.findall(header)]
    if not found:
        found = [f"<{word}>" for word in re.split(r"[\s,]+", header) if "@" in word and not set(word) & set('<>()"')]
    return tuple(dict.fromkeys(item for item in found if 2 < len(item.encode()) <= MESSAGE_ID_BYTES))


def thread_candidates(parsed: Parsed) -> tuple[str, ...]:
    """Ids of mails this one may belong to, best first: In-Reply-To, then References from the end."""
    candidates = dict.fromkeys((*parsed.in_reply_to, *reversed(parsed.references)))
    candidates.pop(parsed.message_id or "", None)
    return tuple(candidates)


def references_for_reply(message_id: str, in_reply_to: Sequence[str], references: Sequence[str]) -> tuple[str, ...]:
    """References of an answer to the mail with these fields: bounded, keeping the first and the newest."""
    inherited: Iterable[str] = references or (in_reply_to if len(in_reply_to) == 1 else ())
    chain = [item for item in dict.fromkeys(inherited) if item != message_id] + [message_id]
    first, rest = chain[0], chain[1:]
    kept: list[str] = []
    size = len(first)
    for item in reversed(rest):
        size += len(item) + 1
        if size > _REFERENCES_BYTES or len(kept) >= _REFERENCES_KEPT - 1:
            break
        kept.append(item)
    return (first, *reversed(kept))
