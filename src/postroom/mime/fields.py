"""The header fields of a mail, decoded when asked for and within the limits; and the list of what was wrong."""

from __future__ import annotations

import email.utils
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from postroom.clock import MICROS
from postroom.limits import HEADER_BYTES, STRUCTURED_HEADER_BYTES
from postroom.mime.addresses import Address, parse_list
from postroom.mime.charset import decode
from postroom.mime.encoded_words import decode_words, unfold
from postroom.mime.structure import Node
from postroom.mime.threading import message_ids
from postroom.model.mail import Finding

_HEADERS_KEPT: Final = 100
_DATE_CHARS: Final = 200
_STRUCTURED: Final = frozenset(
    ("from", "sender", "to", "cc", "bcc", "reply-to", "message-id", "in-reply-to", "references", "date")
)


class Defects:
    """Codes and how often each was met, in order of first sight."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, code: str, count: int = 1) -> None:
        if count > 0:
            self._counts[code] = self._counts.get(code, 0) + count

    def findings(self) -> tuple[Finding, ...]:
        return tuple(Finding(code=code, count=count) for code, count in self._counts.items())


class Fields:
    """The root's header fields, decoded when asked for and within the limits."""

    def __init__(self, root: Node, defects: Defects) -> None:
        self._fields = root.block.fields
        self._defects = defects
        self._charset = root.content_type.parameters.get("charset")
        self._by_name: dict[str, list[bytes]] = {}
        for name, value in self._fields:
            self._by_name.setdefault(name.lower(), []).append(value)
        for name, values in self._by_name.items():
            limit = STRUCTURED_HEADER_BYTES if name in _STRUCTURED else HEADER_BYTES
            defects.add("oversize_header", sum(len(value) > limit for value in values))

    def count(self, name: str) -> int:
        return len(self._by_name.get(name, ()))

    def _decode(self, value: bytes) -> str:
        return decode(value[:HEADER_BYTES], self._charset if not value.isascii() and not _is_utf8(value) else None)

    def text(self, name: str) -> str | None:
        values = self._by_name.get(name)
        return decode_words(self._decode(values[0])) if values else None

    def addresses(self, name: str) -> tuple[Address, ...]:
        """The addresses of every field of that name; an oversize field is opaque text and has none."""
        found: list[Address] = []
        for value in self._by_name.get(name, ()):
            if len(value) <= STRUCTURED_HEADER_BYTES:
                found += parse_list(self._decode(value))
        return tuple(found)

    def ids(self, name: str) -> tuple[str, ...]:
        """Ids of the first field; of an oversize one those in its last bytes, the newest."""
        values = self._by_name.get(name)
        return message_ids(unfold(decode(values[0][-STRUCTURED_HEADER_BYTES:], None))) if values else ()

    def date(self) -> int | None:
        text = self.text("date")
        if text is None:
            return None
        moment = _moment(text)
        self._defects.add("bad_date", int(moment is None))
        return moment

    def pairs(self) -> Iterator[tuple[str, str]]:
        return ((name, value[:200].decode("latin-1")) for name, value in self._fields)

    def mapping(self) -> Mapping[str, str]:
        kept: dict[str, str] = {}
        seen: set[str] = set()
        for name, value in self._fields:
            if len(kept) >= _HEADERS_KEPT:
                self._defects.add("many_headers")
                break
            if name.lower() not in seen:
                seen.add(name.lower())
                kept[name] = decode_words(self._decode(value))
        return kept


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _moment(text: str) -> int | None:
    """The moment a Date field names. A day or hour that does not exist names none."""
    if len(text) > _DATE_CHARS:
        return None
    try:
        found = email.utils.parsedate_tz(text)
        if found is None:
            return None
        year, month, day, hour, minute, second = found[:6]
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC) - timedelta(seconds=found[9] or 0)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None
    seconds = int(moment.timestamp())
    return seconds * MICROS if seconds >= 0 else None
