"""AUTH PLAIN and AUTH LOGIN (RFC 4954, RFC 4616): two lines of base64 on the way to a name and a password."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Final

from postroom.interfaces.smtp.commands import BadCommand

MECHANISMS: Final = ("PLAIN", "LOGIN")
_USERNAME, _PASSWORD = "VXNlcm5hbWU6", "UGFzc3dvcmQ6"  # "Username:" and "Password:", as every client expects them

Ask = Callable[[str], Awaitable[str]]


async def read_credentials(argument: str | None, ask: Ask) -> tuple[str, str]:
    """Name and password. `ask` says a challenge and answers the peer's line. Raises `BadCommand`."""
    mechanism, _, initial = (argument or "").partition(" ")
    if mechanism.upper() == "PLAIN":
        parts = _decoded(initial.strip() or await ask("")).split("\0")
        if len(parts) != 3 or (parts[0] and parts[0] != parts[1]):
            raise BadCommand("501 5.5.2 PLAIN is a name and a password, nobody acts for another")
        return parts[1], parts[2]
    if mechanism.upper() == "LOGIN":
        name = _decoded(initial.strip() or await ask(_USERNAME))
        return name, _decoded(await ask(_PASSWORD))
    raise BadCommand("504 5.5.4 AUTH knows PLAIN and LOGIN")


def _decoded(line: str) -> str:
    if line == "*":
        raise BadCommand("501 5.7.0 AUTH was given up")
    if line == "=":
        return ""
    try:
        return base64.b64decode(line.encode("ascii"), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeError):
        raise BadCommand("501 5.5.2 This is not base64") from None
