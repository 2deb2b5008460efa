"""Bodies of webhooks: the same frames the WebSocket carries, their shapes loaded by the first one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from postroom.model.event import Event
from postroom.model.ports import Mail
from postroom.model.principal import SYSTEM

if TYPE_CHECKING:
    from postroom.interfaces.rest.frames import Frames


class WebhookBodies:
    """Renders events for the office, as the house itself sees them: only its owner makes webhooks."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._frames: Frames | None = None

    async def __call__(self, event: Event) -> bytes | None:
        if self._frames is None:
            self._frames = await asyncio.to_thread(self._load)
        return await self._frames.frame(SYSTEM, event)

    def _load(self) -> Frames:
        from postroom.interfaces.rest.frames import Frames

        return Frames(self._mail)
