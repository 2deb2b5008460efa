"""What a person would see of an HTML mail, as text."""

from __future__ import annotations

from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser

from postroom.model.mail import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """The text, what was removed and why, and the links with the host each leads to."""

    text: str
    findings: tuple[Finding, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def visible_text(html: str) -> Visible:
    """The visible text of `html`."""
    body = LexborHTMLParser(html).body
    return Visible(text=body.text(separator="\n", strip=True) if body else "")
