"""When an entry of a list (limit, trusted, blocked) means a given address.

An entry is a full address, a domain, or `@domain`; a domain does not stand for its sub-domains.
Both sides are compared in one canonical form: case folded, domain in its ASCII (IDNA) spelling.
Only a single plain address can match: a display name, a group, a second address or a line break
makes it none, so no entry can be met by an address hidden beside another.
"""

from __future__ import annotations

import re
import unicodedata

from postroom.errors import Invalid

_PLAIN = re.compile(r'[^\s<>()\[\],;:"\\@\x00-\x1f\x7f]+@[^\s<>()\[\],;:"\\@\x00-\x1f\x7f]+')
_QUOTED_ATOM = re.compile(r'^"([^\s<>()\[\],;:"\\@]+)"@')  # "bob"@example.com is bob@example.com
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_DOTS = re.compile("[\u3002\uff0e\uff61]")
_DOMAIN_CHARS = 253


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
    """The domain lower-cased in ASCII (IDNA 2008 without its tables), no final dot; None if it cannot be one."""
    text = _DOTS.sub(".", domain.strip()).removesuffix(".")
    labels = [_ascii_label(label) for label in text.split(".")]
    return None if not all(labels) or len(text) > _DOMAIN_CHARS else ".".join(label for label in labels if label)


def _ascii_label(label: str) -> str | None:
    if label.isascii():
        return label.lower() if _LABEL.fullmatch(label) else None
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label).lower())
    if folded.isascii():
        return _ascii_label(folded)
    if any(unicodedata.category(char)[0] not in "LMN" and char != "-" for char in folded):
        return None
    return "xn--" + folded.encode("punycode").decode("ascii")


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
