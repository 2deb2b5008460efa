"""What is new in a config that was read again: of it, only waking is taken over while the house runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from postroom.config.shapes import Agent, Config


def changed(before: Config, after: Config) -> tuple[str, ...]:
    """The keys whose values differ, as they are written in the file."""
    names: list[str] = []
    for section in fields(Config):
        old, new = getattr(before, section.name), getattr(after, section.name)
        if section.name != "agents":
            names += _differing(section.name, old, new)
            continue
        for agent in sorted({*old, *new}):
            names += _differing(f"agents.{agent}", old.get(agent, Agent()), new.get(agent, Agent()))
    return tuple(names)


def is_live(key: str) -> bool:
    """Whether a change of this key takes effect without a restart."""
    return key == "inbound.wake_idle_agent" or (key.startswith("agents.") and key.endswith(".wake"))


def _differing(at: str, old: Any, new: Any) -> Iterator[str]:
    return (f"{at}.{key.name}" for key in fields(old) if getattr(old, key.name) != getattr(new, key.name))
