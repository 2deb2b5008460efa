"""Links made inert and shown with their real host; images dropped.

A model's answer is often rendered as Markdown, and a rendered image is fetched without a click: that
is how data leaves. So an image (inline, reference style, or HTML) becomes a note naming its host, and a
link becomes its text followed by the host it really leads to and the address in full. Reference
definitions lose their target's power the same way. A bare address stays as it is, except that one which
shows one host and leads to another says so. Nothing is fetched here, ever.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_TARGET = r"<?((?:[^\s()<>]|\([^\s()<>]{0,200}\)){0,2000})>?(?:\s+(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'))?\s*"
_INLINE = re.compile(r"(!?)\[([^\[\]]{0,500})\]\(\s*" + _TARGET + r"\)")
_REFERENCE = re.compile(r"!\[([^\[\]]{0,500})\]\s?\[([^\[\]]{0,200})\]")
_SHORT_REFERENCE = re.compile(r"!\[([^\[\]]{0,500})\]")
_DEFINITION = re.compile(r"^[ ]{0,3}\[([^\[\]]{1,200})\]:[ \t]*\n?[ \t]*<?(\S{1,2000}?)>?(?=[ \t]|$)", re.MULTILINE)
_HTML_IMAGE = re.compile(
    r"<\s*(?:img|image|iframe|embed|object|video|audio|source|picture|link|svg|script)\b[^<>]{0,4000}>?", re.IGNORECASE
)
_DISGUISED = re.compile(r"\b(https?://)([^\s/@<>()\"']{1,300})@([^\s/@<>()\"'?#]{1,253})", re.IGNORECASE)
_FIRST = re.compile(r"[!\[<]|@")


def inert(text: str) -> tuple[str, int]:
    """`text` without images and with links spelled out, and how many were changed."""
    if _FIRST.search(text) is None:
        return text, 0
    changed = 0
    for pattern, write in (
        (_HTML_IMAGE, _html),
        (_INLINE, _inline),
        (_REFERENCE, _image),
        (_SHORT_REFERENCE, _image),
        (_DEFINITION, _definition),
        (_DISGUISED, _disguised),
    ):
        text, count = pattern.subn(write, text)
        changed += count
    return text, changed


def host_of(url: str) -> str:
    """The host `url` leads to, in lower case; empty where it names none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _html(match: re.Match[str]) -> str:
    source = re.search(r"(?:src|href|data)\s*=\s*[\"']?([^\s\"'<>]{1,2000})", match.group(), re.IGNORECASE)
    return _removed(source.group(1) if source else "")


def _inline(match: re.Match[str]) -> str:
    image, label, target = match.groups()
    if image:
        return _removed(target, label)
    if not target:
        return label
    host = host_of(target)
    return f"{label} (link to {host}: {target})" if host else f"{label} (link: {target})"


def _image(match: re.Match[str]) -> str:
    return _removed("", match.group(1))


def _definition(match: re.Match[str]) -> str:
    host = host_of(match.group(2))
    return f"{match.group(1)} (link to {host}: {match.group(2)})" if host else f"{match.group(1)} (link: {match.group(2)})"


def _disguised(match: re.Match[str]) -> str:
    return f"{match.group()} (real host: {match.group(3).lower()})"


def _removed(url: str, label: str = "") -> str:
    host = host_of(url)
    words = ["image", *([label.strip()] if label.strip() else []), *([f"from {host}"] if host else []), "removed"]
    return f"({' '.join(words)})"
