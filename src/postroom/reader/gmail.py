"""Gmail over its REST API: `messages.list` and `messages.get`, nothing else of it.

A message is read as its parts (`format=full`), so attachments stay where they are: only text the API
holds inline is decoded. Dates go as epoch seconds, because Gmail reads date words as midnight in
California.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from postroom.errors import PostroomError
from postroom.limits import MAIL_BYTES, PART_DEPTH, PARTS
from postroom.mime.encoded_words import decode_words
from postroom.mime.filename import safe_filename
from postroom.reader import faults
from postroom.reader.exchange import Exchange
from postroom.reader.parallel import in_parallel
from postroom.reader.parts import parsed_fields, part_text, recipients, sender
from postroom.reader.remote import Listing, RemoteAttachment, RemoteMessage, Search
from postroom.reader.request import grouped

_PARALLEL: Final = 8
_SYSTEM_LABELS: Final = frozenset(("inbox", "sent", "draft", "spam", "trash", "starred", "important", "unread", "chat"))
_ALIASES: Final = {"drafts": "draft", "sentitems": "sent", "junk": "spam", "bin": "trash"}
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_CURSOR_CHARS: Final = 2000
_HEADERS: Final = ("From", "To", "Subject")
_SEVERAL: Final = re.compile(r"\bOR\b|[{}()]")
Part = Mapping[str, Any]


class Gmail:
    """One Gmail account."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(self, search: Search, cursor: str) -> Listing:
        """Ids first, then each message."""
        found = await self._exchange.get(("messages",), list_params(search, cursor), "list")
        rows = found.get("messages") or []
        try:
            ids = [str(row["id"]) for row in rows][: search.limit]
        except (KeyError, TypeError):
            raise faults.response_invalid("gmail", "list") from None
        messages = await in_parallel(self._listed, filter(_ID.fullmatch, ids), most=_PARALLEL)
        next_cursor = found.get("nextPageToken")
        if next_cursor is not None and not (isinstance(next_cursor, str) and len(next_cursor) <= _CURSOR_CHARS):
            raise faults.response_invalid("gmail", "list")
        return Listing(
            messages=tuple(message for message in messages if message is not None),
            next_cursor=next_cursor,
        )

    async def read(self, message_id: str) -> RemoteMessage:
        """One message with its text."""
        if not _ID.fullmatch(message_id):
            raise faults.argument("messageId", "messageId is not an id of a Gmail message", "use an id from a list")
        try:
            found = await self._exchange.get(("messages", message_id), {"format": "full"}, "read")
        except PostroomError as problem:
            if problem.code == "MAIL_RESPONSE_TOO_LARGE":
                raise faults.message_too_large("gmail") from None
            raise
        if _number(found.get("sizeEstimate")) > MAIL_BYTES:
            raise faults.message_too_large("gmail")
        return _message(found)

    async def _listed(self, message_id: str) -> RemoteMessage | None:
        """A message of a list: one too large comes without its text, one that has gone meanwhile not at all."""
        try:
            return await self.read(message_id)
        except PostroomError as problem:
            if problem.code == "MAIL_NOT_FOUND":
                return None
            if problem.code != "MAIL_MESSAGE_TOO_LARGE":
                raise
        params: dict[str, str | list[str]] = {"format": "metadata", "metadataHeaders": [*_HEADERS]}
        return _message(await self._exchange.get(("messages", message_id), params, "read"), omitted=True)


def list_params(search: Search, cursor: str) -> dict[str, str | list[str]]:
    """The query string of `messages.list`. `after` is one second early: whether Gmail includes it is not said,
    and the exact bound is held where the messages are read.
    """
    words: list[str] = []
    params: dict[str, str | list[str]] = {"maxResults": str(search.limit)}
    folder = _ALIASES.get(search.folder.lower(), search.folder.lower())
    if folder in _SYSTEM_LABELS:
        params["labelIds"] = folder.upper()
        if folder in ("spam", "trash"):  # left out of every other list
            params["includeSpamTrash"] = "true"
    elif folder:
        words.append(_label(search.folder))
    if search.after is not None:
        words.append(f"after:{search.after - 1}")
    if search.before is not None:
        words.append(f"before:{search.before}")
    if search.unread:
        words.append("is:unread")
    if search.query:
        words.insert(0, grouped(search.query) if words and _SEVERAL.search(search.query) else search.query)
    if words:
        params["q"] = " ".join(words)
    if cursor:
        params["pageToken"] = cursor
    return params


def _label(name: str) -> str:
    if '"' in name or "\\" in name:
        raise faults.argument("folder", "a Gmail label with a quote or backslash in its name cannot be searched")
    return f"label:{name}" if re.fullmatch(r"[\w/.-]+", name) else f'label:"{name}"'


def _message(found: Mapping[str, Any], *, omitted: bool = False) -> RemoteMessage:
    try:
        payload: Part = found["payload"]
        fields = [(str(entry["name"]), str(entry["value"])) for entry in payload.get("headers") or ()]
        leaves = list(_leaves(payload))
        files = tuple(_attachment(part) for part in leaves if not _is_text(part))
        text, is_html, missing = _text(leaves)
        message_id, thread_id = str(found["id"]), str(found["threadId"])
        received = int(found["internalDate"]) * 1000
    except (KeyError, TypeError, ValueError, AttributeError):
        raise faults.response_invalid("gmail", "read") from None
    if not (_ID.fullmatch(message_id) and _ID.fullmatch(thread_id)):
        raise faults.response_invalid("gmail", "read")
    parsed = parsed_fields((name, value) for name, value in fields if name.title() in _HEADERS)
    return RemoteMessage(
        id=message_id,
        thread_id=thread_id,
        received=received,
        from_=sender(parsed),
        to=recipients(parsed),
        subject=parsed.subject or "",
        text=None if omitted or missing else text,
        is_html=is_html,
        omitted=omitted or missing,
        has_attachments=bool(files),
        attachments=files,
    )


def _leaves(payload: Part) -> Iterator[Part]:
    """Parts without parts, in order. An attached mail is one attachment, its inside is not ours to open."""
    waiting: list[tuple[Part, int]] = [(payload, 0)]
    for _ in range(PARTS):
        if not waiting:
            return
        part, depth = waiting.pop()
        inner = part.get("parts") or []
        if inner and depth < PART_DEPTH and not str(part.get("mimeType")).startswith("message/"):
            waiting.extend((each, depth + 1) for each in reversed(inner))
        elif not str(part.get("mimeType")).startswith("multipart/"):
            yield part


def _is_text(part: Part) -> bool:
    if part.get("mimeType") not in ("text/plain", "text/html") or part.get("filename"):
        return False
    return not _header(part, "content-disposition").lower().lstrip().startswith("attachment")


def _text(leaves: list[Part]) -> tuple[str, bool, bool]:
    """The text, whether it is HTML, and whether it exists but is not inline."""
    texts = [part for part in leaves if _is_text(part)]
    for kind in ("text/plain", "text/html"):
        chosen = [part for part in texts if part["mimeType"] == kind]
        if any((part.get("body") or {}).get("attachmentId") for part in chosen):
            return "", False, True
        joined = "\n".join(part_text(_content(part), _header(part, "content-type")) for part in chosen)
        if joined.strip():
            return joined, kind == "text/html", False
    return "", False, False


def _content(part: Part) -> bytes:
    data = str((part.get("body") or {}).get("data") or "")
    try:
        return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))
    except (binascii.Error, ValueError):
        raise faults.response_invalid("gmail", "read") from None


def _attachment(part: Part) -> RemoteAttachment:
    name = safe_filename(decode_words(str(part.get("filename") or ""))) or ""
    size = _number((part.get("body") or {}).get("size"))
    return RemoteAttachment(filename=name, content_type=str(part.get("mimeType") or ""), size=size)


def _header(part: Part, name: str) -> str:
    headers = part.get("headers") or ()
    return next((str(entry["value"]) for entry in headers if str(entry["name"]).lower() == name), "")


def _number(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
