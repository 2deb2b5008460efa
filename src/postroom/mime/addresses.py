"""Mail addresses, read in two ways.

Outbound, `parse_address` takes exactly one address in strict RFC 5322 grammar and refuses the rest:
what a rule allowed is what the mail server is told. Inbound, `parse_list` reads what mail carries,
in linear time: the address in angle brackets wins over one in the display name, a comment ends the
domain, a quoted local part stays whole. Nothing here asks DNS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postroom.errors import Invalid
from postroom.limits import STRUCTURED_HEADER_BYTES
from postroom.mime.encoded_words import decode_words, unfold
from postroom.model.hostname import ascii_domain

_ADDRESSES: Final = 1000
_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_DOT_ATOM: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_QUOTED: Final = re.compile(r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*"')
_LITERAL: Final = re.compile(r"\[(?:\d{1,3}(?:\.\d{1,3}){3}|IPv6:[0-9A-Fa-f:.]{2,45})\]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")
_SPECIAL: Final = re.compile(r'[()<>\[\]:;@\\,."]')
_SPECIAL_BUT_DOT: Final = re.compile(r'[()<>\[\]:;@\\,"]')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_NAMED: Final = re.compile(r'("(?:[^"\\]|\\.)*+"[ \t]*|[^"<]*+)<(.*)>', re.DOTALL)
_IN_TEXT: Final = re.compile(r"[^\s<>@\"(),;:]@[^\s<>@\"(),;:]+\.[^\s<>@\"(),;:.]")
_TOKENS: Final = r'|[<>,;:@()]|\s+|\[[^\]\[\s]{0,100}\]|[^\s<>,;:@()"]+|"'
_WORD: Final = r"=\?[^?\s]{1,60}\?[bBqQ]\?[^?\s]*+\?="  # whole, whatever its sender left unencoded in it
_WITH_QUOTES: Final = re.compile(_WORD + r'|"(?:[^"\\]|\\.)*+"' + _TOKENS, re.DOTALL)
_WITHOUT_QUOTES: Final = re.compile(_WORD + _TOKENS, re.DOTALL)


@dataclass(frozen=True, slots=True)
class Address:
    """One mailbox. `local` is as it stands in an addr-spec (with its quotes, if it needs them)."""

    display: str | None
    local: str
    domain: str

    @property
    def addr(self) -> str:
        """`local@domain`, the domain in lower case."""
        return f"{self.local}@{self.domain.lower()}"

    @property
    def canonical(self) -> str:
        """`addr` with the domain as IDNA A-labels: the form to compare and to hand to a mail server."""
        return f"{self.local}@{ascii_domain(self.domain) or self.domain.lower()}"

    @property
    def formatted(self) -> str:
        """`Name <local@domain>`, the name quoted where it must be; the bare address without a name."""
        if not self.display:
            return self.addr
        if _SPECIAL.search(self.display):
            escaped = self.display.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}" <{self.addr}>'
        return f"{self.display} <{self.addr}>"


def parse_address(text: str) -> Address:
    """Exactly one address, `user@domain` or `Name <user@domain>`, to send to. Raises `Invalid` for anything else."""
    stripped = text.strip(" \t")
    if _CONTROL.search(text):
        raise _bad(text, "it holds a line break or another control character")
    if len(text.encode("utf-8", "replace")) > 998:
        raise _bad(text, "it is too long")
    named = _NAMED.fullmatch(stripped)
    if named is None:
        return _strict_spec(text, None, stripped)
    phrase = named[1].strip(" \t")
    if phrase.startswith('"'):
        phrase = _ESCAPE.sub(r"\1", phrase[1:-1]).strip()
    elif _SPECIAL_BUT_DOT.search(phrase):
        raise _bad(text, "its name holds a character that must stand in quotes")
    return _strict_spec(text, phrase or None, named[2])


def _strict_spec(text: str, display: str | None, spec: str) -> Address:
    local, at, domain = spec.rpartition("@")
    if not at:
        raise _bad(text, "it has no @")
    if not (_DOT_ATOM.fullmatch(local) or _QUOTED.fullmatch(local)) or len(local) > 64:
        reason = (
            "only ASCII is supported before the @" if not local.isascii() else "what stands before the @ is not allowed there"
        )
        raise _bad(text, reason)
    host = domain.lower() if _LITERAL.fullmatch(domain) else ascii_domain(domain)
    if host is None:
        raise _bad(text, "what follows the @ is not a domain")
    return Address(display, _plain_local(local), host)


def _bad(text: str, why: str) -> Invalid:
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text[:100])
    return Invalid(
        f"{shown!r} is not one mail address: {why}",
        code="invalid_address",
        fix="give one address per entry, as user@example.com or Name <user@example.com>",
    )


def _plain_local(local: str) -> str:
    """A quoted local part that needs no quotes is the same mailbox without them (RFC 5321 §4.1.2)."""
    if local.startswith('"') and local.endswith('"'):
        bare = _ESCAPE.sub(r"\1", local[1:-1])
        return bare if _DOT_ATOM.fullmatch(bare) else local
    return local


def display_holds_address(address: Address) -> bool:
    """True when the display name shows another address than the real one: a way to be mistaken for somebody."""
    display = address.display or ""
    if not _IN_TEXT.search(display):
        return False
    return display.strip(" '\"<>").lower() != address.addr.lower()


def parse_list(header: str) -> list[Address]:
    """Every address of an inbound header (its raw text, encoded words still in it), at most 1,000; never raises."""
    text = unfold(header)[:STRUCTURED_HEADER_BYTES]
    tokens = _tokenize(text)
    found: list[Address] = []
    entry: list[str] = []
    in_angle = False
    for token in tokens:
        if token in ",;" and not in_angle:
            found += _entry(entry)
            entry = []
        elif token == ":" and not in_angle and "@" not in entry:
            entry = []  # a group's name
        else:
            in_angle = (in_angle or token == "<") and token != ">"
            entry.append(token)
        if len(found) >= _ADDRESSES:
            return found[:_ADDRESSES]
    return (found + _entry(entry))[:_ADDRESSES]


def _tokenize(text: str) -> list[str]:
    """Tokens with whole comments as one token each. A quote or parenthesis that never closes is plain text."""
    tokens: list[str] = []
    position = 0
    pattern = _WITH_QUOTES
    while found := pattern.match(text, position):
        token = found[0]
        if token == '"' and pattern is _WITH_QUOTES:
            pattern = _WITHOUT_QUOTES
        tokens.append(token)
        position = found.end()
    return _fold_comments(tokens)


def _fold_comments(tokens: Sequence[str]) -> list[str]:
    folded: list[str] = []
    comment: list[str] = []
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")" and depth > 0)
        if depth or comment:
            comment.append(token)
            if not depth:
                folded.append("".join(comment))
                comment = []
        elif token != ")":
            folded.append(token)
    return folded + [token for token in comment if token not in "()"]


def _entry(tokens: list[str]) -> list[Address]:
    """The address, or addresses where a comma is missing, between two commas."""
    if "@" not in tokens:
        return []
    if "<" in tokens:
        start = len(tokens) - 1 - tokens[::-1].index("<")
        display = _display(tokens[:start])
        return [Address(display, local, domain) for local, domain, _ in _specs(_inside_angles(tokens[start + 1 :]))[:1]]
    found = _specs(tokens)
    if len(found) != 1:
        return [Address(None, local, domain) for local, domain, _ in found]
    local, domain, start = found[0]
    comments = [token[1:-1] for token in tokens if _is_comment(token)]
    return [Address(_display(tokens[:start]) or _display(comments), local, domain)]


def _inside_angles(tokens: list[str]) -> list[str]:
    """What stands before the closing bracket, without an obsolete source route."""
    inner = tokens[: tokens.index(">")] if ">" in tokens else tokens
    if inner and inner[0] == "@" and ":" in inner:
        return inner[len(inner) - inner[::-1].index(":") :]
    return inner


def _specs(tokens: Sequence[str]) -> list[tuple[str, str, int]]:
    """Each `local@domain` with the place where it begins. One that holds a second @ is no address."""
    found: list[tuple[str, str, int]] = []
    end = 0
    for at, token in enumerate(tokens):
        if token != "@" or at < end:
            continue
        start, end = _reach(tokens, at, end)
        local = "".join(tokens[start:at]).strip()
        domain = "".join(tokens[at + 1 : end]).strip().rstrip(".")
        if end < len(tokens) and tokens[end] == "@":
            end += 1
        elif local and domain:
            found.append((_plain_local(local), domain, start))
    return found


def _reach(tokens: Sequence[str], at: int, floor: int) -> tuple[int, int]:
    """Where the address around the @ at `at` begins and ends; blanks beside the @ are obsolete but read."""
    start = at - 1 if at and tokens[at - 1].isspace() else at
    lowest = max(start - 1, floor) if start < at else floor
    while start > lowest and _is_word(tokens[start - 1]):
        start -= 1
    end = at + 2 if at + 1 < len(tokens) and tokens[at + 1].isspace() else at + 1
    while end < len(tokens) and _is_word(tokens[end]):
        end += 1
    return start, end


def _is_word(token: str) -> bool:
    return not (token.isspace() or token in "<>,;:@()" or _is_comment(token))


def _is_comment(token: str) -> bool:
    return len(token) > 1 and token.startswith("(") and token.endswith(")")


def _display(tokens: Sequence[str]) -> str | None:
    """The words of a name: comments left out, quotes undone, a stray quote dropped."""
    pieces = [
        _ESCAPE.sub(r"\1", token[1:-1]) if len(token) > 1 and token[0] == token[-1] == '"' else token
        for token in tokens
        if token != '"' and not _is_comment(token)
    ]
    return decode_words("".join(pieces)).strip() or None
