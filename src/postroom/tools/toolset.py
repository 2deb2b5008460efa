"""What a door offers: tools by name, for one caller; and several sets offered as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from postroom.model.principal import Principal
from postroom.tools.result import ToolResult, failed, unknown
from postroom.tools.schemas import ToolSpec


class Toolset(Protocol):
    """A set of tools. `owns` says which names are its own, whether or not the caller may use them."""

    def owns(self, name: str) -> bool: ...

    def specs(self, principal: Principal) -> list[ToolSpec]:
        """The tools that exist for this caller, always in the same order."""
        ...

    async def call(
        self,
        principal: Principal,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        inbox: str | None = None,
        canonical: bool = False,
    ) -> ToolResult:
        """Run one tool. Never raises."""
        ...

    async def instructions(self, principal: Principal) -> str:
        """What a client tells its model about these tools; empty when there is nothing to say."""
        ...


class Joined:
    """Several sets as one: the sum of their tools and of what they say."""

    def __init__(self, sets: Sequence[Toolset]) -> None:
        self._sets = sets

    def owns(self, name: str) -> bool:
        """Whether any of the sets has this tool."""
        return any(each.owns(name) for each in self._sets)

    def specs(self, principal: Principal) -> list[ToolSpec]:
        """All tools, set by set."""
        return [spec for each in self._sets for spec in each.specs(principal)]

    async def call(
        self,
        principal: Principal,
        name: str,
        arguments: Mapping[str, Any],
        *,
        call_id: str | None = None,
        inbox: str | None = None,
        canonical: bool = False,
    ) -> ToolResult:
        """Run the tool in the set that has it."""
        for each in self._sets:
            if each.owns(name):
                return await each.call(principal, name, arguments, call_id=call_id, inbox=inbox, canonical=canonical)
        return failed(unknown(name))

    async def instructions(self, principal: Principal) -> str:
        """What every set says."""
        said = [await each.instructions(principal) for each in self._sets]
        return " ".join(filter(None, said))
