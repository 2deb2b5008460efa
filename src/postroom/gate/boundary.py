"""Is the gate a wall for the caller, or a rule? A judgement from what the operating system says.

An agent under another OS user (or in a container) reaches its token and the network only: a *wall*.
One that runs as the daemon's own user, or as root, could read the owner's key: then the gate is a
*rule* it is asked to keep. In doubt it is a rule, and the reason is said wherever an approval is asked.
"""

from __future__ import annotations

from postroom.model.outgoing import Boundary

_OTHERS = 0o077


def judge(peer_uid: int | None, own_uid: int, folder_mode: int) -> tuple[Boundary, str]:
    """Which boundary stands between a caller of `peer_uid` and the owner's key, and why.

    `folder_mode` is the data folder's permission bits (`stat.S_IMODE`).
    """
    if peer_uid is None:
        return "rule", "the caller's OS user is not known"
    if peer_uid == 0:
        return "rule", "the caller runs as root and can read the owner's key"
    if peer_uid == own_uid:
        return "rule", "the caller runs as postroom's own OS user and can read the owner's key"
    if folder_mode & _OTHERS:
        return "rule", f"the data folder is open to other OS users (mode {folder_mode & 0o777:04o}, should be 0700)"
    return "wall", f"the caller runs as OS user {peer_uid}, postroom as {own_uid}; the data folder is closed to it"
