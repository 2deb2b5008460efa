"""Who speaks and who is spoken to.

An agent's token speaks for its own agent and no other; a claim that differs is refused, never
corrected, because quietly rewriting it would hide an impersonation. The owner's key may name any
participant. Every authenticated call of an agent counts as presence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from postroom.errors import Conflict, Forbidden
from postroom.mailbox.names import EVERYONE, OWNER, participant, recipient, unknown
from postroom.mailbox.roster import Roster
from postroom.model.principal import Principal
from postroom.safety.confusables import skeleton

Directory: TypeAlias = Callable[[], Awaitable[Sequence[str]]]  # names of the agents there are
_OBSERVER = "observer"


class Identity:
    """The rules of names over one roster."""

    def __init__(self, roster: Roster, directory: Directory, domains: Sequence[str]) -> None:
        self._roster = roster
        self._directory = directory
        self._domains = tuple(domains)

    def reader(self, principal: Principal, claimed: str | None) -> str:
        """The reader this call is for."""
        if not principal.is_owner:
            return self._own(principal, claimed, "reader")
        return OWNER if claimed is None else participant(claimed, self._domains, "reader")

    async def speaker(self, principal: Principal, claimed: str | None) -> str:
        """The author of what is written. Raises `Forbidden` for who may only read."""
        if not principal.is_owner:
            if principal.profile == _OBSERVER:
                raise Forbidden("an observer reads and never writes", fix="ask the owner for another profile")
            return self._own(principal, claimed, "from")
        name = OWNER if claimed is None else participant(claimed, self._domains, "from")
        await self.admit(name)
        self._roster.seen(name, is_agent=False)
        return name

    async def addressee(self, to: str) -> str:
        """Whom it goes to: everyone, an agent, or someone announced. Raises `Invalid` with near names."""
        name = recipient(to, self._domains)
        if name == EVERYONE or self._roster.get(name) is not None:
            return name
        agents = await self._directory()
        if name in agents:
            self._roster.enter(name, is_agent=True)
            return name
        await self._roster.refresh()  # it may have announced itself at another node
        if self._roster.get(name) is None:
            raise unknown(name, {*self._roster.names(), *agents})
        return name

    def name(self, text: str, field: str) -> str:
        """A name given as a filter."""
        return participant(text, self._domains, field)

    async def admit(self, name: str) -> None:
        """A new participant may have this name. Raises `Conflict` when it can be taken for another's."""
        if self._roster.get(name) is not None:
            return
        seen_as = skeleton(name)
        agents = await self._directory()
        twin = next((one for one in (*self._roster.names(), *agents) if one != name and skeleton(one) == seen_as), None)
        if twin is not None:
            raise Conflict("the name can be taken for another participant's", code="name_taken", fix="choose another name")

    async def agents(self) -> frozenset[str]:
        """The agents there are."""
        return frozenset(await self._directory())

    def _own(self, principal: Principal, claimed: str | None, field: str) -> str:
        own = principal.name or ""
        if claimed is not None and participant(claimed, self._domains, field) != own:
            raise Forbidden("a token speaks for its own agent only", fix=f"leave {field} out, or name your own agent")
        self._roster.seen(own, is_agent=True)
        return own
