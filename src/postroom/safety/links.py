"""Links made inert and shown with their real host; images dropped.

A model's answer is often rendered as Markdown, and a rendered image is fetched without a click: that
is how data leaves. So an image (inline, reference style, HTML) becomes a note naming its host, and a link
becomes its text followed by the host it really leads to and the address in full. Whatever spelling the
patterns for those do not know loses its Markdown all the same: afterwards no `![`, no `](` and no `]:`
is left, and no HTML element that loads something. A bare address stays as it is, except that one which
shows one host and leads to another says so. Nothing is fetched here, ever.
"""

from __future__ import annotations

import re
from itertools import islice
from urllib.parse import urlsplit

_TITLE = r"(?:\s+(?:\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|\([^()\n]{0,300}\)))?"
_TARGET = rf"\(\s*(?:<([^<>\n]{{0,2000}})>|((?:[^\s()<>]|\([^\s()<>]{{0,200}}\)){{0,2000}})){_TITLE}\s*\)"
_INLINE = re.compile(rf"(!?)\[([^\[\]]{{0,500}})\]{_TARGET}")
_REFERENCE = re.compile(r"!\[([^\[\]]{0,500})\](?:\s?\[[^\[\]]{0,200}\])?")
_LEFT = re.compile(r"(?<!!)!++(?=\[)|\](?=\()")  # possessive: a megabyte of "!" is read once
_DEFINITION = re.compile(r"\](?=:)")
_LOADING = re.compile(
    r"<\s*/?\s*(?:img|image|iframe|frame|embed|object|video|audio|source|track|picture|link|svg|script|style|base|meta|form|input)\b"
    r"(?:[^<>]{0,4000}>)?",
    re.IGNORECASE,
)
_SOURCE = re.compile(r"(?:src|href|data|poster|action)\s*=\s*[\"']?([^\s\"'<>]{1,2000})", re.IGNORECASE)
_DISGUISED = re.compile(r"\bhttps?:[/\\]{2}[^\s/<>()\"'?#]{1,300}@([^\s/\\@<>()\"'?#]{1,253})", re.IGNORECASE)
_AUTHORITY = re.compile(r"\b[hH][tT][tT][pP][sS]?:[/\\]{2}([^\s/\\<>()\"'?#]{1,300})")
_MARKUP = re.compile(r"[\[\]<@]")
_HOSTS = 50


def inert(text: str) -> tuple[str, int]:
    """`text` without images and with links spelled out, and how many there were."""
    if _MARKUP.search(text) is None:
        return text, 0
    text, html = _LOADING.subn(_html, text)
    text, inline = _INLINE.subn(_inline, text)
    text, references = _REFERENCE.subn(lambda match: _removed("", match.group(1)), text)
    text, others = _LEFT.subn(lambda match: "" if match.group().startswith("!") else "] ", text)
    text = _DEFINITION.sub("] ", text)
    text, disguised = _DISGUISED.subn(lambda match: f"{match.group()} (real host: {match.group(1).lower()})", text)
    return text, html + inline + references + others + disguised


def host_of(url: str) -> str:
    """The host `url` leads to, in lower case; empty where it names none."""
    try:
        return (urlsplit(url.replace("\\", "/")).hostname or "").lower()
    except ValueError:
        return ""


def hosts(text: str) -> tuple[str, ...]:
    """The hosts that web addresses in `text` lead to, each once; at most 50."""
    authorities = dict.fromkeys(_AUTHORITY.findall(text))
    found = (host_of(f"//{authority}") for authority in islice(authorities, _HOSTS))
    return tuple(dict.fromkeys(host for host in found if host))


def _html(match: re.Match[str]) -> str:
    source = _SOURCE.search(match.group())
    return _removed(source.group(1)) if source else ""


def _inline(match: re.Match[str]) -> str:
    image, label, bracketed, plain = match.groups()
    target = bracketed or plain or ""
    if image:
        return _removed(target, label)
    if not target:
        return label
    host = host_of(target)
    return f"{label} (link to {host}: {target})" if host else f"{label} (link: {target})"


def _removed(url: str, label: str = "") -> str:
    host = host_of(url)
    words = ["image", label.strip(), f"from {host}" if host else "", "removed"]
    return f"({' '.join(word for word in words if word)})"
