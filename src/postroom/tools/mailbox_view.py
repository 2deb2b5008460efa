"""A mailbox message as a model may see it, and as a program reads it.

Numbers, times and states are ours and stand outside the fence; everything a participant chose, names
and file names too, stands inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from postroom.clock import to_iso
from postroom.mailbox.records import File, Message
from postroom.safety.fence import Fence
from postroom.safety.unicode import one_line

TAG: Final = "mailbox-message"
_NAME_CHARS: Final = 200
_REACTIONS: Final = 20
_WORDS: Final = {"edit": "edited", "withdraw": "withdrawn", "reaction": "reacted to"}


def message_block(fence: Fence, message: Message, state: Mapping[str, Any] | None = None) -> str:
    """The message in a fence under one line of our own."""
    head = f"message {message.seq} ({to_iso(message.at)})"
    if message.reply_to is not None:
        head += f", answers {message.reply_to}"
    if message.edited_at is not None:
        head += f", edited {to_iso(message.edited_at)}"
    if message.change is not None:
        head += f", {_WORDS[message.change.kind]} since (record {message.change.seq})"
    if state is not None:
        head += f", {_state_words(state)}"
    body = "(withdrawn by its author)" if message.withdrawn_at is not None else message.text
    return f"{head}\n{fence.block(TAG, chr(10).join([*_headers(message), '', body]))}"


def message_values(message: Message, state: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Our own values alone: nothing in them was written by a participant."""
    values: dict[str, Any] = {"seq": message.seq, "at": message.at // 1000}
    optional = {
        "replyTo": message.reply_to,
        "editedAt": message.edited_at and message.edited_at // 1000,
        "change": message.change and message.change.kind,
        "changeSeq": message.change and message.change.seq,
        "receipt": state,
        "attachments": [{"id": each.file_id, "size": each.size} for each in message.files],
    }
    return values | {name: value for name, value in optional.items() if value}


def canonical_message(message: Message, state: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All fields under the reference's names, for programs that asked for them."""
    values = message_values(message, state) | {
        "kind": "message",
        "from": message.sender,
        "to": message.to,
        "thread": message.thread,
        "mentions": list(message.mentions),
        "text": message.text,
    }
    if message.files:
        values["attachments"] = [_file(each) for each in message.files]
    if message.reactions:
        values["reactions"] = [{"from": who, "emoji": what} for who, what in message.reactions]
    optional = {"priority": message.priority, "editedFrom": message.edited_from}
    if message.withdrawn_at is not None:
        optional["withdrawnAt"] = str(message.withdrawn_at // 1000)
    return values | {name: value for name, value in optional.items() if value is not None}


def _headers(message: Message) -> list[str]:
    lines = [f"from: {message.sender}", f"to: {message.to}", f"thread: {one_line(message.thread, _NAME_CHARS)}"]
    if message.priority:
        lines.append(f"priority: {one_line(message.priority, _NAME_CHARS)}")
    lines += [f"attachment: {one_line(f.name, _NAME_CHARS)} [{f.media_type}] ({f.size} B) id {f.file_id}" for f in message.files]
    if message.reactions:
        shown = ", ".join(f"{who} {one_line(what, 32)}" for who, what in message.reactions[:_REACTIONS])
        lines.append(f"reactions: {shown}")
    return lines


def _file(file: File) -> dict[str, Any]:
    return {"id": file.file_id, "name": file.name, "mediaType": file.media_type, "size": file.size}


def _state_words(state: Mapping[str, Any]) -> str:
    counts = [f"{name} by {count}" for name, count in state.items() if name != "state" and count]
    return ", ".join([str(state["state"]), *counts])
