"""What an agent may be called. The name is also the local part of its address, so the rule is narrow."""

from __future__ import annotations

import re

from postroom.errors import Invalid

PROFILES = ("observer", "correspondent", "clerk")
RESERVED = frozenset({"owner", "system"})  # they stand for other principals in the audit
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)
_CHARS = 64


def check_name(name: str) -> str:
    """The name, if it may be one. Raises `Invalid`."""
    if len(name) > _CHARS or not _NAME.fullmatch(name):
        raise _wrong(
            "name", "an agent's name is 1 to 64 lowercase letters, digits, `.`, `_` and `-`, with no dot at an end or doubled"
        )
    if name in RESERVED:
        raise _wrong("name", f"the name {name} is reserved")
    return name


def check_profile(profile: str) -> str:
    """The profile, if there is one of that name. Raises `Invalid`."""
    if profile not in PROFILES:
        raise _wrong("profile", f"a profile is one of {', '.join(PROFILES)}")
    return profile


def _wrong(field: str, message: str) -> Invalid:
    return Invalid(message, errors=[{"path": [field], "message": message, "code": "invalid"}])
