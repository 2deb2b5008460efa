"""When an entry of a list (limit, trusted, blocked) means a given address.

An entry is a full address, a domain, or `@domain`; a domain does not stand for its sub-domains.
Both sides are compared in one canonical form: case folded, domain in its ASCII (IDNA) spelling.
Only a single plain address can match: a display name, a group, a second address or a line break
makes it none, so no entry can be met by an address hidden beside another.
"""

from __future__ import annotations

import re

from postroom.errors import Invalid

_PLAIN = re.compile(r'[^\s<>()\[\],;:"\\@\x00-\x1f\x7f]+@[^\s<>()\[\],;:"\\@\x00-\x1f\x7f]+')
_DOTS = re.compile("[\u3002\uff0e\uff61]")


def matches(entry: str, address: str) -> bool:
    """Does list entry `entry` cover `address`? Blank or malformed ones on either side never match."""
    canonical = canonical_address(address)
    if canonical is None:
        return False
    rule = entry.strip()
    if "@" in rule[1:]:
        return canonical_address(rule) == canonical
    domain = canonical_domain(rule.removeprefix("@"))
    return domain is not None and domain == canonical.rpartition("@")[2]


def canonical_address(address: str) -> str | None:
    """`local@domain` in the form lists compare, or None if `address` is not one plain address."""
    text = address.strip()
    if not _PLAIN.fullmatch(text):
        return None
    local, _, domain = text.rpartition("@")
    ascii_domain = canonical_domain(domain)
    return None if ascii_domain is None else f"{local.casefold()}@{ascii_domain}"


def canonical_domain(domain: str) -> str | None:
    """The domain lower-cased in ASCII, without a final dot; None if it cannot be one."""
    text = _DOTS.sub(".", domain.strip()).removesuffix(".")
    if not text or any(char in text for char in "@<>, \t\r\n"):
        return None
    try:
        return text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return text.lower() if text.isascii() else None


def check_entry(entry: str) -> str:
    """A list entry in canonical form. Raises `Invalid` if it is neither an address nor a domain."""
    rule = entry.strip()
    canonical = canonical_address(rule) if "@" in rule[1:] else canonical_domain(rule.removeprefix("@"))
    if canonical is None:
        raise Invalid(
            "a list entry is one address or one domain",
            fix="write user@example.com or example.com",
            errors=[{"path": ["entry"], "message": "neither an address nor a domain", "code": "invalid_entry"}],
        )
    return canonical
