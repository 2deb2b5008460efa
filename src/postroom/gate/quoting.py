"""The bodies of answers and forwards: the caller's words above, the original below.

The original is quoted as its visible text, escaped in HTML: markup someone else wrote is never sent
on in an inbox's own name. A forward's text is the original as it is; an answer's quote has secrets
taken out, because its author did not choose those words and could not take them out himself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

from postroom.mime.reply import forward_block, quote
from postroom.model.mail import Message

_NOT_IN_MAIL = re.compile("[\x00\ud800-\udfff]")

Bodies = tuple[str | None, str | None]


def answer(source: Message, text: str | None, html: str | None, *, redact: Callable[[str], str]) -> Bodies:
    """`(text, html)` of an answer to `source`."""
    original = redact(_original(source))
    if not original.strip():
        return _given(text, html)
    return _below(text, html, quote(original, source.from_, source.timestamp))


def forward(source: Message, text: str | None, html: str | None) -> Bodies:
    """`(text, html)` of a forward of `source`."""
    to = ", ".join(source.to)
    block = forward_block(source.text or "", author=source.from_, at_us=source.timestamp, subject=source.subject or "", to=to)
    return _below(text, html, block)


def _original(source: Message) -> str:
    """The message's text, without the few characters no mail can carry."""
    return _NOT_IN_MAIL.sub("\N{REPLACEMENT CHARACTER}", source.text or "")


def _below(text: str | None, html: str | None, original: str) -> Bodies:
    plain = f"{text.rstrip()}\n\n{original}" if text else original
    if html is None:
        return plain, None
    quoted = escape(original).replace("\n", "<br>\n")
    return plain if text is not None else None, f"{html}\n<br>\n<blockquote>{quoted}</blockquote>"


def _given(text: str | None, html: str | None) -> Bodies:
    return (text or "", None) if html is None else (text, html)
