"""When an entry of a list (limit, trusted, blocked) means a given address.

An entry is a full address, a domain, or `@domain`; a domain does not stand for its sub-domains.
Both sides are compared in one canonical form: case folded, domain in the spelling mail servers are told.
Only a single plain address can match: a display name, a group, a second address or a line break
makes it none, so no entry can be met by an address hidden beside another.
"""

from __future__ import annotations

import re

from postroom.errors import Invalid
from postroom.model.hostname import ascii_domain

_PLAIN = re.compile(r'[^\s<>()\[\],;:"\\@\x00-\x1f\x7f]+@[^\s<>()\[\],;:"\\@\x00-\x1f\x7f]+')
_FINAL_DOT = re.compile("[.\u3002\uff0e\uff61]$")
_QUOTED_ATOM = re.compile(r'^"([^\s<>()\[\],;:"\\@]+)"@')  # "bob"@example.com is bob@example.com


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
    """`local@domain` in the form lists compare, or None if `address` is not one plain address.

    Only ASCII letters are folded in the local part: folding others would equate different mailboxes.
    """
    text = _QUOTED_ATOM.sub(r"\1@", address.strip())
    if not _PLAIN.fullmatch(text):
        return None
    local, _, domain = text.rpartition("@")
    ascii_domain = canonical_domain(domain)
    folded = "".join(char.lower() if char.isascii() else char for char in local)
    return None if ascii_domain is None else f"{folded}@{ascii_domain}"


def canonical_domain(domain: str) -> str | None:
    """The domain as `model.hostname` compares it, without a final dot; None if it cannot be one."""
    return ascii_domain(_FINAL_DOT.sub("", domain.strip()))


def check_entry(entry: str) -> str:
    """A list entry in canonical form. Raises `Invalid` if it is neither an address nor a domain.

    A `*` may stand in an address, but who writes one here means a pattern, and no entry is one.
    """
    rule = entry.strip()
    canonical = canonical_address(rule) if "@" in rule[1:] else canonical_domain(rule.removeprefix("@"))
    if canonical is None or "*" in rule:
        raise Invalid(
            "a list entry is one address or one domain",
            fix="write user@example.com or example.com",
            errors=[{"path": ["entry"], "message": "neither an address nor a domain", "code": "invalid_entry"}],
        )
    return canonical
