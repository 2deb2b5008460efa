"""The config read again while the house runs: whom mail wakes is taken over, everything else is said to need a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from postroom.config import Config
from postroom.config.changes import changed, is_live
from postroom.model.principal import Principal, require_owner
from postroom.sessions.room import Sessions
from postroom.sessions.waking import Waking

log = structlog.get_logger("postroom")


class Reload:
    """Reads by `read`, which raises `Invalid` for a config that cannot be meant: then nothing changes."""

    def __init__(self, read: Callable[[], Config], running: Config, *, waking: Waking, sessions: Sessions) -> None:
        self._read = read
        self._started = self._latest = running
        self._waking = waking
        self._sessions = sessions

    async def __call__(self, principal: Principal) -> Mapping[str, Sequence[str]]:
        """The keys that were taken over, and those whose change waits for a restart (owner only)."""
        require_owner(principal, "reload the config")
        fresh = await asyncio.to_thread(self._read)
        taken = [key for key in changed(self._latest, fresh) if is_live(key)]
        self._latest = fresh
        self._waking.take(fresh)
        await self._sessions.reconsider()
        rest = [key for key in changed(self._started, fresh) if not is_live(key)]
        log.info("config_read_again", taken=taken, restart=rest)
        return {"taken": taken, "restart": rest}
