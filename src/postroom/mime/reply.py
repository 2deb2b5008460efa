"""The new text of a reply: what its author wrote, without what was quoted and without the signature.

Line-based and linear. Losing new text is the worse error: where a rule would leave nothing, the whole
text is the answer. Also the two blocks that quote a mail in an answer or a forward.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape
from typing import Final

from postroom.clock import MICROS
from postroom.model.mail import Message

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


def quote(source: Message, *, text: str | None, html: str | None) -> tuple[str | None, str | None]:
    """An answer's `text` and `html` with `source` quoted below, in each form the answer has."""
    line = f"On {_moment(source.timestamp)}, {source.from_} wrote:"
    quoted_text = None if text is None else f"{text.rstrip()}\n\n{line}\n\n{_prefixed(_text_of(source))}"
    quoted_html = None if html is None else f"{html}<br><div>{escape(line)}<blockquote>{_html_of(source)}</blockquote></div>"
    return quoted_text, quoted_html


def forward_block(source: Message, *, text: str | None, html: str | None) -> tuple[str | None, str | None]:
    """A forward's `text` and `html`: the note above a header of four lines, then `source` unchanged."""
    head = [
        "---------- Forwarded message ----------",
        f"From: {source.from_}",
        f"Date: {_moment(source.timestamp)}",
        f"Subject: {source.subject or ''}",
        f"To: {', '.join(source.to)}",
    ]
    forwarded_text = "\n".join([*head, "", _text_of(source)])
    if text:
        forwarded_text = f"{text.rstrip()}\n\n{forwarded_text}"
    if html is None and source.html is None:
        return forwarded_text, None
    lines = "<br>".join(map(escape, head))
    note = html if html is not None else _paragraphs(text or "")
    return forwarded_text, f"{note}<br><div>{lines}<br><br>{_html_of(source)}</div>"


def _text_of(source: Message) -> str:
    return source.text if source.text is not None else source.extracted_text or ""


def _html_of(source: Message) -> str:
    return source.html if source.html is not None else _paragraphs(_text_of(source))


def _paragraphs(text: str) -> str:
    return escape(text).replace("\n", "<br>\n")


def _prefixed(text: str) -> str:
    lines = text.rstrip("\n").split("\n")
    return "\n".join(f">{line}" if line.startswith(">") else f"> {line}".rstrip() for line in lines)


def _moment(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us // MICROS, UTC):%a, %d %b %Y at %H:%M UTC}"
