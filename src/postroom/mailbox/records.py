"""The log's nouns: a record as it is stored, a message as its readers see it.

A record is a JSON object in canonical form; `kind` is message, edit, withdraw, reaction, receipt or
retention. Nothing derived is in it: the number is its place in the chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

MESSAGE: Final = "message"
EDIT: Final = "edit"
WITHDRAW: Final = "withdraw"
REACTION: Final = "reaction"
RECEIPT: Final = "receipt"
RETENTION: Final = "retention"
ERASED: Final = "erased"  # of a row only: its content went by retention
CHANGES: Final = frozenset({EDIT, WITHDRAW, REACTION})

Row = tuple[Any, ...]  # seq, kind, body, state
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """An attachment as listed; `file_id` is the SHA-256 of its content."""

    file_id: str
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Why a message is shown again: what happened to it, at which record, by whom."""

    kind: str
    seq: int
    by: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it is now. `thread` of one that began its own is `#seq`. Of a withdrawn one the text is gone."""

    seq: int
    at: int
    sender: str
    to: str
    thread: str
    text: str
    reply_to: int | None = None
    priority: str | None = None
    mentions: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    edited_at: int | None = None
    edited_from: str | None = None
    withdrawn_at: int | None = None
    reactions: tuple[tuple[str, str], ...] = ()
    change: Change | None = None

    @property
    def readers(self) -> tuple[str, str]:
        """Whom it is visible to."""
        return self.sender, self.to


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The receipt of a write: where it stands, and the link that proves it."""

    seq: int
    link: str
    at: int
    thread: str = ""
    deduplicated: bool = False
    redacted: int = 0
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One reading. `cursor` is where to go on, `link` what the reader can later prove to have seen."""

    messages: tuple[Message, ...]
    cursor: int
    link: str
    more: bool = False
    waited: bool = False
    missed: int = 0


def own_thread(seq: int) -> str:
    """The thread a message begins when it names none."""
    return f"#{seq}"


def message_of(seq: int, body: bytes, state: str | None, change: Change | None = None) -> Message:
    """A message from its row: what was written, and what became of it."""
    entry: dict[str, Any] = _decode(body)
    now: Mapping[str, Any] = _decode(state) if state else {}
    withdrawn = now.get("withdrawn_at")
    return Message(
        seq=seq,
        at=entry["at"],
        sender=entry["from"],
        to=entry["to"],
        thread=entry.get("thread") or own_thread(seq),
        text="" if withdrawn else now.get("text", entry["text"]),
        reply_to=entry.get("reply_to"),
        priority=entry.get("priority"),
        mentions=() if withdrawn else tuple(now.get("mentions", entry.get("mentions", ()))),
        files=() if withdrawn else files_of(entry.get("attachments", ())),
        edited_at=now.get("edited_at"),
        edited_from=entry["text"] if "edited_at" in now and not withdrawn else None,
        withdrawn_at=withdrawn,
        reactions=tuple((who, what) for who, what in now.get("reactions", ())),
        change=change,
    )


def files_of(entries: Sequence[Mapping[str, Any]]) -> tuple[File, ...]:
    """Attachments from a record."""
    return tuple(File(file_id=e["id"], name=e["name"], media_type=e["media_type"], size=e["size"]) for e in entries)


def decoded(body: bytes) -> dict[str, Any]:
    """A record's object."""
    entry: dict[str, Any] = _decode(body)
    return entry
