"""Threads and messages as tool results: text with every id, and structured values a sender cannot write into.

Ids a sender made up so that they are long or read like a sentence are shown as an alias, the thread's
id and a hash; `message_id_of` finds the message again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from postroom.clock import to_iso
from postroom.errors import NotFound
from postroom.model.mail import Message, Thread
from postroom.model.paging import PageRequest
from postroom.model.ports import Mail
from postroom.model.principal import Principal
from postroom.safety.fence import Fence
from postroom.safety.redact import Redactor
from postroom.safety.view import View, render_message, safe_id, thread_line
from postroom.tools.result import ToolResult

_ALIAS_CHARS = 12
_PAGE_CHARS = 40_000
_LEAST_CHARS = 1_000


def shown_id(thread_id: str, message_id: str) -> str:
    """The message's id if it is plain and short, else its alias."""
    return safe_id(message_id) or f"{thread_id}~{hashlib.sha256(message_id.encode()).hexdigest()[:_ALIAS_CHARS]}"


async def message_id_of(mail: Mail, principal: Principal, inbox_id: str | None, shown: str) -> str:
    """The message id behind what `shown_id` showed. Raises `NotFound`."""
    thread_id, tilde, _ = shown.partition("~")
    if not tilde or shown.startswith("<"):
        return shown
    page = PageRequest(limit=100)
    while True:
        thread = await mail.get_thread(principal, inbox_id, thread_id, page)
        for message in thread.messages or ():
            if shown_id(thread.thread_id, message.message_id) == shown:
                return message.message_id
        if thread.next_page_token is None:
            raise NotFound("Message not found", fix="read the thread again and use a message_id from there")
        page = PageRequest(limit=100, page_token=thread.next_page_token)


def threads_result(threads: Sequence[Thread], next_page_token: str | None, *, redactor: Redactor, canonical: bool) -> ToolResult:
    """A list of threads."""
    fence = Fence()
    lines = [part for thread in threads for part in (thread_line(fence, thread, redactor=redactor), _labels(thread.labels))]
    if not threads:
        lines.append("No threads.")
    if next_page_token:
        lines.append(f"More: pageToken {next_page_token}")
    text = "\n".join(lines)
    structured: dict[str, Any] = {"threads": [_summary(thread, canonical=canonical) for thread in threads], "content": text}
    if next_page_token:
        structured["nextPageToken"] = next_page_token
    return ToolResult(text=text, structured=structured)


def thread_result(thread: Thread, *, max_chars: int, redactor: Redactor, canonical: bool) -> ToolResult:
    """One page of a thread's messages."""
    messages = thread.messages or ()
    budget = min(max_chars, max(_LEAST_CHARS, _PAGE_CHARS // max(len(messages), 1)))
    fence = Fence()
    many = "message" if thread.message_count == 1 else "messages"
    lines = [f"thread {thread.thread_id}, {thread.message_count} {many}", _labels(thread.labels)]
    entries = []
    for message in messages:
        block, view = render_message(fence, message, max_chars=budget, redactor=redactor)
        lines += [f"message {shown_id(thread.thread_id, message.message_id)} ({to_iso(message.timestamp)})", block]
        entries.append(_message(thread, message, view, canonical=canonical))
    if thread.next_page_token:
        lines.append(f"Older messages: pageToken {thread.next_page_token}")
    text = "\n".join(lines)
    structured: dict[str, Any] = {"threadId": thread.thread_id, "labels": list(thread.labels), "messages": entries}
    if canonical and thread.subject is not None:
        structured["subject"] = thread.subject
    if thread.next_page_token:
        structured["nextPageToken"] = thread.next_page_token
    return ToolResult(text=text, structured={**structured, "content": text})


def _summary(thread: Thread, *, canonical: bool) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "threadId": thread.thread_id,
        "labels": list(thread.labels),
        "messageCount": thread.message_count,
        "timestamp": to_iso(thread.timestamp),
    }
    if canonical:
        optional = {"subject": thread.subject, "preview": thread.preview}
        summary |= {name: value for name, value in optional.items() if value is not None}
        summary |= {"senders": list(thread.senders), "recipients": list(thread.recipients)}
    return summary


def _message(thread: Thread, message: Message, view: View, *, canonical: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "messageId": shown_id(thread.thread_id, message.message_id),
        "timestamp": to_iso(message.timestamp),
        "labels": list(message.labels),
        "truncated": view.truncated,
    }
    if canonical:
        entry |= {"messageId": message.message_id, "from": message.from_, "to": list(message.to), "text": view.text}
        if message.subject is not None:
            entry["subject"] = message.subject
    return entry


def _labels(labels: Sequence[str]) -> str:
    return f"labels: {', '.join(labels) or '(none)'}"
