"""BODYSTRUCTURE (RFC 9051 §7.5.2) as IMAPClient gives it: which sections are text, and what is attached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from postroom.limits import PART_DEPTH, PARTS
from postroom.mime.charset import decode
from postroom.mime.parameters import Parameterized, parse_parameterized
from postroom.reader.parts import file_name
from postroom.reader.remote import RemoteAttachment

_TEXT_SECTIONS: Final = 8
# Where the disposition stands in a part's fields, by what the part is.
_AT: Final = {"text": 9, "message/rfc822": 11, "": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part without parts. `number` is what FETCH calls it; `size` counts octets as encoded."""

    number: str
    type: str
    content_type: str
    encoding: str
    size: int
    disposition: Parameterized
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name, if it has one."""
        return file_name({**self.parameters, **self.disposition.parameters})

    @property
    def is_text(self) -> bool:
        """Whether it is the mail's own text."""
        return self.type in ("text/plain", "text/html") and self.disposition.value != "attachment" and not self.name

    @property
    def attachment(self) -> RemoteAttachment:
        """What may be known of it as an attachment. Base64 is the rule, so three bytes of four are content."""
        size = self.size * 3 // 4 if self.encoding == "base64" else self.size
        return RemoteAttachment(filename=self.name, content_type=self.type, size=size)


def sections(structure: Any) -> list[Section]:
    """All leaves in order; an attached mail is one leaf."""
    found: list[Section] = []
    waiting: list[tuple[Any, str, int]] = [(structure, "", 0)]
    while waiting and len(found) < PARTS:
        part, number, depth = waiting.pop()
        if isinstance(part[0], list) and depth < PART_DEPTH:
            inner = [(each, f"{number}.{at}" if number else str(at), depth + 1) for at, each in enumerate(part[0], 1)]
            waiting.extend(reversed(inner))
        elif not isinstance(part[0], list):
            found.append(_section(part, number or "1"))
    return found


def text_sections(leaves: Sequence[Section]) -> list[Section]:
    """The sections to fetch: the plain text, else the HTML."""
    for kind in ("text/plain", "text/html"):
        chosen = [leaf for leaf in leaves if leaf.is_text and leaf.type == kind and leaf.size > 0]
        if chosen:
            return chosen[:_TEXT_SECTIONS]
    return []


def _section(part: Any, number: str) -> Section:
    kind = f"{_word(part[0])}/{_word(part[1])}"
    at = _AT.get(kind) or _AT.get(kind.partition("/")[0]) or _AT[""]
    disposition = part[at] if len(part) > at and isinstance(part[at], tuple) else None
    content_type = _header(kind, part[2])
    return Section(
        number=number,
        type=kind,
        content_type=content_type,
        encoding=_word(part[5]),
        size=part[6] if isinstance(part[6], int) else 0,
        disposition=parse_parameterized(_header(_word(disposition[0]), disposition[1]) if disposition else ""),
        parameters=dict(parse_parameterized(content_type).parameters),
    )


def _header(value: str, pairs: Any) -> str:
    """The header a value and its parameters were read from, so that one parser decodes every spelling."""
    flat = list(pairs) if isinstance(pairs, (tuple, list)) else []
    return value + "".join(f"; {_word(name)}={_parameter(_word(name), text)}" for name, text in _pairs(flat))


def _pairs(flat: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=False)


def _parameter(name: str, text: Any) -> str:
    plain = decode(text, None) if isinstance(text, bytes) else str(text)
    if name.endswith("*"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _word(value: Any) -> str:
    return decode(value, None).strip().lower() if isinstance(value, bytes) else ""
