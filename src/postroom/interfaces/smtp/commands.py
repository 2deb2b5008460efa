"""The arguments of MAIL and RCPT (RFC 5321 §4.1.2, RFC 6531 §3.3), read strictly and in linear time.

A path is `<local@domain>` with its quotes kept whole; `<>` is the null sender. Source routes are
read and dropped (§4.1.1.3). Replies never repeat what the peer sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_LOCAL = r"""(?:[^\s"(),:;<>@\[\\\]]+|"(?:[^"\\]|\\.)*")"""
_DOMAIN = r"(?:[\w-]+(?:\.[\w-]+)*|\[[\w.:-]+\])"
_PATH = re.compile(
    rf"<(?:@[^:<>\"\s]+:)?(?P<address>|{_LOCAL}@{_DOMAIN}|[pP][oO][sS][tT][mM][aA][sS][tT][eE][rR])>(?P<rest>(?: .*)?)"
)
_PARAMETER = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9-]*)(?:=(?P<value>[^=\s]+))?")
_PATH_CHARS = 512


class BadCommand(Exception):
    """The text is the whole SMTP reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One path and its parameters, names in capitals. `address` is "" for the null sender."""

    address: str
    parameters: dict[str, str]


def read_path(argument: str | None, keyword: str, known: Collection[str]) -> Path:
    """`FROM:<…> …` or `TO:<…> …`. Raises `BadCommand`; parameters outside `known` are refused (§4.1.1.11)."""
    syntax = f"501 5.5.4 Syntax: {'MAIL' if keyword == 'FROM' else 'RCPT'} {keyword}:<address>"
    name, colon, rest = (argument or "").partition(":")
    if not colon or name.strip().upper() != keyword:
        raise BadCommand(syntax)
    rest = rest.strip()
    if not rest.startswith("<"):
        raise BadCommand(syntax)
    found = _PATH.fullmatch(rest)
    if found is None or not rest.isprintable() or len(found["address"]) > _PATH_CHARS:
        raise BadCommand("553 5.1.3 This is not an address")
    return Path(address=found["address"], parameters=_parameters(found["rest"], known))


def _parameters(text: str, known: Collection[str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for word in text.split():
        found = _PARAMETER.fullmatch(word)
        if found is None:
            raise BadCommand("501 5.5.4 A parameter is KEYWORD or KEYWORD=value")
        name = found["name"].upper()
        if name not in known:
            raise BadCommand("555 5.5.4 This parameter is not known here")
        if name in parameters:
            raise BadCommand("501 5.5.4 A parameter is given once")
        parameters[name] = found["value"] or ""
    return parameters


def sender_size(path: Path) -> int:
    """What SIZE= declares (RFC 1870), 0 without it; BODY and SMTPUTF8 are checked. Raises `BadCommand`."""
    parameters = path.parameters
    if parameters.get("BODY", "7BIT").upper() not in ("7BIT", "8BITMIME"):
        raise BadCommand("501 5.5.4 BODY is 7BIT or 8BITMIME")
    if parameters.get("SMTPUTF8"):
        raise BadCommand("501 5.5.4 SMTPUTF8 takes no value")
    require_ascii(path, utf8="SMTPUTF8" in parameters)
    size = parameters.get("SIZE", "0")
    if not re.fullmatch(r"[0-9]{1,20}", size):
        raise BadCommand("501 5.5.4 SIZE is a number of bytes")
    return int(size)


def require_ascii(path: Path, *, utf8: bool) -> None:
    """An address outside ASCII needs SMTPUTF8 on MAIL (RFC 6531 §3.4)."""
    if not utf8 and not path.address.isascii():
        raise BadCommand("553 5.6.7 An address outside ASCII needs SMTPUTF8")
