"""What the hosted service has and this server does not, so that a 404 can say so.

Found by the words in a path, the most telling first.
"""

from __future__ import annotations

from typing import Final

_ABSENT: Final = (
    ("agent-armor", "Agent Armor"),
    ("calendar", "calendars"),
    ("files", "file storage"),
    ("polling", "polling webhooks"),
    ("labs", "labs"),
    ("authorize", "signing in to apps"),
    ("accounts", "app accounts"),
    ("apps", "apps"),
    ("agent", "agent sign-up"),
    ("pods", "this resource below a pod"),
)


def missing(path: str) -> str | None:
    """A sentence naming the missing part of the API that `path` belongs to; None if it belongs to none."""
    words = set(path.split("/"))
    return next((f"{name}: not offered by this server" for word, name in _ABSENT if word in words), None)


def not_offered(what: str) -> str:
    """The same sentence for a verb whose backend does not have it."""
    return f"{what}: not offered by this server"
