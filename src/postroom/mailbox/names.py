"""What a participant may be called. One form everywhere: trimmed, NFC, compared as it is.

`bob` and `bob@postroom.localhost` are one agent. `*` is everyone, and nobody's name. An address
elsewhere belongs to email, and the refusal says so.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from postroom.errors import Invalid
from postroom.safety.confusables import skeleton
from postroom.safety.unicode import is_removable

EVERYONE: Final = "*"
OWNER: Final = "owner"
NAME_UNITS: Final = 64  # of UTF-16
_NEAR: Final = 3
_LONGEST: Final = 512  # of an argument that is looked at at all: a name, an address, spaces around it


def participant(text: str, domains: Sequence[str], field: str = "name") -> str:
    """The name in its one form. Raises `Invalid` naming the field."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise wrong(field, f"{field} must be text, at most {NAME_UNITS} characters")
    return _one_form(text, tuple(domains), field)


@lru_cache(maxsize=4096)
def _one_form(text: str, domains: tuple[str, ...], field: str) -> str:
    name = unicodedata.normalize("NFC", text.strip(" "))
    name = _local(name, domains, field) if "@" in name else name
    if name == EVERYONE:
        raise wrong(field, "the name * is reserved: it means everyone")
    if not name or name != name.strip():
        raise wrong(field, f"{field} must not be blank")
    if len(name.encode("utf-16-le", "surrogatepass")) > 2 * NAME_UNITS:
        raise wrong(field, f"{field} is longer than {NAME_UNITS} characters")
    if any(char in "\t\n" or is_removable(char) or unicodedata.category(char) in ("Zl", "Zp") for char in name):
        raise wrong(field, f"{field} holds a control or invisible character")
    if name.startswith("#"):
        raise wrong(field, f"{field} must not begin with #")
    return name


def recipient(text: str, domains: Sequence[str]) -> str:
    """A name, or `*` for everyone."""
    if isinstance(text, str) and text.strip() == EVERYONE:
        return EVERYONE
    return participant(text, domains, "to")


def unknown(name: str, known: Iterable[str]) -> Invalid:
    """Nobody is called `name`; the error names who is near."""
    alike = {skeleton(other): other for other in known}
    near = [alike[found] for found in get_close_matches(skeleton(name), list(alike), n=_NEAR, cutoff=0.5)]
    fix = f"did you mean {', '.join(near)}?" if near else "see mailbox_peers for who is here"
    return Invalid(
        "there is no participant of that name; an agent is added by the owner, others announce themselves",
        code="unknown_participant",
        fix=fix,
        errors=[{"path": ["to"], "message": "unknown participant", "code": "unknown_participant"}],
    )


def wrong(field: str, message: str, code: str = "invalid") -> Invalid:
    """One wrong field."""
    return Invalid(message, errors=[{"path": [field], "message": message, "code": code}])


def _local(name: str, domains: Sequence[str], field: str) -> str:
    local, _, domain = name.rpartition("@")
    if domain.lower() not in {each.lower() for each in domains}:
        raise Invalid(
            "that is an email address outside this house; the mailbox is between participants",
            code="outside_address",
            fix="use agentmail_send_message to write email",
            errors=[{"path": [field], "message": "an outside address", "code": "outside_address"}],
        )
    return local
