"""What may name things: an inbox's address and display name, a `client_id`, metadata. Pure checks."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from postroom.errors import Forbidden, Invalid
from postroom.limits import DISPLAY_NAME_CHARS, KEY_CHARS
from postroom.model.hostname import ascii_domain

_USERNAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_+-]|\.(?!\.)){0,62}[a-z0-9]|[a-z0-9]")
_CLIENT_ID: Final = re.compile(rf"[A-Za-z0-9\-._~]{{1,{KEY_CHARS}}}")
_NOT_IN_NAME: Final = re.compile(r'[()<>@,;:\\"\[\]\x00-\x1f\x7f-\x9f\u2028\u2029]')
_METADATA_KEYS: Final = 256
_MOODS: Final = (
    "amber",
    "brisk",
    "calm",
    "clear",
    "early",
    "fair",
    "gentle",
    "keen",
    "light",
    "mellow",
    "quick",
    "steady",
    "warm",
)
_THINGS: Final = (
    "birch",
    "brook",
    "crane",
    "dune",
    "finch",
    "harbor",
    "heron",
    "lark",
    "maple",
    "meadow",
    "otter",
    "river",
    "wren",
)


def check_username(username: str) -> str:
    """The local part of an inbox's address, lower-cased. Raises `Invalid`."""
    name = username.strip().lower()
    if not _USERNAME.fullmatch(name):
        raise _invalid("username", "use 1 to 64 of a-z, 0-9, '.', '_', '+', '-', starting and ending with a letter or digit")
    return name


def check_domain(domain: str, domains: tuple[str, ...]) -> str:
    """One of the configured domains. Raises `Forbidden`."""
    name = ascii_domain(domain.strip())
    if name is None or name not in domains:
        raise Forbidden(
            "that domain is not one of this office's",
            code="domain_not_verified",
            fix=f"use one of: {', '.join(domains)} ; the owner adds one with POST /v0/domains or office.domains in the config",
        )
    return name


def check_display_name(name: str | None) -> str | None:
    """Raises `Invalid` for characters that would change how a From header reads."""
    if name is None:
        return None
    if len(name) > DISPLAY_NAME_CHARS:
        raise _invalid("display_name", f"at most {DISPLAY_NAME_CHARS} characters")
    if _NOT_IN_NAME.search(name):
        raise _invalid("display_name", 'none of ( ) < > @ , ; : \\ " [ ] and no control characters')
    return name.strip()


def check_client_id(client_id: str | None) -> str | None:
    if client_id is not None and not _CLIENT_ID.fullmatch(client_id):
        raise _invalid("client_id", f"use 1 to {KEY_CHARS} of A-Z, a-z, 0-9, '-', '.', '_', '~'")
    return client_id


def check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """At most 256 keys, each with a string, number or boolean. Raises `Invalid`."""
    if len(metadata) > _METADATA_KEYS:
        raise _invalid("metadata", f"at most {_METADATA_KEYS} keys")
    for key, value in metadata.items():
        if len(key) > KEY_CHARS or not isinstance(value, str | int | float | bool):
            raise _invalid("metadata", f"keys have at most {KEY_CHARS} characters; values are text, numbers or booleans")
        if isinstance(value, str) and len(value) > KEY_CHARS:
            raise _invalid("metadata", f"text values have at most {KEY_CHARS} characters")
    return dict(metadata)


def random_username() -> str:
    return f"{secrets.choice(_MOODS)}{secrets.choice(_THINGS)}{secrets.randbelow(9000) + 1000}"


def _invalid(field: str, rule: str) -> Invalid:
    message = f"{field}: {rule}"
    return Invalid(message, errors=[{"path": [field], "message": rule, "code": "invalid_value"}])
