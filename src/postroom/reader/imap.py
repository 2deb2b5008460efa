"""Any IMAP mailbox: EXAMINE, SEARCH, BODYSTRUCTURE and BODY.PEEK of text sections; nothing that leaves a trace.

IMAP searches by whole days of the server: the days are widened by one, and the exact moments held on
what comes back.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from postroom.clock import MICROS
from postroom.limits import HEADER_BLOCK_BYTES
from postroom.mime.parse import parse
from postroom.mime.transfer import decode_transfer
from postroom.reader import faults
from postroom.reader.imap_structure import Section, sections, text_sections
from postroom.reader.parts import part_text, recipients, sender
from postroom.reader.remote import Listing, RemoteMessage, Search
from postroom.wires.imap import ImapFailure, ImapWire

T = TypeVar("T")

_CHUNK: Final = 200
_BYTES_PER_CHAR: Final = 4
_ID: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-([A-Za-z0-9_-]{1,400})")
_CURSOR: Final = re.compile(r"([0-9]{1,10})\.([0-9]{1,10})")
_FIELDS: Final = b"BODY.PEEK[HEADER.FIELDS (FROM TO SUBJECT MESSAGE-ID REFERENCES IN-REPLY-TO)]"
_HEAD: Final = [b"INTERNALDATE", b"BODYSTRUCTURE", _FIELDS + b"<0.%d>" % HEADER_BLOCK_BYTES]


class Imap:
    """One IMAP account. `max_chars` bounds a body as it is fetched, `max_bytes` all bodies of a list."""

    def __init__(self, wire: ImapWire, *, max_chars: int, max_bytes: int) -> None:
        self._wire = wire
        self._most = max_chars * _BYTES_PER_CHAR
        self._max_bytes = max_bytes

    async def list(self, search: Search, cursor: str) -> Listing:
        """The newest matching messages of a folder."""
        return await self._run("list", lambda box: self._list(box, search, cursor))

    async def read(self, message_id: str) -> RemoteMessage:
        """One message with its text."""
        found = _ID.fullmatch(message_id)
        if found is None:
            raise faults.argument("messageId", "messageId is not an id of a message here", "use an id from a list")
        validity, uid, folder = int(found[1]), int(found[2]), _folder_of(found[3])
        return await self._run("read", lambda box: self._read(box, folder, validity, uid))

    async def _run(self, operation: str, work: Callable[[Any], T]) -> T:
        try:
            return await self._wire.run(work)
        except ImapFailure as failure:
            raise faults.of_imap(failure, operation) from None

    def _list(self, box: Any, search: Search, cursor: str) -> Listing:
        folder = search.folder or "INBOX"
        validity = _examine(box, folder, "list")
        uids = sorted(box.search(*_criteria(search)), reverse=True)
        if cursor:
            uids = [uid for uid in uids if uid < _last(cursor, validity)]
        chosen: Any = []
        for chunk in _chunks(uids):
            chosen += _within(box, chunk, search) if search.after is not None or search.before is not None else chunk
            if len(chosen) > search.limit:
                break
        page = chosen[: search.limit]
        more = len(chosen) > search.limit
        messages = self._messages(box, folder, validity, page)
        return Listing(messages=messages, next_cursor=f"{validity}.{page[-1]}" if more else None)

    def _read(self, box: Any, folder: str, validity: int, uid: int) -> RemoteMessage:
        if _examine(box, folder, "read") != validity:
            raise faults.not_found("imap", "read")
        messages = self._messages(box, folder, validity, [uid])
        if not messages:
            raise faults.not_found("imap", "read")
        return messages[0]

    def _messages(self, box: Any, folder: str, validity: int, uids: Sequence[int]) -> tuple[RemoteMessage, ...]:
        if not uids:
            return ()
        heads = box.fetch(uids, _HEAD)
        leaves = {uid: _structure(heads[uid]) for uid in uids if uid in heads}
        wanted = {uid: text_sections(found) for uid, found in leaves.items()}
        bodies = self._bodies(box, self._fitting(wanted))
        name = base64.urlsafe_b64encode(folder.encode()).decode().rstrip("=")
        return tuple(
            _message(f"{validity}-{uid}-{name}", heads[uid], leaves[uid], wanted[uid], bodies.get(uid))
            for uid in uids
            if uid in leaves
        )

    def _fitting(self, wanted: Mapping[int, Sequence[Section]]) -> dict[int, Sequence[Section]]:
        """The messages whose text may be fetched: each within its bound, all within half of what one call may bring."""
        fitting: dict[int, Sequence[Section]] = {}
        left = self._max_bytes // 2
        for uid, chosen in wanted.items():
            size = sum(section.size for section in chosen)
            if size <= min(self._most, left):
                fitting[uid] = chosen
                left -= size
        return fitting

    def _bodies(self, box: Any, wanted: Mapping[int, Sequence[Section]]) -> dict[int, tuple[bytes, ...]]:
        """The sections' bytes, one FETCH for all messages that are built alike."""
        alike: defaultdict[tuple[str, ...], Any] = defaultdict(list)
        for uid, chosen in wanted.items():
            alike[tuple(section.number for section in chosen)].append(uid)
        bodies: dict[int, tuple[bytes, ...]] = {}
        for numbers, uids in alike.items():
            if not numbers:
                continue
            found = box.fetch(uids, [f"BODY.PEEK[{number}]<0.{self._most}>".encode() for number in numbers])
            for uid in uids:
                answer = found.get(uid, {})
                bodies[uid] = tuple(answer.get(f"BODY[{number}]<0>".encode()) or b"" for number in numbers)
        return bodies


def _structure(head: Mapping[bytes, Any]) -> list[Section]:
    """The message's parts; none where the server's account of them cannot be followed: one odd mail hides no other."""
    try:
        return sections(head[b"BODYSTRUCTURE"])
    except (LookupError, TypeError, ValueError):
        return []


def _examine(box: Any, folder: str, operation: str) -> int:
    """Open the folder for reading only; its UIDVALIDITY."""
    from imapclient.exceptions import IMAPClientAbortError, IMAPClientError

    try:
        answer = box.select_folder(folder, readonly=True)
    except IMAPClientAbortError:
        raise faults.connection_failed("imap", operation) from None
    except IMAPClientError:
        raise faults.not_found("imap", f"{operation} folder") from None
    return int(answer[b"UIDVALIDITY"])


def _criteria(search: Search) -> tuple[list[Any], str | None]:
    criteria: list[Any] = ["UNSEEN"] if search.unread else []
    if search.after is not None:
        criteria += ["SINCE", (datetime.fromtimestamp(search.after, UTC) - timedelta(days=1)).date()]
    if search.before is not None:
        criteria += ["BEFORE", (datetime.fromtimestamp(search.before, UTC) + timedelta(days=2)).date()]
    if search.query:
        criteria += ["TEXT", search.query]
    return criteria or ["ALL"], None if search.query.isascii() else "UTF-8"


def _within(box: Any, uids: Sequence[int], search: Search) -> list[int]:
    dates = box.fetch(uids, [b"INTERNALDATE"])
    moments = {uid: dates[uid][b"INTERNALDATE"].timestamp() for uid in uids if uid in dates}
    after = search.after if search.after is not None else float("-inf")
    before = search.before if search.before is not None else float("inf")
    return [uid for uid in uids if uid in moments and after <= moments[uid] < before]


def _chunks(uids: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(uids), _CHUNK):
        yield uids[at : at + _CHUNK]


def _last(cursor: str, validity: int) -> int:
    found = _CURSOR.fullmatch(cursor)
    if found is None or int(found[1]) != validity:
        raise faults.argument("pageToken", "this page token is not valid any more", "start again without pageToken")
    return int(found[2])


def _folder_of(coded: str) -> str:
    try:
        return base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except (binascii.Error, ValueError):
        raise faults.argument("messageId", "messageId is not an id of a message here", "use an id from a list") from None


def _message(
    message_id: str,
    head: Mapping[bytes, Any],
    leaves: Sequence[Section],
    chosen: Sequence[Section],
    bodies: Sequence[bytes] | None,
) -> RemoteMessage:
    parsed = parse(next((value for key, value in head.items() if key.startswith(b"BODY[HEADER")), b"") + b"\r\n")
    thread = next(iter([*parsed.references, *parsed.in_reply_to, *filter(None, [parsed.message_id])]), message_id)
    texts = [_text(section, body) for section, body in zip(chosen, bodies or (), strict=False)]
    files = tuple(leaf.attachment for leaf in leaves if not leaf.is_text)
    return RemoteMessage(
        id=message_id,
        thread_id=f"th-{hashlib.sha256(thread.encode()).hexdigest()[:16]}",
        received=int(head[b"INTERNALDATE"].timestamp() * MICROS),
        from_=sender(parsed),
        to=recipients(parsed),
        subject=parsed.subject or "",
        text="\n".join(texts) if bodies is not None or not chosen else None,
        is_html=bool(chosen) and chosen[0].type == "text/html",
        omitted=bool(chosen) and bodies is None,
        has_attachments=bool(files),
        attachments=files,
    )


def _text(section: Section, body: bytes) -> str:
    return part_text(decode_transfer(body, section.encoding)[0], section.content_type)
