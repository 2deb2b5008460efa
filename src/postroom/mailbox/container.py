"""Is the data folder the private copy that Windows gives a packaged app? Two apps would have two mailboxes and not know.

Windows redirects AppData for a packaged app into the app's own LocalCache. A process inside cannot
see that; the path it was given shows it all the same, and the owner is told.
"""

from __future__ import annotations

import re
from typing import Final

_CONTAINER: Final = re.compile(r"[\\/]AppData[\\/]Local[\\/]Packages[\\/]([^\\/]+)[\\/]LocalCache(?:[\\/]|$)", re.IGNORECASE)


def container_of(path: str | None) -> str | None:
    """The packaged app whose private copy `path` lies in, None for any other path."""
    found = _CONTAINER.search(path) if path else None
    return found[1] if found else None


def warning_for(path: str | None) -> str | None:
    """What the owner should know of such a path."""
    app = container_of(path)
    if app is None:
        return None
    return (
        f"the data folder lies in the private storage of {app}: programs started by other apps see another, empty mailbox; "
        "start postroom with --data and a folder outside AppData"
    )
