"""Whether mail may start an agent's sessions: as the config has it, which its owner may change while the house runs."""

from __future__ import annotations

import asyncio

from postroom.config import Config


class Waking:
    """The present word of the config."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._changed = asyncio.Event()  # set, and replaced, with each change

    def may(self, agent: str) -> bool:
        """Whether mail starts a turn of this agent."""
        settings = self._config.agents.get(agent)
        if settings is not None and settings.wake is not None:
            return settings.wake
        return self._config.inbound.wake_idle_agent

    def take(self, config: Config) -> None:
        """Go by this config from now on."""
        self._config = config
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()
